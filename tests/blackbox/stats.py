# SPDX-License-Identifier: Apache-2.0
"""Chances of random counts, for tests of draws."""
import math


def gamma_q(a, x):
    """The regularised upper incomplete gamma function Q(a, x).

    A series for the lower part where it converges fast (x < a + 1), else the continued fraction
    of the upper part, by Lentz's method.
    """
    if x <= 0:
        return 1.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1.0 / a
        n = a
        while abs(term) > abs(total) * 1e-16:
            n += 1
            term *= x / n
            total += term
        return 1.0 - total * scale
    tiny = 1e-300
    b = x + 1 - a
    c = 1 / tiny
    d = 1 / b
    h = d
    for i in range(1, 10000):
        factor = -i * (i - a)
        b += 2
        d = 1 / (factor * d + b or tiny)
        c = b + factor / c or tiny
        h *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return h * scale


def chi_square_p(observed, expected):
    """Chance of a chi-square at least this large; equal totals, so one degree of freedom less."""
    if len(observed) < 2:
        return 1.0
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected))
    return gamma_q((len(observed) - 1) / 2, statistic / 2)


def poisson_tail(count, mean):
    """Chance of `count` or more where `mean` are expected (an upper bound's model for rare cells)."""
    if count == 0:
        return 1.0
    return 1.0 - gamma_q(count, mean)


def shares_p(counts, probabilities, draws):
    """How likely `counts` (name -> how often) are as `draws` draws with these probabilities.

    Cells of at least 5 expected go into a chi-square test, given how many draws fell in them; the
    others together are judged by their Poisson tail.  The smaller of both chances.
    """
    assert sum(counts.values()) == draws
    assert set(counts) <= set(probabilities), (counts, probabilities)
    large = [n for n, p in probabilities.items() if p * draws >= 5]
    rare_mean = sum(p * draws for n, p in probabilities.items() if n not in large)
    rare = sum(counts.get(n, 0) for n in probabilities if n not in large)
    observed = [counts.get(n, 0) for n in large]
    share = sum(probabilities[n] for n in large)
    expected = [(draws - rare) * probabilities[n] / share for n in large]
    chance = chi_square_p(observed, expected)
    return min(chance, poisson_tail(rare, rare_mean)) if rare_mean > 0 else chance

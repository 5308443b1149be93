# SPDX-License-Identifier: Apache-2.0
"""What Route 53 would answer from the records and health checks that it holds, by AWS's documented rules."""
import fractions


class Answers:
    """For an account that has `checks` (id -> {"config": ...}) and of(name, type), which lists its record sets."""

    def __init__(self):
        self.healthy = {}  # health check id -> what its probes say
        self.probe = lambda config: True  # what they say of others

    def is_up(self, number):
        config = self.checks[number]["config"]
        up = True if config.get("Disabled") == "true" else self.healthy.get(number, self.probe(config))
        return up != (config.get("Inverted") == "true")

    def is_healthy(self, item):
        """A record without a check is healthy; an alias that evaluates its target is if any there is."""
        if item.health and not self.is_up(item.health):
            return False
        if item.alias and item.alias["EvaluateTargetHealth"] == "true":
            return any(self.is_healthy(s) for s in self.of(item.alias["DNSName"], item.type))
        return True

    def answer(self, name, rdtype, place):
        """{values: probability}; place: (continent, country, state)."""
        items = self.of(name, rdtype)
        if not items:
            return {}
        policy = items[0].policy
        if policy == "geo":
            item = self.choose_place(items, place)
            return {} if item is None else self.follow(item, place)
        if policy == "failover":
            primary = next(s for s in items if s.failover == "PRIMARY")
            secondary = next((s for s in items if s.failover == "SECONDARY"), None)
            use = secondary if secondary and not self.is_healthy(primary) and self.is_healthy(secondary) else primary
            return self.follow(use, place)
        if policy == "weighted":
            return self.draw(items, place)
        return self.follow(items[0], place)

    def follow(self, item, place):
        if item.alias:
            return self.answer(item.alias["DNSName"], item.type, place)
        return {tuple(sorted(item.values)): fractions.Fraction(1)}

    def choose_place(self, items, place):
        """The smallest place that is healthy; if none of them is, the smallest."""
        continent, country, state = place
        wanted = ({"CountryCode": country, "SubdivisionCode": state}, {"CountryCode": country},
                  {"ContinentCode": continent}, {"CountryCode": "*"})
        found = [item for region in wanted for item in items if item.geo == region]
        return next((item for item in found if self.is_healthy(item)), found[0] if found else None)

    def draw(self, items, place):
        """Non-zero weights first; zero ones when no other is healthy; all when none is."""
        heavy = [s for s in items if s.weight > 0]
        group = ([s for s in heavy if self.is_healthy(s)] or [s for s in items if s.weight == 0 and self.is_healthy(s)]
                 or heavy or items)
        total = sum(s.weight for s in group)
        out = {}
        for item in group:
            share = fractions.Fraction(item.weight, total) if total else fractions.Fraction(1, len(group))
            for values, chance in self.follow(item, place).items():
                out[values] = out.get(values, 0) + share * chance
        return {values: chance for values, chance in out.items() if chance}

# SPDX-License-Identifier: Apache-2.0
"""Single probes, as the checker makes them: runs the build's probe_once (tests/probe)."""
import json

import sluicelib

DEFAULTS = {
    "http": {"port": 80, "path": "/", "method": "GET", "headers": {}, "follow_redirects": False,
             "expect": {"status": [[200, 299]]}},
    "https": {"port": 443, "path": "/", "method": "GET", "headers": {}, "follow_redirects": False, "verify": True,
              "expect": {"status": [[200, 299]]}},
    "tcp": {"expect": {}},
    "dns": {"port": 53, "name": "www.example.com", "rrtype": "A", "expect": {"rcode": "NOERROR"}},
    "icmp": {},
    "exec": {},
}


def settings(kind, timeout=5000, **more):
    """Merged settings of a check (zones/config_health.h); `expect` is merged over the default one."""
    merged = {"type": kind, "timeout": timeout, "interval": timeout, "rise": 1, "fall": 1, **DEFAULTS[kind]}
    expect = {**merged.get("expect", {}), **more.pop("expect", {})}
    merged.update(more)
    if expect:
        merged["expect"] = expect
    return merged


def command(check, *options):
    """What runs probes of the targets that are appended."""
    return [sluicelib.program("probe_once"), *options, json.dumps(check)]


def probes(check, targets, *options, programs=None, timeout=sluicelib.DEADLINE, prefix=()):
    """Probes all targets at once; the results in the order in which they came.  Also checks that
    nothing was left behind (sanitizers, descriptors)."""
    argv = [*prefix, sluicelib.program("probe_once"), *options]
    for name, program in (programs or {}).items():
        argv += ["--program", f"{name}={json.dumps([str(a) for a in program])}"]
    done = sluicelib.run(*argv, "--", json.dumps(check), *targets, timeout=timeout)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def probe(check, target, *options, **keywords):
    """The result of one probe: ok, reason, phases, own_fault."""
    (result,) = probes(check, [target], *options, **keywords)
    return result


def measured(check, targets, *options, **keywords):
    """Results as of probes(), and what they took: {"cpu_us", "grown_kb"}."""
    *results, usage = probes(check, targets, "--usage", *options, **keywords)
    return results, usage

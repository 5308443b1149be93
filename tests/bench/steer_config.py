#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a sluice configuration of the benchmark's steered names, and builds it.

  steer_config.py SPEC MODE DIR SLUICE

SPEC is a JSON file: `origin`; `regions`, for each name its continents; `weighted`, for each name a
pool; `geo`, for each name one pool for each region.  A pool is a list of [weight, IPv4 address].
MODE is `weighted` or `geo`.  DIR gets `config/` and `data/`; SLUICE is the program `sluice`.
"""
import json
import os
import subprocess
import sys

ZONE = """soa: {{mname: ns1.{0}., rname: hostmaster.{0}., refresh: 3600, retry: 900, expire: 1209600, minimum: 300}}
ttl: 300
ns: [ns1.{0}.]
records:
  ns1: {{A: [192.0.2.1]}}
"""


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def region_name(name):
    # The bare names look like continents and countries, which a defined region must not.
    return f"pool-{name}"


def defaults(spec):
    lines = ["regions:\n"]
    for name, continents in spec["regions"].items():
        lines.append(f"  {region_name(name)}: [{', '.join(c.lower() for c in continents)}]\n")
    return "".join(lines)


def domain(pools):
    """`pools`: for each region its pool; the first one also stands for the rest of the world."""
    text = "ttl: 300\nendpoints:\n"
    weights = {}
    for region, pool in pools.items():
        names = [f"{region}-{i}" for i in range(len(pool))]
        text += "".join(f"  {name}: {address}\n" for name, (_, address) in zip(names, pool))
        weights[region] = "{%s}" % ", ".join(f"{name}: {weight}" for name, (weight, _) in zip(names, pool))
    first = next(iter(weights.values()))
    text += f"regions:\n  global: {first}\n"
    if len(pools) > 1:
        text += "".join(f"  {region_name(region)}: {shares}\n" for region, shares in weights.items())
    return text


def main():
    if len(sys.argv) != 5 or sys.argv[2] not in ("weighted", "geo"):
        sys.exit(__doc__)
    spec_file, mode, directory, sluice = sys.argv[1:]
    with open(spec_file, encoding="utf-8") as file:
        spec = json.load(file)
    config = os.path.join(directory, "config")
    put(f"{config}/defaults.yaml", defaults(spec))
    put(f"{config}/{spec['origin']}/zone.yaml", ZONE.format(spec["origin"]))
    for name, pool in spec[mode].items():
        pools = pool if mode == "geo" else {"all": pool}
        put(f"{config}/{spec['origin']}/{name}/domain.yaml", domain(pools))
    subprocess.run([sluice, "build", config, "--out", os.path.join(directory, "data")], check=True,
                   stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What checking costs: sluice-healthd with many HTTP checks of 127.0.0.0/8, each every ten seconds.

    SLUICE_BUILD=build-release tests/bench/health_load.py [checks [seconds]]

Prints CPU (of one core), CPU for each probe, memory, and how late the latest probe was.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/blackbox"))
import healthlib  # noqa: E402
import sluicelib  # noqa: E402

PER_DOMAIN = 100
TICKS = os.sysconf("SC_CLK_TCK")


def address(number):
    return f"127.{1 + number // 65000}.{number // 250 % 256}.{1 + number % 250}"


def domain(first, count, port):
    endpoints = "".join(f"  e{i}: [{address(i)}]\n" for i in range(first, first + count))
    shares = "".join(f"    e{i}: 1\n" for i in range(first, first + count))
    return (f"ttl: 30\nhealth: {{type: http, port: {port}, path: /ping, interval: 10s, timeout: 3s, rise: 2, fall: 3}}\n"
            f"endpoints:\n{endpoints}regions:\n  global:\n{shares}")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def main():
    checks = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    listener = subprocess.Popen([sluicelib.BUILD / "tests/bench/probe_bench", "listen"], stdout=subprocess.PIPE, text=True)
    port = int(listener.stdout.readline())
    with tempfile.TemporaryDirectory() as folder:
        domains = {f"d{i // PER_DOMAIN}": domain(i, min(PER_DOMAIN, checks - i), port)
                   for i in range(0, checks, PER_DOMAIN)}
        config = sluicelib.write_tree(f"{folder}/config", sluicelib.config_files(domains))
        data = sluicelib.build(config, f"{folder}/data")
        with healthlib.Healthd(data, "--rate", "5000") as healthd:
            pid = healthd.proc.pid
            time.sleep(15)  # the first verdicts are sought faster
            before, cpu, start = healthd.status(), cpu_seconds(pid), time.monotonic()
            time.sleep(seconds)
            after, cpu, took = healthd.status(), cpu_seconds(pid) - cpu, time.monotonic() - start
            done = after["probes"]["done"] - before["probes"]["done"]
            print(f"{checks} checks, {done / took:.0f} probes/s: {100 * cpu / took:.1f}% of a core, "
                  f"{1e6 * cpu / done:.0f} us each, {memory_mb(pid, 'VmRSS'):.0f} MB (peak {memory_mb(pid, 'VmHWM'):.0f}), latest {after['probes']['late_max_ms']} ms "
                  f"late, {after['states']}")
    listener.terminate()
    listener.wait()


if __name__ == "__main__":
    main()

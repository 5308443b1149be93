#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long a `git push` of one changed domain takes until it is live.

  tests/bench/push.py [--domains 1000] [--zones 1] [--rounds 10]

Makes a repository with so many steered domains in so many zones, a bare repository that deploys, and
a server on 127.0.0.1; then changes one address, commits, and measures from the start of `git push`
to its end, after which the new answer must be there.  $SLUICE_BUILD is the build directory (one
without sanitizers).
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))
import sluicelib  # noqa: E402

DOMAIN = """\
ttl: 30
owner: team
endpoints:
  one: [192.0.2.1, "2001:db8::1"]
  two: [{address}, "2001:db8::2"]
  three: [192.0.2.3, "2001:db8::3"]
regions:
  global:
    - {{two: 1, one: 0}}
    - {{three: 1}}
  eu: [{{two: 3, three: 1}}, {{one: 1}}]
  us-ny: {{two: 1, three: 2}}
health: {{type: http, path: /ping, interval: 10s, timeout: 2s}}
"""
ZONE = sluicelib.ZONE


def git(work, *args):
    env = dict(os.environ, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.net", GIT_COMMITTER_NAME="a",
               GIT_COMMITTER_EMAIL="a@example.net")
    subprocess.run(["git", "-C", work, *args], check=True, env=env, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def write_domain(work, zone, domain, address):
    folder = work / f"z{zone}.example" / f"d{domain}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "domain.yaml").write_text(DOMAIN.format(address=address), encoding="ascii")


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--domains", type=int, default=1000)
    parser.add_argument("--zones", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp"), ignore_cleanup_errors=True) as folder:
        root = pathlib.Path(folder)
        work, bare, data = root / "work", root / "dns.git", root / "data"
        each = options.domains // options.zones
        for zone in range(options.zones):
            for domain in range(each):
                write_domain(work, zone, domain, f"10.{zone % 256}.{domain // 256 % 256}.{domain % 256}")
            (work / f"z{zone}.example/zone.yaml").write_text(ZONE, encoding="ascii")
        subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
        socket = root / "control.sock"
        sluicelib.sluice("hook", "install", bare, "--data", data, "--socket", socket)
        git(root, "init", "-q", "-b", "main", str(work))
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "first")
        # The server needs a build to start with.
        sluicelib.sluice("build", work, "--out", data)
        server = sluicelib.Server(data, control=socket)
        try:
            began = time.monotonic()
            git(work, "push", "-q", str(bare), "main")
            print(f"first push, everything read: {time.monotonic() - began:.2f} s", flush=True)
            times, cpu = [], []
            for number in range(options.rounds):
                zone, domain, address = number % options.zones, number % each, f"198.51.100.{number + 1}"
                write_domain(work, zone, domain, address)
                git(work, "commit", "-q", "-a", "-m", f"change {number}")
                began, spent = time.monotonic(), cpu_of_children()
                git(work, "push", "-q", str(bare), "main")
                times.append(time.monotonic() - began)
                cpu.append(cpu_of_children() - spent)
                answer = sluicelib.rdata(server.ask(f"d{domain}.z{zone}.example."))
                assert answer == [address], answer
            print(f"{options.domains} domains in {options.zones} zones, {options.rounds} pushes: median "
                  f"{statistics.median(times):.3f} s, quickest {min(times):.3f} s, slowest {max(times):.3f} s; CPU of "
                  f"git and the hooks: median {statistics.median(cpu):.3f} s; load {os.getloadavg()[0]:.0f}")
        finally:
            server.kill()


if __name__ == "__main__":
    main()

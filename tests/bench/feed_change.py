#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How soon a change of health is in the answers: many domains whose endpoints share one target.

  feed_change.py BUILD [--domains N] [--rich] [--changes N] [--work DIR] [--state]

BUILD is a meson build directory (release).  A feed of our own plays the checker: it sends the one
line of a change and looks when the answers of some names, the first and the last among them, have
changed.  --rich: three regions, IPv4 and IPv6, four endpoints; else one region of two levels.
--work DIR: keeps configuration and build there for the next time.  --state: what is known is saved
to disk too, as it is in service.
"""
import argparse
import os
import pathlib
import shutil
import socket
import statistics
import sys
import tempfile
import time

os.environ["SLUICE_BUILD"] = sys.argv[1] if len(sys.argv) > 1 else ""
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))

import feedlib  # noqa: E402
import sluicelib  # noqa: E402

PLAIN = """ttl: 30
endpoints: {a: 192.0.2.1, b: 192.0.2.2}
regions: {global: [{a: 1}, {b: 1}]}
"""
RICH = """ttl: 30
endpoints:
  a: [192.0.2.1, "2001:db8::1"]
  b: [192.0.2.2, "2001:db8::2"]
  c: [192.0.2.3, "2001:db8::3"]
  d: [192.0.2.4, "2001:db8::4"]
regions:
  global: [{a: 90, c: 0}, {b: 1, d: 1}]
  eu: [{a: 1, c: 0}, {b: 1}]
  us: [{a: 1, d: 0}, {b: 1, c: 1}]
"""
ORIGIN = "example.com"


def make(work, count, text):
    """The build of `count` domains in `work`; made if it is not there."""
    data = work / "data"
    if not (data / "current").exists():
        config = work / "config"
        sluicelib.write_tree(config, sluicelib.config_files({f"d{i:06d}": text for i in range(count)}))
        sluicelib.build(config, data)
        shutil.rmtree(config)
    return data


class Watch:
    """Asks for some names until their answers are as wanted."""

    def __init__(self, port, names):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect(("127.0.0.1", port))
        self.sock.settimeout(5)
        self.queries = [sluicelib.make_query(name, edns=False).to_wire() for name in names]

    def until(self, address):
        wanted = socket.inet_aton(address)
        for query in self.queries:
            while True:
                self.sock.send(query)
                if self.sock.recv(512)[-4:] == wanted:
                    break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--domains", type=int, default=100000)
    parser.add_argument("--rich", action="store_true")
    parser.add_argument("--changes", type=int, default=40)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--state", action="store_true")
    options = parser.parse_args()
    work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="sluice-feed-"))
    data = make(work, options.domains, RICH if options.rich else PLAIN)
    names = [f"d{i:06d}.{ORIGIN}." for i in range(options.domains)]
    verdict = {True: (feedlib.UP, feedlib.UP if options.rich else None),
               False: (feedlib.DOWN, feedlib.DOWN if options.rich else None)}
    lines = [feedlib.line("subject", **feedlib.subject(1, [(n, "a") for n in names[i:i + 1000]], *verdict[True]))
             for i in range(0, len(names), 1000)]
    seq = 0

    class Many(feedlib.Feed):
        def snapshot(self):
            return (feedlib.line("begin", seq=self.seq) + b"".join(lines) + feedlib.line("end", seq=self.seq))

    times = []
    saved = ("--state", work / "state") if options.state else ()
    with Many(work / "feed", [feedlib.subject(1, [], *verdict[True])]) as feed:
        with sluicelib.Server(data, "--health", feed.path, *saved, threads=1) as server:
            before = time.monotonic()
            feedlib.wait_health(server, connected=True, served=options.domains)
            print(f"snapshot of {options.domains} targets in force after {time.monotonic() - before:.2f} s; "
                  f"memory {memory(server.proc.pid)} MB")
            # the answers of the server come from the same table, so a few names tell
            step = max(1, options.domains // 16)
            watch = Watch(server.port, names[::step] + names[-1:])
            before = cpu_ms(server.proc.pid)
            for i in range(options.changes):
                up = i % 2 == 1
                start = time.perf_counter()
                feed.change(1, *verdict[up])
                watch.until("192.0.2.1" if up else "192.0.2.2")
                times.append((time.perf_counter() - start) * 1000)
                time.sleep(1.2 if options.state else 0.2)  # what is done afterwards is not measured
            seq = feed.seq
            cpu = (cpu_ms(server.proc.pid) - before) / options.changes
            print(f"memory {memory(server.proc.pid)} MB; CPU per change {cpu:.1f} ms, with what is done afterwards")
    first, rest = times[0], sorted(times[1:])
    print(f"{seq} changes of {options.domains} domains: first {first:.1f} ms, then median "
          f"{statistics.median(rest):.1f}, least {rest[0]:.1f}, 95% {rest[int(len(rest) * 0.95)]:.1f}, most {rest[-1]:.1f} ms")
    if not options.work:
        shutil.rmtree(work)


def ticks(path):
    fields = pathlib.Path(path).read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def cpu_ms(pid):
    """CPU time of a server, without the threads that answer queries."""
    workers = [task for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
               if (task / "comm").read_text(encoding="ascii").startswith("udp")]
    used = ticks(f"/proc/{pid}/stat") - sum(ticks(task / "stat") for task in workers)
    return used * 1000 / os.sysconf("SC_CLK_TCK")


def memory(pid):
    for text in open(f"/proc/{pid}/status", encoding="ascii"):
        if text.startswith("VmRSS:"):
            return int(text.split()[1]) // 1024
    return 0


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""How long after its durable write a commit is seen in answers.

    state_bench.py BUILD [DOMAINS [ROUNDS]]     BUILD: a release build; needs strace and root

A server with DOMAINS steered names of 2 endpoints; each round is one commit that touches all of
them.  Beside, one name is asked without pause.  strace tells when the write-ahead log was synced;
printed is the time from the end of the last sync to the first answer of the new state that arrives,
and to the reply of the commit."""
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))
os.environ["SLUICE_BUILD"] = sys.argv[1]
import sluicelib  # noqa: E402

DOMAIN = "endpoints: {one: [192.0.2.1], two: [192.0.2.2]}\nregions: {global: {one: 1, two: 0}}\n"
SYNC = re.compile(r"(\d+\.\d+) fdatasync\(.*<(\d+\.\d+)>")


def commit(server, names, weights):
    changes = [{"op": "set", "kind": "weight", "domain": name, "endpoint": e, "region": "global", "level": 1,
                "value": w} for name in names for e, w in weights.items()]
    audits = [{"command": "set", "domain": name, "what": weights} for name in names]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(server.control)
        sock.sendall(json.dumps({"command": "commit", "changes": changes, "audits": audits}).encode() + b"\n")
        reply = json.loads(sock.makefile("rb").readline())
    done = time.time()
    assert reply["ok"], reply
    return done


def ask_on(server, name, seen, stop):
    """Appends (time of arrival, last octet of the address)."""
    wire = sluicelib.make_query(name, "A", edns=False).to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server.address, server.port))
        while not stop.is_set():
            sock.send(wire)
            seen.append((sock.recv(512)[-1], time.time()))


def one_round(server, names, trace, value):
    seen, stop = [], threading.Event()
    thread = threading.Thread(target=ask_on, args=(server, names[-1], seen, stop))
    thread.start()
    mark = trace.stat().st_size
    replied = commit(server, names, {"one": 2 - value, "two": value - 1})
    time.sleep(0.02)
    stop.set()
    thread.join()
    with trace.open() as file:
        file.seek(mark)
        syncs = [float(a) + float(b) for a, b in SYNC.findall(file.read())]
    synced = max(s for s in syncs if s < replied)
    first = min(at for octet, at in seen if octet == value and at > synced - 1)
    assert all(octet == value for octet, at in seen if at > replied + 0.005)
    return (first - synced) * 1000, (replied - synced) * 1000


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        folder = pathlib.Path(folder)
        sluicelib.write_tree(folder / "config", sluicelib.config_files({f"d{i}": DOMAIN for i in range(count)}))
        sluicelib.build(folder / "config", folder / "data")
        names = [f"d{i}.example.com." for i in range(count)]
        trace = folder / "trace"
        with sluicelib.Server(folder / "data", "--state", str(folder / "state"), threads=1) as server:
            strace = subprocess.Popen(["strace", "-f", "-qq", "-ttt", "-T", "-e", "trace=fdatasync",
                                       "-o", trace, "-p", str(server.proc.pid)], stderr=subprocess.PIPE, text=True)
            while not trace.exists():
                time.sleep(0.05)
            time.sleep(0.5)
            for number in (1, count):
                figures = [one_round(server, names[-number:], trace, 1 + r % 2) for r in range(rounds)][2:]
                for what, column in (("first new answer", 0), ("reply", 1)):
                    values = sorted(f[column] for f in figures)
                    print(f"{number} domains, durable to {what}: median {statistics.median(values):.2f} ms, "
                          f"{values[0]:.2f} to {values[-1]:.2f}")
            strace.terminate()
            strace.wait()


if __name__ == "__main__":
    main()

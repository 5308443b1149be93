#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `sluice sync` costs: planning of a large zone at each kind of provider, drift with latency.

  tests/bench/sync.py plan [--records 10000] [--rounds 5] [--kinds powerdns,route53]
  tests/bench/sync.py drift [--domains 40] [--zones 1] [--latency 50] [--rounds 5]

`plan`: a zone of so many RRsets, once with nothing of it at the provider and once with all of it,
and for providers that steer a zone of steered names with as many records there.  `drift`: steered
names at PowerDNS, Route 53 and NS1 at once, each behind a proxy that adds the latency (ms) to each
connection and each request; a server of ours tells what is in force.

PowerDNS and Knot are real; Route 53 and NS1 are the simulators of tests/blackbox, whose lists are
made once before the rounds that count.  $SLUICE_BUILD is the build directory (one without
sanitizers).
"""
import argparse
import os
import pathlib
import queue
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))
import ns1sim  # noqa: E402
import pdnslib  # noqa: E402
import route53sim  # noqa: E402
import sluicelib  # noqa: E402
import test_sync_rfc2136 as rfc2136  # noqa: E402

ZONE = """\
ttl: 3600
soa: {{mname: ns1.example.net., rname: hostmaster.example.net., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}}
ns: [ns1.example.net., ns2.example.net.]
providers: [{providers}]
records:
{records}"""
DOMAIN = """\
ttl: 30
endpoints:
  one: [192.0.2.1, "2001:db8::1"]
  two: [192.0.2.2, "2001:db8::2"]
  three: [192.0.2.3, "2001:db8::3"]
  four: [192.0.2.4, "2001:db8::4"]
regions:
  global: [{one: 1, two: 1}, {three: 1}]
  eu: [{two: 3, three: 1}, {four: 1}]
  us: {three: 1, four: 2}
health: {type: tcp, port: 80}
"""
CONSENTS = ["--allow-ns-change", "--allow-large", "--allow-last"]


class Proxy:
    """Passes on what it gets, later: half the latency each way, and one for the connection."""

    def __init__(self, port, latency):
        self.port, self.latency = port, latency
        self.server = socket.create_server(("127.0.0.1", 0))
        self.number = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        time.sleep(self.latency)
        upstream = socket.create_connection(("127.0.0.1", self.port))
        for one, other in ((client, upstream), (upstream, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            later = queue.SimpleQueue()
            threading.Thread(target=self.read, args=(one, later), daemon=True).start()
            threading.Thread(target=self.write, args=(other, later), daemon=True).start()

    def read(self, source, later):
        data = b"x"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            later.put((time.monotonic() + self.latency / 2, data))

    @staticmethod
    def write(target, later):
        while True:
            due, data = later.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return

    def close(self):
        self.server.close()


# ---- providers ------------------------------------------------------------------------------------


class Provider:
    """One kind: where it is, how many requests it got, and the time that it needed for them."""
    steers = True

    def requests(self):
        return 0

    def busy(self):
        return 0.0

    def settle(self):
        """Before the rounds that count."""


def http_port(url):
    return int(url.split(":")[2].split("/")[0])


class Simulated(Provider):
    def watch(self):
        serve, self.spent = self.sim.serve, 0.0

        def timed(*args):
            begin = time.perf_counter()
            serve(*args)
            self.spent += time.perf_counter() - begin

        self.sim.serve = timed

    def requests(self):
        return len(self.sim.requests)

    def busy(self):
        return self.spent

    def close(self):
        self.sim.close()


class Route53(Simulated):
    secret = route53sim.CREDENTIALS

    def __init__(self, folder, zones):
        self.sim = route53sim.Route53(zones[0], page=300, pending=0)
        for zone in zones[1:]:
            self.sim.make_zone(zone)
        self.port = http_port(self.sim.url)
        self.watch()

    def settings(self, port):
        return f"type: route53, url: \"http://127.0.0.1:{port}\", secret: route53, health: pushed"

    def settle(self):
        make, pages = type(self.sim).list_sets, {}

        def kept(query, zone):
            key = (zone.id, tuple(sorted(query.items())))
            if key not in pages:
                pages[key] = make(self.sim, query, zone)
            return pages[key]

        self.sim.list_sets = kept

    def unsettle(self):
        self.sim.__dict__.pop("list_sets", None)


class Ns1(Simulated):
    secret = ns1sim.KEY

    def __init__(self, folder, zones):
        self.sim = ns1sim.Simulator()
        for zone in zones:
            self.sim.make_zone(zone.rstrip("."))
        self.port = http_port(self.sim.url)
        self.watch()

    def settings(self, port):
        self.sim.url = f"http://127.0.0.1:{port}/v1"  # of the next page
        return f"type: ns1, url: \"http://127.0.0.1:{port}/v1\", secret: ns1"

    def unsettle(self):
        pass


class PowerDns(Provider):
    secret = pdnslib.KEY

    def __init__(self, folder, zones):
        self.pdns = pdnslib.Pdns(folder / "powerdns")
        for zone in zones:
            self.pdns.make_zone(zone)
        self.port = http_port(self.pdns.url)

    def settings(self, port):
        return f"type: powerdns, url: \"http://127.0.0.1:{port}\", secret: powerdns, health: pushed"

    def busy(self):
        return cpu_of(self.pdns.process)

    def unsettle(self):
        pass

    def close(self):
        self.pdns.close()


class Rfc2136(Provider):
    steers = False
    secret = f"{rfc2136.KEY.algorithm}:{rfc2136.KEY.name}:{rfc2136.KEY.secret}"

    def __init__(self, folder, zones):
        assert zones == [rfc2136.ZONE + "."]
        self.target = rfc2136.Knot(folder / "knot")
        self.port = self.target.port

    def settings(self, port):
        return f"type: rfc2136, address: \"127.0.0.1@{port}\", secret: rfc2136"

    def busy(self):
        return cpu_of(self.target.process)

    def unsettle(self):
        pass

    def close(self):
        self.target.close()


class Own(Provider):
    """Our server: it has all from the build."""
    secret = "x"

    def __init__(self, folder, zones):
        self.server = None

    def busy(self):
        return cpu_of(self.server) if self.server else 0.0

    def unsettle(self):
        pass

    def close(self):
        pass


KINDS = {"powerdns": PowerDns, "route53": Route53, "ns1": Ns1, "rfc2136": Rfc2136, "sluice": Own}


def cpu_of(process):
    fields = pathlib.Path(f"/proc/{process.proc.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- the world ------------------------------------------------------------------------------------


class World:
    def __init__(self, folder, kinds, zones, latency=0.0):
        self.folder, self.zones = folder, zones
        self.providers = {name: KINDS[name](folder, zones) for name in kinds}
        self.latency, self.proxies, self.server = latency, [], None
        for name, provider in self.providers.items():
            (folder / name).with_suffix(".key").write_text(provider.secret, encoding="ascii")
            (folder / name).with_suffix(".key").chmod(0o600)
        (folder / "sluice.yaml").write_text("secrets:\n" + "".join(
            f"  {name}: {{file: {folder}/{name}.key}}\n" for name in kinds), encoding="ascii")

    def port(self, provider):
        if not self.latency:
            return provider.port
        self.proxies.append(Proxy(provider.port, self.latency))
        return self.proxies[-1].number

    def write(self, records, domains):
        """`records` lines of YAML and `domains` steered names in each zone."""
        settings = "".join(f"  {name}: {{{p.settings(self.port(p))}}}\n"
                           for name, p in self.providers.items() if not isinstance(p, Own))
        files = {"defaults.yaml": "providers:\n" + settings if settings else "{}\n"}
        allowed = "providers: {rfc2136: {allow_loss: [geo, status, priority, weight]}}\n" if "rfc2136" in self.providers else ""
        for zone in self.zones:
            name = zone.rstrip(".")
            files[f"{name}/zone.yaml"] = ZONE.format(providers=", ".join(self.providers), records=records or "  {}\n")
            for i in range(domains):
                files[f"{name}/d{i}/domain.yaml"] = DOMAIN + allowed
        sluicelib.write_tree(self.folder / "config", files)

    def serve(self):
        data = sluicelib.build(self.folder / "config", self.folder / "data")
        self.server = sluicelib.Server(data)
        if "sluice" in self.providers:
            self.providers["sluice"].server = self.server

    def sync(self, command, *options, status=(0, 3)):
        """Seconds, CPU seconds and requests of a run."""
        control = self.server.control if self.server else self.folder / "none"
        args = [sluicelib.program("sluice"), "sync", command, "--config", self.folder / "config", "--settings",
                self.folder / "sluice.yaml", "--socket", control, *options]
        before = {n: (p.requests(), p.busy()) for n, p in self.providers.items()}
        begin = time.perf_counter()
        with open(self.folder / "errors", "wb") as errors, subprocess.Popen(
                list(map(str, args)), stdout=subprocess.DEVNULL, stderr=errors, env=sluicelib.environment()) as process:
            _, code, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(code)
        wall = time.perf_counter() - begin
        assert process.returncode in status, (self.folder / "errors").read_text(encoding="utf-8")[:2000]
        after = {n: (p.requests(), p.busy()) for n, p in self.providers.items()}
        return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024,
                "requests": {n: after[n][0] - before[n][0] for n in after},
                "busy": {n: after[n][1] - before[n][1] for n in after}, "status": process.returncode}

    def close(self):
        if self.server:
            self.server.kill()
        for proxy in self.proxies:
            proxy.close()
        for provider in self.providers.values():
            provider.close()


def report(title, rounds):
    def spread(values):
        return f"{statistics.median(values):6.2f} ({min(values):.2f}..{max(values):.2f})"

    last = rounds[-1]
    busy = " ".join(f"{n}={v:.2f}" for n, v in last["busy"].items())
    requests = " ".join(f"{n}={v}" for n, v in last["requests"].items() if v)
    print(f"| {title} | {spread([r['wall'] for r in rounds])} | {spread([r['cpu'] for r in rounds])} | {busy} | {requests} "
          f"| {last['rss']:.0f} |", flush=True)


HEAD = "| | wall s | CPU s of sluice | time at the provider, s | requests | MiB |\n|---|---|---|---|---|---|"


def bench_plan(options):
    print(HEAD)
    for kind in options.kinds.split(","):
        shapes = {"plain": (options.records, 0)}
        if KINDS[kind].steers:
            shapes["steered"] = (0, options.records // 20)
        for shape, (records, domains) in shapes.items():
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                plan_one(kind, shape, records, domains, pathlib.Path(folder), options.rounds)


def plan_one(kind, shape, records, domains, folder, rounds):
    world = World(folder, [kind], [rfc2136.ZONE + "."])
    provider = world.providers[kind]
    try:
        world.write("".join(f"  r{i}: {{A: [10.{i >> 16}.{i >> 8 & 255}.{i & 255}]}}\n" for i in range(records)), domains)
        world.serve()
        if kind != "sluice":
            report(f"{kind}, {shape}, nothing there", [world.sync("plan", *CONSENTS) for _ in range(rounds)])
            fill = world.sync("apply", "--yes", *CONSENTS)
            report(f"{kind}, {shape}, apply", [fill])
        provider.settle()
        world.sync("plan")
        report(f"{kind}, {shape}, all there", [world.sync("plan", status=(0,)) for _ in range(rounds)])
        report(f"{kind}, {shape}, all there, JSON", [world.sync("plan", "--json", status=(0,)) for _ in range(rounds)])
    finally:
        world.close()


def bench_drift(options):
    zones = [f"z{i}.test." for i in range(options.zones)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        world = World(pathlib.Path(folder), options.kinds.split(","), zones, options.latency / 1000)
        try:
            latency, world.latency = world.latency, 0
            world.write("", options.domains // options.zones)
            world.serve()
            world.sync("apply", "--yes", *CONSENTS, status=(0,))
            world.latency = latency
            world.write("", options.domains // options.zones)
            print(HEAD)
            report(f"drift, {options.domains} domains in {options.zones} zones, {options.latency} ms",
                   [world.sync("drift", status=(0,)) for _ in range(options.rounds)])
            for name in world.providers:
                report(f"only {name}", [world.sync("drift", "--provider", name, status=(0,)) for _ in range(options.rounds)])
        finally:
            world.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plan", "drift"])
    parser.add_argument("--records", type=int, default=10000)
    parser.add_argument("--domains", type=int, default=40)
    parser.add_argument("--zones", type=int, default=1)
    parser.add_argument("--latency", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds")
    options = parser.parse_args()
    options.kinds = options.kinds or (",".join(KINDS) if options.what == "plan" else "powerdns,route53,ns1")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    (bench_plan if options.what == "plan" else bench_drift)(options)


main()

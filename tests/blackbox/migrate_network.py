# SPDX-License-Identifier: Apache-2.0
"""Run in a network and a mount namespace of its own by test_migrate.py: a small DNS of real servers on
port 53 (root and parent zone, two resolvers, the providers), in which a zone moves while the
resolvers are asked all the time.  Arguments: the scenario, an empty folder.  Prints what was seen."""
import collections
import fcntl
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import dns.exception
import dns.query
import dns.update

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pdnslib  # noqa: E402
import primaries  # noqa: E402
import serverlib  # noqa: E402
import sluicelib  # noqa: E402
from checkers_network import add_address  # noqa: E402
from wildcard_address import loopback_up  # noqa: E402

ZONE = "tm.example."
KEY = primaries.Key("sync-key")
PARENT = "127.0.1.1"
ADDRESSES = {"pdns": ("127.0.2.1", "127.0.2.2"), "knot": ("127.0.3.1", "127.0.3.2"), "own": ("127.0.4.1", "127.0.4.2")}
NAMES = {kind: tuple(f"ns{i}.{kind}.example." for i in (1, 2)) for kind in ADDRESSES}
RESOLVERS = {"unbound": "127.0.5.1", "bind": "127.0.5.2"}
PROVIDER = {"pdns": "dns-pdns", "knot": "dns-knot", "own": "sluice"}

WWW, TEXT = ["192.0.2.80"], ['"moving"']
STEERED = ["192.0.2.1", "192.0.2.2"]
DOMAIN = """\
ttl: 1
endpoints: {one: 192.0.2.1, two: 192.0.2.2}
regions:
  global: {one: 3, two: 1}
providers: {dns-knot: {allow_loss: [geo, status, priority, weight]}}
"""


def names(kind):
    return ", ".join(NAMES[kind])


def addresses_of_servers():
    return "".join(f"  {name[:-len('.example.')]}: {{A: [{address}]}}\n"
                   for kind, both in ADDRESSES.items() for name, address in zip(NAMES[kind], both))


class Knot:
    """One knotd for one or more zones that the key may transfer and update."""

    def __init__(self, folder, addresses, zones):
        self.folder, self.address = pathlib.Path(folder), addresses[0]
        (self.folder / "kdb").mkdir(parents=True)
        text = "server:\n" + "".join(f"    listen: {a}@53\n" for a in addresses)
        text += f"""\
    rundir: {self.folder}
    pidfile: {self.folder}/pid
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
control:
    listen: {self.folder}/sock
log:
  - target: stderr
    any: warning
database:
    storage: {self.folder}/kdb
key:
  - id: {KEY.name}
    algorithm: {KEY.algorithm}
    secret: {KEY.secret}
acl:
  - id: sync
    action: [transfer, update]
    key: {KEY.name}
zone:
"""
        for number, (zone, content) in enumerate(zones.items()):
            (self.folder / f"zone{number}").write_text(f"$ORIGIN {zone}\n{content}", encoding="ascii")
            text += (f"  - domain: {zone}\n    storage: {self.folder}\n    file: zone{number}\n    acl: sync\n"
                     "    zonefile-sync: -1\n")
        (self.folder / "knot.conf").write_text(text, encoding="ascii")
        self.start()

    def start(self):
        self.process = sluicelib.Process("knotd", "-c", self.folder / "knot.conf", cwd=self.folder)

    def update(self, zone, change):
        message = dns.update.UpdateMessage(zone, keyring=KEY.ring(), keyname=KEY.name, keyalgorithm=KEY.algorithm)
        change(message)
        assert dns.query.tcp(message, self.address, sluicelib.DEADLINE).rcode() == 0

    def close(self):
        self.process.kill()


def soa(name="ns1.knot.example.", negative=1):
    return f"@ 1 IN SOA {name} hostmaster.example. 1 3600 600 86400 {negative}\n"


class Asker(threading.Thread):
    """Asks a resolver all the time; what is no answer of the model is kept in `wrong`."""

    QUESTIONS = (("www.tm.example.", "A"), ("cdn.tm.example.", "A"), ("www.tm.example.", "TXT"),
                 ("none.tm.example.", "A"), ("tm.example.", "MX"))

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.wrong, self.count, self.over = address, [], 0, threading.Event()
        self.seen = collections.Counter()
        self.late = []

    def judge(self, name, rdtype, reply):
        data = sorted(sluicelib.rdata(reply))
        code = sluicelib.rcode(reply)
        if name.startswith("none"):
            return code == "NXDOMAIN" and not data
        if name.startswith("cdn"):
            self.seen[" ".join(data)] += 1
            return code == "NOERROR" and data and set(data) <= set(STEERED)
        wanted = {"A": WWW, "TXT": TEXT, "MX": ["10 mail.tm.example."]}[rdtype]
        return code == "NOERROR" and data == wanted

    def ask(self, name, rdtype):
        """As a stub resolver does, which asks again when a datagram seems lost."""
        query = sluicelib.make_query(name, rdtype)
        query.flags |= dns.flags.RD
        for last in (False, False, True):
            try:
                return dns.query.udp(query, self.address, timeout=5)
            except dns.exception.Timeout:
                self.late.append(f"{time.strftime('%T')} {self.address} {name} {rdtype}")
                if last:
                    raise
        raise AssertionError

    def run(self):
        number = 0
        while not self.over.is_set():
            name, rdtype = self.QUESTIONS[number % len(self.QUESTIONS)]
            number += 1
            try:
                reply = self.ask(name, rdtype)
                if not self.judge(name, rdtype, reply):
                    self.wrong.append(f"{time.strftime('%T')} {self.address} {name} {rdtype}: {reply}")
            except (OSError, dns.exception.DNSException) as error:
                self.wrong.append(f"{time.strftime('%T')} {self.address} {name} {rdtype}: {error!r}")
            self.count += 1
            self.over.wait(0.004)

    def stop(self):
        self.over.set()
        self.join(sluicelib.DEADLINE)


class World:
    """`at`: the kinds of provider that have the zone at first; `ours`: we can write the parent zone."""

    def __init__(self, folder, at=("pdns",), ours=True, kinds=("pdns", "knot"), registered=None, patience="30s"):
        self.folder, self.patience, self.web = pathlib.Path(folder), patience, "30s"
        self.at, self.ours = tuple(at), ours
        self.servers, self.resolvers = {}, []
        self.registered = registered or at
        try:
            self.open(kinds)
        except BaseException:
            self.close()
            raise

    def open(self, kinds):
        self.secrets()
        self.start_parent()
        if "pdns" in kinds:
            self.servers["pdns"] = pdnslib.Pdns(self.folder / "pdns", asn=False,
                                                settings=f"local-address={','.join(ADDRESSES['pdns'])}\nlocal-port=53\n"
                                                "default-ttl=1\ndefault-soa-content=ns1.knot.example. hostmaster.@ 0 3600 600 86400 1")
        self.write()
        if "knot" in kinds:
            self.servers["knot"] = Knot(self.folder / "knot", ADDRESSES["knot"],
                                        {ZONE: soa() + "".join(f"@ 1 IN NS {n}\n" for n in NAMES["knot"])})
        if "own" in kinds:
            self.start_own()
        self.begin()
        self.start_resolvers()

    def secrets(self):
        (self.folder / "tsig").write_text(f"{KEY.algorithm}:{KEY.name}:{KEY.secret}\n", encoding="ascii")
        (self.folder / "pdns-key").write_text(pdnslib.KEY, encoding="ascii")
        for name in ("tsig", "pdns-key"):
            (self.folder / name).chmod(0o600)
        (self.folder / "sluice.yaml").write_text(
            f"secrets:\n  tsig: {{file: {self.folder}/tsig}}\n  pdns: {{file: {self.folder}/pdns-key}}\n",
            encoding="ascii")

    def start_parent(self):
        root = soa("a.root.example.") + f"@ 1 IN NS a.root.example.\na.root.example. 1 IN A {PARENT}\n" + \
            "example. 1 IN NS a.root.example.\n"
        example = soa("a.root.example.") + f"@ 1 IN NS a.root.example.\na.root 1 IN A {PARENT}\n"
        example += "".join(f"{name} 1 IN A {address}\n" for kind, both in ADDRESSES.items()
                           for name, address in zip(NAMES[kind], both))
        example += "".join(f"tm 1 IN NS {n}\n" for kind in self.registered for n in NAMES[kind])
        self.parent = Knot(self.folder / "parent", [PARENT], {".": root, "example.": example})

    def write(self, ns=None, listed=None, domain=DOMAIN, more="", delegation=None):
        """The configuration; `ns`: in zone.yaml, `listed`: the providers there."""
        ns = ns or [n for kind in self.at for n in NAMES[kind]]
        listed = listed or self.at
        defaults = "default_zone: tm.example\nproviders:\n"
        defaults += f"  top: {{type: rfc2136, address: {PARENT}, secret: tsig}}\n"
        defaults += f"  dns-knot: {{type: rfc2136, address: {ADDRESSES['knot'][0]}, secret: tsig, timeout: {self.patience}}}\n"
        url = getattr(self, "url", None) or (self.servers["pdns"].url if "pdns" in self.servers else "http://127.0.0.1:1")
        defaults += f"  dns-pdns: {{type: powerdns, url: '{url}', secret: pdns, timeout: {self.web}, ns: [{names('pdns')}]}}\n"
        head = ("ttl: 1\nsoa: {mname: ns1.knot.example., rname: hostmaster.example., refresh: 7200, retry: 900,"
                " expire: 1209600, minimum: 1}\n")
        files = {
            "defaults.yaml": defaults,
            "tm.example/zone.yaml": head + f"ns: [{', '.join(ns)}]\n"
            f"providers: [{', '.join(PROVIDER[k] for k in listed)}]\nrecords:\n"
            "  www: {A: [192.0.2.80], TXT: [moving]}\n  mail: {A: [192.0.2.25]}\n"
            "  \"@\": {MX: [10 mail.tm.example.]}\n" + more,
            "tm.example/cdn/domain.yaml": domain,
        }
        if self.ours:
            delegation = delegation or [n for kind in self.registered for n in NAMES[kind]]
            files["example/zone.yaml"] = (head + "ns: [a.root.example.]\nproviders: [top]\nrecords:\n"
                                          f"  a.root: {{A: [{PARENT}]}}\n" + addresses_of_servers() +
                                          f"  tm: {{NS: [{', '.join(delegation)}]}}\n")
        sluicelib.write_tree(self.folder / "config", files)

    def start_own(self):
        self.data = self.folder / "data"
        sluicelib.build(self.folder / "config", self.data)
        listen = [word for a in ADDRESSES["own"] for word in ("--listen", f"{a}@53")]
        self.control = self.folder / "own.sock"
        server = sluicelib.Process(sluicelib.program("sluiced"), "--data", self.data, "--threads", "1",
                                   "--control", self.control, *listen)
        server.wait_log(r"\bready\b")
        server.close = server.kill
        self.servers["own"] = server

    def deploy(self, **options):
        """A push: the configuration is written, built and served."""
        self.write(**options)
        sluicelib.build(self.folder / "config", self.data)
        sluicelib.sluice("reload", "--socket", self.control)

    def begin(self):
        """The zone is level at the providers that have it."""
        serverlib.wait_for(lambda: self.is_up(PARENT, "example."), "the parent zone")
        if "knot" in self.servers:
            serverlib.wait_for(lambda: self.is_up(ADDRESSES["knot"][0], ZONE), "Knot")
        for kind in self.at:
            if kind == "pdns":
                status, text = self.servers["pdns"].api("POST", "/zones", {"name": ZONE, "kind": "Native", "nameservers": []})
                assert status == 201, text
        if self.at != ("own",):
            done = self.sync("apply", "--yes", "--allow-ns-change", ZONE, status=None)
            assert done.returncode == 0 or "own" in self.at, done.stdout + done.stderr
        assert self.sync("drift", ZONE).returncode == 0

    @staticmethod
    def is_up(address, zone):
        try:
            return bool(sluicelib.ask(address, 53, zone, "SOA", timeout=0.3).answer)
        except (OSError, dns.exception.Timeout):
            return False

    def start_resolvers(self):
        hints = self.folder / "root.hints"
        hints.write_text(f". 3600000 IN NS a.root.example.\na.root.example. 3600000 IN A {PARENT}\n", encoding="ascii")
        unbound = self.folder / "unbound.conf"
        unbound.write_text(f"""\
server:
  interface: {RESOLVERS["unbound"]}
  port: 53
  username: ""
  chroot: ""
  directory: "{self.folder}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  module-config: "iterator"
  do-not-query-localhost: no
  do-ip6: no
  root-hints: "{hints}"
  access-control: 127.0.0.0/8 allow
  num-threads: 1
  outgoing-range: 200
""", encoding="ascii")
        folder = self.folder / "bind"
        folder.mkdir()
        (folder / "named.conf").write_text(f"""\
options {{ directory "{folder}"; listen-on {{ {RESOLVERS["bind"]}; }}; listen-on-v6 {{ none; }}; recursion yes;
  allow-query {{ any; }}; allow-recursion {{ any; }}; allow-query-cache {{ any; }}; pid-file none; dnssec-validation no; empty-zones-enable no; notify no;
  session-keyfile "{folder}/session.key"; query-source address {RESOLVERS["bind"]}; }};
controls {{ }};
zone "." {{ type hint; file "{hints}"; }};
""", encoding="ascii")
        self.resolvers = [sluicelib.Process("unbound", "-d", "-c", unbound, cwd=self.folder),
                          sluicelib.Process("named", "-4", "-g", "-n", "1", "-c", folder / "named.conf", cwd=folder)]
        for name, address, process in zip(RESOLVERS, RESOLVERS.values(), self.resolvers):
            try:
                serverlib.wait_for(lambda a=address: self.resolves(a), name, timeout=20)
            except AssertionError:
                print(process.log)
                raise

    @staticmethod
    def resolves(address):
        query = sluicelib.make_query("www.tm.example.", "A")
        query.flags |= dns.flags.RD
        try:
            return sluicelib.rdata(dns.query.udp(query, address, timeout=1)) == WWW
        except (OSError, dns.exception.DNSException):
            return False

    # ---- commands ----

    def argv(self, *words):
        out = ["sync", *words, "--config", self.folder / "config", "--settings", self.folder / "sluice.yaml",
               "--socket", getattr(self, "control", self.folder / "none")]
        return [str(w) for w in out]

    def sync(self, *words, status=0):
        try:
            done = sluicelib.sluice(*self.argv(*words), status=status, timeout=60)
        except subprocess.TimeoutExpired as error:
            print((error.stdout or b"").decode(), (error.stderr or b"").decode())
            raise
        assert KEY.secret not in done.stdout + done.stderr and pdnslib.KEY not in done.stdout + done.stderr
        return done

    def migrate(self, *words, status=0):
        return self.sync("migrate", ZONE, "--state", str(self.folder / "state"), *words, status=status)

    def start(self, source, target, *words, status=0):
        return self.migrate("--from", PROVIDER[source], "--to", PROVIDER[target], "--yes", *words, status=status)

    def spawn(self, *words):
        return subprocess.Popen([sluicelib.program("sluice"),
                                 *self.argv("migrate", ZONE, "--state", str(self.folder / "state"), *words)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=sluicelib.environment())

    def state(self):
        return json.loads((self.folder / "state" / "tm.example.json").read_text(encoding="utf-8"))

    # ---- what is there ----

    def delegation(self):
        reply = sluicelib.ask(PARENT, 53, ZONE, "NS")
        return sorted(str(r) for rrset in reply.authority for r in rrset)

    def apex(self, kind):
        out = []
        for address in ADDRESSES[kind]:
            out.append(tuple(sorted(sluicelib.rdata(sluicelib.ask(address, 53, ZONE, "NS")))))
        assert len(set(out)) == 1, out
        return list(out[0])

    def asking(self):
        return Asking(self)

    def close(self):
        for process in self.resolvers:
            process.kill()
        for server in (*self.servers.values(), getattr(self, "parent", None)):
            if server:
                server.close()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()


class Asking:
    """Within it, both resolvers are asked all the time; every answer must be of the model."""

    def __init__(self, world):
        self.world = world

    def __enter__(self):
        self.askers = [Asker(a) for a in RESOLVERS.values()]
        for asker in self.askers:
            asker.start()
        return self

    def __exit__(self, kind, value, trace):
        if not kind:
            serverlib.wait_for(lambda: all(a.count > 100 for a in self.askers), "questions")
        for asker in self.askers:
            asker.stop()
        if not kind:
            for asker in self.askers:
                print(asker.address, asker.count, "lookups; asked again:", asker.late)
                assert not asker.wrong, (len(asker.wrong), asker.wrong[:3])

    @property
    def count(self):
        return sum(a.count for a in self.askers)


def check_moved(world, source, target):
    """All is at `target`; nothing is left of `source` in the NS records."""
    assert world.delegation() == sorted(NAMES[target])
    assert world.apex(target) == sorted(NAMES[target])
    if source in ADDRESSES:
        assert world.apex(source) == sorted(NAMES[target])


# ---- scenarios ----------------------------------------------------------------------------------


def moves(folder):
    """From PowerDNS to Knot, the parent zone being ours."""
    with World(folder) as world:
        with world.asking() as asking:
            done = world.start("pdns", "knot")
            check_moved(world, "pdns", "knot")
            before = asking.count
            world.servers["pdns"].process.kill()  # nobody asks there any more
            serverlib.wait_for(lambda: asking.count > before + 400, "questions without the old servers")
        print(done.stdout)
        assert "zone.yaml does not list dns-knot" in done.stdout
        assert "not one failed" not in done.stdout and world.state()["phase"] == "done"


def once(world, play, *words):
    """Runs --once until all is done; `play` does what the output asks for.  Returns all output."""
    out = ""
    for _ in range(100):
        done = world.migrate("--once", *words, status=None)
        out += done.stdout
        words = ()
        assert done.returncode in (0, 3), done.stdout + done.stderr
        if done.returncode == 0:
            return out
        if "when that is done" in done.stdout:
            play(done.stdout)
        else:  # by the clock
            left = json.loads(world.migrate("--status", "--json").stdout)["next"] / 1000 - time.time()
            assert left < 5, left
            threading.Event().wait(max(0.0, left))
    raise AssertionError(out)


def registry(world):
    """Sets the delegation that the output names."""
    def play(text):
        lines = [line.split() for line in text.splitlines() if line.split()[:2] == [ZONE, "NS"]]
        assert lines, text

        def change(message):
            message.delete(ZONE, "NS")
            for words in lines:
                message.add(ZONE, 1, "NS", words[2])
        world.parent.update("example.", change)
    return play


def deployer(world, **options):
    """Pushes the `ns:` that the output names."""
    def play(text):
        found = " ".join(text.split()).rpartition(" ns: [")[2].partition("]")[0]
        assert found, text
        world.deploy(ns=found.split(", "), **options)
    return play


def to_own(folder):
    """From PowerDNS to our own server; the parent zone is a registry's."""
    with World(folder, ours=False, kinds=("pdns", "own")) as world:
        pushes, sets = deployer(world, listed=("pdns", "own")), registry(world)

        def play(text):
            (pushes if "has to be deployed" in text else sets)(text)
        world.deploy(listed=("pdns", "own"))
        with world.asking():
            out = once(world, play, "--from", PROVIDER["pdns"], "--to", "sluice", "--yes", "--ns",
                       ",".join(NAMES["own"]))
            check_moved(world, "pdns", "own")
        assert "zone.yaml does not list" not in out and "The delegation is not ours" in out


def from_own(folder):
    """From our own server to PowerDNS, where the zone is made; and deleted where it can be."""
    with World(folder, at=("own",), kinds=("pdns", "own")) as world:
        with world.asking():
            out = once(world, deployer(world), "--from", "sluice", "--to", PROVIDER["pdns"], "--yes")
            check_moved(world, "own", "pdns")
        assert world.state()["made"]
        assert "providers: with dns-pdns, without sluice" in " ".join(out.split())
        done = world.migrate("--delete-old", status=1)
        assert "still lists sluice" in done.stderr
        world.deploy(listed=("pdns",), ns=NAMES["pdns"])
        assert "deleted there, by hand" in world.migrate("--delete-old", status=1).stderr


def three_targets(folder):
    """Our server, PowerDNS and Knot: one stays, one goes, one comes.  The NS records of the apex are
    the same at all of them after each step (complaint C13)."""
    with World(folder, at=("own", "pdns"), kinds=("own", "pdns", "knot"), registered=("own", "pdns")) as world:
        both = ("own", "pdns", "knot")
        world.deploy(listed=both)
        pushes = deployer(world, listed=both)

        def play(text):
            pushes(text)
            assert set(world.apex("own")) == set(world.apex("pdns")) == set(world.apex("knot"))
        with world.asking():
            once(world, play, "--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes")
            wanted = sorted((*NAMES["own"], *NAMES["knot"]))
            assert world.delegation() == wanted
            assert world.apex("own") == world.apex("pdns") == world.apex("knot") == wanted
        world.deploy(listed=("own", "knot"), ns=wanted, delegation=wanted)
        assert world.sync("drift").returncode == 0
        done = world.migrate("--delete-old")
        assert "deleted at dns-pdns" in done.stdout and world.servers["pdns"].api("GET", f"/zones/{ZONE}")[0] == 404
        assert "there is no way back" in world.migrate("--back", status=2).stderr


def killed(folder):
    """Killed at any moment, again and again: the next run goes on."""
    rng = random.Random(11)
    kills = 0
    with World(folder) as world:
        with world.asking():
            words = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes")
            for _ in range(200):
                process = world.spawn(*words)
                try:
                    out, _ = process.communicate(timeout=rng.uniform(0.5, 5.0))
                    assert process.returncode == 0, out
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    kills += 1
            else:
                raise AssertionError(world.state())
            check_moved(world, "pdns", "knot")
        assert kills > 2, kills


def until(world, phase, *words):
    """Goes on until the state is in the phase."""
    process = world.spawn(*words)
    try:
        serverlib.wait_for(lambda: world_phase(world) == phase or process.poll() is not None, phase)
        assert world_phase(world) == phase, process.communicate()[0]
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=sluicelib.DEADLINE)
    assert process.returncode == 3 and "interrupted at" in out, out
    return out


def world_phase(world):
    try:
        return world.state()["phase"]
    except FileNotFoundError:
        return None


def back(folder):
    """The way back, from the middle and from near the end."""
    with World(folder) as world:
        start = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes", "--settle", "0")
        with world.asking():
            until(world, "parent-in", *start)
            done = world.migrate("--back")
            assert world.delegation() == world.apex("pdns") == world.apex("knot") == sorted(NAMES["pdns"])
            assert "answered by dns-pdns alone" in " ".join(done.stdout.split())
            until(world, "apex-out", *start)
            assert "on the way back" not in " ".join(world.migrate("--status").stdout.split())
            world.migrate("--back")
            assert world.delegation() == world.apex("pdns") == world.apex("knot") == sorted(NAMES["pdns"])


def back_and_forth(folder):
    """Turned round on the way back, too."""
    with World(folder) as world:
        start = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes", "--settle", "0")
        with world.asking():
            until(world, "wait-in", *start)
            until(world, "parent-out", "--back")
            assert "on the way back" in " ".join(world.migrate("--status").stdout.split())
            world.migrate("--forward")
            check_moved(world, "pdns", "knot")


def strangers(folder):
    """Somebody else changes NS records, B loses a record or stops answering: it stops, and changes nothing."""
    with World(folder, patience="5s") as world:
        start = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes", "--settle", "0", "--once")
        knot, top = world.servers["knot"], world.parent
        with world.asking():
            done = world.migrate(*start, status=3)
            assert world.state()["phase"] == "wait-in", done.stdout + done.stderr
            before = world.delegation()
            top.update("example.", lambda m: m.delete(ZONE, "NS", NAMES["knot"][0]))
            time_is_over(world)
            done = world.migrate("--once", status=1)
            assert "ns1.knot.example. has gone from the NS records of the delegation" in done.stderr
            assert world.delegation() == sorted(set(before) - {NAMES["knot"][0]})
            top.update("example.", lambda m: m.add(ZONE, 1, "NS", NAMES["knot"][0]))
            # A record that goes at B.
            knot.update(ZONE, lambda m: m.delete("mail." + ZONE, "A"))
            done = world.migrate("--once", status=1)
            assert "dns-knot: mail.tm.example. A is not as the configuration has it" in done.stderr
            assert world.delegation() == before
            knot.update(ZONE, lambda m: m.add("mail." + ZONE, 1, "A", "192.0.2.25"))
            # B does not answer.
            knot.process.proc.send_signal(signal.SIGSTOP)
            try:
                done = world.migrate("--once", status=1)
            finally:
                knot.process.proc.send_signal(signal.SIGCONT)
            assert "dns-knot: " in done.stderr and world.delegation() == before
            assert "--back goes back to dns-pdns" in done.stderr
            # A third name server that somebody adds may stay, if that is said.
            for server in (knot,):
                server.update(ZONE, lambda m: m.add(ZONE, 1, "NS", "ns1.own.example."))
            done = world.migrate("--once", status=1)
            assert "ns1.own.example. has come into the NS records of the apex" in done.stderr
            knot.update(ZONE, lambda m: m.delete(ZONE, "NS", "ns1.own.example."))
            top.update("example.", lambda m: m.delete(ZONE, "NS", NAMES["pdns"][0]))
            world.migrate("--as-is")
            check_moved(world, "pdns", "knot")


def time_is_over(world):
    left = json.loads(world.migrate("--status", "--json").stdout)["next"] / 1000 - time.time()
    threading.Event().wait(max(0.0, left))


def wrong_answers(folder):
    """One of B's name servers does not answer as the configuration says: it is not used."""
    with World(folder) as world:
        first, second = ADDRESSES["knot"]
        world.servers["knot"].close()
        content = soa() + "".join(f"@ 1 IN NS {n}\n" for n in NAMES["knot"])
        world.servers["knot"] = Knot(folder / "first", [first], {ZONE: content})
        stale = Knot(folder / "stale", [second], {ZONE: content.replace("IN NS ns1.knot", "IN NS ns1.pdns").replace(
            "IN NS ns2.knot", "IN NS ns2.pdns") + "www 1 IN A 192.0.2.99\nwww 1 IN TXT moving\n"})
        for address in (first, second):
            serverlib.wait_for(lambda a=address: world.is_up(a, ZONE), "Knot")
        with world.asking():
            done = world.start("pdns", "knot", "--once", status=3)
        assert "dns-knot does not answer as the configuration says" in done.stderr, done.stderr
        assert world.delegation() == world.apex("pdns") == sorted(NAMES["pdns"])
        assert world.state()["phase"] == "verify"
        assert "nobody asks dns-knot" in " ".join(world.migrate("--back").stdout.split())
        stale.close()


def refusals(folder):
    """What is not begun, and why; a plan sends nothing that writes."""
    with World(folder) as world:
        pdns = world.servers["pdns"]
        serial = pdns.serial(ZONE)
        done = world.migrate("--from", "dns-pdns", "--to", "dns-knot", "--plan")
        assert "wait-in" in done.stdout and not (folder / "state").exists()
        proxy = pdnslib.Faulty(pdns, 10 ** 6, "refused")
        world.url = proxy.url
        world.write()
        world.migrate("--from", "dns-pdns", "--to", "dns-knot", "--dry-run")
        assert set(proxy.seen) == {"GET"} and pdns.serial(ZONE) == serial
        proxy.close()
        world.url = None
        world.write()
        refused = (
            (("--from", "dns-pdns", "--to", "dns-knotty", "--yes"), 1, "did you mean dns-knot"),
            (("--from", "dns-pdns", "--to", "dns-pdns", "--yes"), 2, "the same provider"),
            (("--from", "dns-knot", "--to", "dns-pdns", "--yes"), 1, "dns-knot"),
            (("--from", "dns-pdns", "--to", "dns-knot"), 1, "--yes"),
            ((), 2, "no migration of tm.example. is under way"),
            (("--back",), 2, "no migration"),
            (("--status",), 1, "no migration"),
        )
        for words, status, text in refused:
            done = world.migrate(*words, status=status)
            assert text in done.stderr, (words, done.stderr)
        begin = ("--from", "dns-pdns", "--to", "dns-knot", "--yes", "--once")
        # Records that would be lost.
        pdns.put(f"theirs.{ZONE}", "A", ["192.0.2.66"], zone=ZONE)
        done = world.migrate(*begin, status=1)
        assert "theirs.tm.example. A" in done.stderr and "--leave-records" in done.stderr
        assert pdns.api("PATCH", f"/zones/{ZONE}", {"rrsets": [
            {"name": f"theirs.{ZONE}", "type": "A", "changetype": "DELETE"}]})[0] == 204
        # Answers that are signed.
        world.parent.update("example.", lambda m: m.add(ZONE, 1, "DS", "1 13 2 " + "ab" * 32))
        done = world.migrate(*begin, status=1)
        assert "DS records" in done.stderr
        world.parent.update("example.", lambda m: m.delete(ZONE, "DS"))
        # Name servers in the zone itself need glue.
        done = world.migrate(*begin, "--ns", f"ns.{ZONE}", status=1)
        assert "has no address for it" in done.stderr
        world.write(more="  ns: {A: [127.0.3.1]}\n")
        world.sync("apply", "--yes", ZONE)
        done = world.migrate(*begin, "--ns", f"ns.{ZONE}", status=1)
        assert "glue" in done.stderr and "example." in done.stderr
        world.write()
        world.sync("apply", "--yes", ZONE)
        # A loss that the domain does not allow.
        world.write(domain=DOMAIN.partition("providers")[0])
        done = world.migrate(*begin, status=1)
        assert "cdn.tm.example. A is held back" in done.stderr, done.stderr
        assert world.delegation() == world.apex("pdns") == sorted(NAMES["pdns"])
        world.write()
        assert world.migrate("--status").returncode == 0
        # A damaged state is not believed; another run is kept out.
        path = folder / "state/tm.example.json"
        good = path.read_text(encoding="utf-8")
        path.write_text(good.replace('"fill"', '"fly"'), encoding="utf-8")
        assert "is damaged (`phase`" in world.migrate("--once", status=1).stderr
        path.write_text(good, encoding="utf-8")
        with open(f"{path}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "another `sluice sync migrate`" in world.migrate("--once", status=1).stderr
        world.migrate("--once", "--settle", "0", status=3)
        assert world.state()["phase"] == "wait-in"
        done = world.migrate("--from", "dns-knot", "--to", "dns-pdns", "--yes", status=2)
        assert "is under way (wait-in)" in done.stderr


def faults(folder, fault, first):
    """From the request number `first` on, PowerDNS's API fails; with it well again, the next run goes on."""
    fault = int(fault) if fault.isdigit() else fault
    with World(folder, at=("knot",)) as world:
        proxy = pdnslib.Faulty(world.servers["pdns"], int(first), fault)
        world.url, world.web = proxy.url, "4s"
        world.write()
        start = ("--from", PROVIDER["knot"], "--to", PROVIDER["pdns"], "--yes", "--settle", "0", "--once")
        with world.asking():
            for _ in range(20):
                done = world.migrate(*start, status=None)
                if done.returncode != 3 or len(proxy.seen) >= int(first):
                    break
                time_is_over(world)
            reached = len(proxy.seen) >= int(first)
            assert done.returncode in ((1, 3) if reached else (0,)), done
            assert not reached or "dns-pdns" in done.stderr, done.stderr
            proxy.close()
            world.url, world.web = None, "30s"
            world.write()
            world.migrate(*(start[:-1] if not (folder / "state/tm.example.json").exists() else ()))
            check_moved(world, "knot", "pdns")
            assert world.servers["pdns"].rrset("www." + ZONE, "A", zone=ZONE)
        print("reached" if reached else "not reached", done.stderr)


SCENARIOS = {f.__name__: f for f in (moves, to_own, from_own, three_targets, killed, back, back_and_forth, strangers, wrong_answers,
                                     refusals, faults)}


def main():
    folder = pathlib.Path(sys.argv[2])
    loopback_up()
    add_address(RESOLVERS["bind"], 0)  # named listens only where an interface has the address
    (folder / "resolv.conf").write_text(f"nameserver {RESOLVERS['unbound']}\noptions timeout:1 attempts:2\n", encoding="ascii")
    if not pathlib.Path("/etc/resolv.conf").exists():
        pathlib.Path("/etc/resolv.conf").touch()  # something to mount over
    subprocess.run(["mount", "--bind", folder / "resolv.conf", "/etc/resolv.conf"], check=True)
    SCENARIOS[sys.argv[1]](folder, *sys.argv[3:])
    print("passed")


if __name__ == "__main__":
    main()

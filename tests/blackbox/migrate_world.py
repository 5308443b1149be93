# SPDX-License-Identifier: Apache-2.0
"""The network of migrate_network.py and of those beside it: root and parent zone, two resolvers that are asked
all the time, the providers between which a zone moves, the configuration, and the commands."""
import collections
import json
import pathlib
import subprocess
import threading
import time

import dns.exception
import dns.query
import dns.update

import pdnslib
import primaries
import serverlib
import sluicelib

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


def update(address, zone, change):
    message = dns.update.UpdateMessage(zone, keyring=KEY.ring(), keyname=KEY.name, keyalgorithm=KEY.algorithm)
    change(message)
    assert dns.query.tcp(message, address, sluicelib.DEADLINE).rcode() == 0


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
        update(self.address, zone, change)

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
        self.late, self.pause, self.tries = [], 0.004, 3

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
        for number in range(self.tries):
            try:
                return dns.query.udp(query, self.address, timeout=5)
            except dns.exception.Timeout:
                self.late.append(f"{time.strftime('%T')} {self.address} {name} {rdtype}")
                if number == self.tries - 1:
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
            self.over.wait(self.pause)

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
  access-control: 127.0.0.0/8 allow_snoop
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
                serverlib.wait_for(lambda a=address: self.resolves(a), name)
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
            done = sluicelib.sluice(*self.argv(*words), status=status, timeout=3 * sluicelib.DEADLINE)
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

    def asking(self, pause=0.004, tries=3):
        return Asking(self, pause, tries)

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

    def __init__(self, world, pause, tries):
        self.world, self.pause, self.tries = world, pause, tries

    def __enter__(self):
        self.askers = [Asker(a) for a in RESOLVERS.values()]
        for asker in self.askers:
            asker.pause, asker.tries = self.pause, self.tries
            asker.start()
        return self

    def __exit__(self, kind, value, trace):
        if not kind:
            serverlib.wait_for(lambda: all(a.count > 100 for a in self.askers), "questions", 3 * sluicelib.DEADLINE)
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

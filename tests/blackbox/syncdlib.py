# SPDX-License-Identifier: Apache-2.0
"""sluice-syncd under test: the program, and providers that can be cut off."""
import json
import socket
import threading

import ns1sim
import serverlib
import sluicelib

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [sluice, %s]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
"""


class Syncd(sluicelib.Process):
    def __init__(self, settings):
        super().__init__(sluicelib.program("sluice-syncd"), "-c", settings)
        self.wait_log("ready")


class Gate:
    """A TCP port in front of another one, which can be shut: connections are refused and those that are open end."""

    def __init__(self, target):
        self.target = target
        self.reserved = sluicelib.Port()
        self.port = self.reserved.number
        self.lock = threading.Lock()
        self.open_sockets = set()
        self.listener = None
        self.open()

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.thread = threading.Thread(target=self.accept, args=(self.listener,), daemon=True)
        self.thread.start()

    def accept(self, listener):
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            with self.lock:
                self.open_sockets |= {client, server}
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def shut(self):
        sluicelib.stop_accepting(self.listener, self.thread)
        with self.lock:
            for sock in self.open_sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.open_sockets.clear()

    def close(self):
        self.shut()
        self.reserved.close()


class Machine:
    """A server, sluice-syncd, and whatever providers the heir has in `providers`: name -> settings in YAML."""

    def __init__(self, folder, providers, domain=DOMAIN, secrets="", more="", zone=ZONE):
        self.folder = folder
        self.zone = zone % ", ".join(providers)
        self.defaults = "default_zone: e.test\nproviders:\n" + "".join(
            f"  {name}: {settings}\n" for name, settings in providers.items())
        self.write({"cdn": domain})
        self.data = sluicelib.build(folder / "config", folder / "data")
        (folder / "state").mkdir()
        self.server = sluicelib.Server(self.data, "--state", folder / "state")
        self.control = folder / "syncd.sock"
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(
            f"data: {self.data}\ncontrol: {self.server.control}\nsecrets: {{{secrets}}}\n"
            f"syncd: {{control: {self.control}, state: {folder}/queues, config: {folder}/config, "
            f"locks: {folder}/locks{more}}}\n", encoding="ascii")
        self.syncd = None

    def write(self, domains, zone=None):
        files = {"defaults.yaml": self.defaults, "e.test/zone.yaml": zone or self.zone}
        for name, text in domains.items():
            files[f"e.test/{name}/domain.yaml"] = text
        sluicelib.write_tree(self.folder / "config", files)

    def deploy(self):
        sluicelib.build(self.folder / "config", self.data)
        self.server.reload()

    def start(self):
        self.syncd = Syncd(self.settings)

    def close(self):
        if self.syncd:
            self.syncd.kill()
            assert not sluicelib.SANITIZER.search(self.syncd.log), self.syncd.log
        self.server.kill()

    def status(self):
        return {p["name"]: p for p in sluicelib.control(self.control, "status")["providers"]}

    def is_level(self, *names):
        found = self.status()
        wanted = names or found
        return bool(found) and all(not found[n]["behind"] + found[n]["zones_behind"] for n in wanted)

    def wait_level(self, *names):
        serverlib.wait_for(lambda: self.is_level(*names), "providers that are level")

    def sluice(self, *words, status=0):
        return sluicelib.sluice(*words, "--socket", self.server.control, "--settings", self.settings, status=status)


class Ns1(Machine):
    """With the simulator of NS1 alone, which is the quickest."""

    def __init__(self, folder, more="", domain=DOMAIN, zone=ZONE):
        self.sim = ns1sim.Simulator()
        self.sim.make_zone()
        (folder / "key").write_text(ns1sim.KEY, encoding="ascii")
        (folder / "key").chmod(0o600)
        super().__init__(folder, {"dns-b": json.dumps({"type": "ns1", "url": self.sim.url, "secret": "dns-b"})},
                         domain, f"dns-b: {{file: {folder}/key}}", more, zone)

    def close(self):
        super().close()
        self.sim.close()

    def values(self, name, rtype="A"):
        record = self.sim.zones["e.test"].get((name, rtype))
        return record and sorted(" ".join(map(str, a["answer"])) for a in record["answers"])

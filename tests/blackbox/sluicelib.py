# SPDX-License-Identifier: Apache-2.0
"""What the black-box tests share: configuration trees, the programs, DNS questions.

Everything here works on the real programs of a build directory ($SLUICE_BUILD, default `build/` in
the checkout) and may be used by tests that run in parallel.  There are no skips: a program that is
missing fails the test.
"""
import fcntl
import functools
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype

REPO = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD") or REPO / "build").resolve()
DEADLINE = 60.0  # seconds for anything that should take milliseconds; a sanitizer build on a busy machine is slow

SANITIZER = re.compile(r"ERROR: \w+Sanitizer|runtime error:|LeakSanitizer|WARNING: ThreadSanitizer")

ZONE = """\
ttl: 3600
soa: {mname: ns1.example.net., rname: hostmaster.example.net., refresh: 7200, retry: 900,
      expire: 1209600, minimum: 60}
ns: [ns1.example.net., ns2.example.net.]
"""


def environment():
    """The environment of a program under test."""
    env = dict(os.environ, LC_ALL="C.UTF-8", NO_COLOR="1")
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:exitcode=99")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99")
    env.setdefault("TSAN_OPTIONS", "second_deadlock_stack=1:exitcode=99:print_suppressions=0:"
                                   f"suppressions={REPO}/tests/tsan/descriptors.supp")
    if built_for_tsan():
        env["LD_PRELOAD"] = rcu_edges()
    return env


@functools.lru_cache
def built_for_tsan():
    options = BUILD / "meson-info/intro-buildoptions.json"
    if not options.is_file():
        return False
    return any(o["name"] == "b_sanitize" and "thread" in o["value"]
               for o in json.loads(options.read_text(encoding="utf-8")))


@functools.lru_cache
def rcu_edges():
    """The library that tells ThreadSanitizer what liburcu orders (tests/tsan/rcu_edges.c)."""
    path = BUILD / "rcu_edges.so"
    part = path.with_suffix(f".{os.getpid()}")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", part, REPO / "tests/tsan/rcu_edges.c", "-ldl"],
                   check=True)
    os.replace(part, path)
    return str(path)


def program(name):
    """Path of a program of the build: sluice, sluiced, ..."""
    for folder in ("server", "tools", "tools/syncd", "healthcheck", "tests/probe", "."):
        path = BUILD / folder / name
        if path.is_file():
            return str(path)
    raise FileNotFoundError(f"{name} is not in {BUILD} (set SLUICE_BUILD to the build directory)")


def run(*args, timeout=DEADLINE, stdin=None, cwd=None):
    """Runs a command to its end; returns it with returncode, stdout and stderr (text)."""
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=timeout,
                          input=stdin, cwd=cwd, env=environment())
    assert not SANITIZER.search(done.stderr), done.stderr
    return done


def sluice(*args, status=0, **options):
    """Runs `sluice ARGS` and checks its exit status (None: any)."""
    done = run(program("sluice"), *args, **options)
    if status is not None and done.returncode != status:
        raise AssertionError(f"sluice {' '.join(map(str, args))}: exit status {done.returncode}, "
                             f"not {status}\nstdout: {done.stdout}\nstderr: {done.stderr}")
    return done


def write_tree(root, files):
    """Writes {relative path: text or bytes} below `root`; None removes a file.  Returns the root."""
    root = pathlib.Path(root)
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
    return root


def config_files(domains=None, zone="example.com", zone_yaml=ZONE, records="", defaults=""):
    """Files of a configuration with one zone.

    domains: {directory name, e.g. "cdn", "@" or "_wildcard.x": text of domain.yaml};
    records: YAML text that is put under `records:` (indented here).
    """
    files = {"defaults.yaml": defaults or f"default_zone: {zone}\n"}
    text = zone_yaml
    if records:
        text += "records:\n" + "".join(f"  {line}\n" for line in records.splitlines())
    files[f"{zone}/zone.yaml"] = text
    for name, domain in (domains or {}).items():
        files[f"{zone}/{name}/domain.yaml"] = domain
    return files


def build(config, data, *options):
    """`sluice build`: the configuration directory into the data directory."""
    sluice("build", config, "--out", data, *options)
    return pathlib.Path(data)


# ---- ports ---------------------------------------------------------------------------------------


class Port:
    """A port number of `address` that nothing else uses, UDP and TCP, while this object lives.

    A lock file keeps parallel tests apart: the server sets SO_REUSEPORT, so that binding alone
    would not.
    """

    def __init__(self, address="127.0.0.1"):
        folder = pathlib.Path(f"/tmp/sluice-test-ports-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        for _ in range(500):
            number = random.SystemRandom().randint(20000, 31999)  # below the ephemeral ports
            lock = open(folder / str(number), "w", encoding="ascii")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._try_bind(address, number)
            except OSError:
                lock.close()
                continue
            self.lock, self.number = lock, number
            return
        raise RuntimeError("no free port found")

    @staticmethod
    def _try_bind(address, number):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with socket.socket(family, kind) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
                sock.bind((address, number))

    def close(self):
        self.lock.close()


# ---- processes -----------------------------------------------------------------------------------


class Process:
    """A long-lived program: its stderr and stdout are read as they come, line by line."""

    def __init__(self, *argv, cwd=None, env=None, stdin=subprocess.DEVNULL):
        self.argv = [str(a) for a in argv]
        self.lines = []
        self._news = threading.Condition()
        self._ended = False
        self.proc = subprocess.Popen(self.argv, stdin=stdin, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, cwd=cwd,
                                     errors="backslashreplace", env={**environment(), **(env or {})})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.proc.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def log(self):
        with self._news:
            return "\n".join(self.lines)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()
            print(self.log)

    def wait_ready(self):
        """Waits until it says so; it is ended if it does not."""
        try:
            self.wait_log(r"\bready\b")
        except AssertionError:
            self.kill()
            raise

    def mark(self):
        """A place in the log, for wait_log(..., since=mark)."""
        with self._news:
            return len(self.lines)

    def wait_log(self, pattern, timeout=DEADLINE, since=0):
        """Waits for a line that matches the regular expression; returns the match."""
        regex = re.compile(pattern)
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.lines[since:]:
                    found = regex.search(line)
                    if found:
                        return found
                since = max(since, len(self.lines))
                left = end - time.monotonic()
                if self._ended or left <= 0:
                    what = "ended" if self._ended else f"was silent for {timeout} s"
                    raise AssertionError(f"{self.argv[0]} {what} without a line /{pattern}/; its log:\n"
                                         + "\n".join(self.lines))
                self._news.wait(left)

    def wait(self, timeout=DEADLINE):
        """Waits for the end of the program; returns its exit status."""
        status = self.proc.wait(timeout)
        self._reader.join(timeout)
        self.check_sanitizers()
        return status

    def check_sanitizers(self):
        assert not SANITIZER.search(self.log), self.log

    def signal(self, number):
        self.proc.send_signal(number)

    def alive(self):
        return self.proc.poll() is None

    def stop(self, status=0):
        """SIGTERM; the program must end with `status` (None: any) and no sanitizer report."""
        if self.alive():
            self.proc.send_signal(signal.SIGTERM)
        try:
            got = self.wait()
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise AssertionError(f"{self.argv[0]} did not end after SIGTERM; its log:\n{self.log}") from None
        if status is not None:
            assert got == status, f"{self.argv[0]}: exit status {got}, not {status}; its log:\n{self.log}"
        return got

    def kill(self):
        """Ends it at once, without any check (for clean-up after a failed test)."""
        if self.alive():
            self.proc.kill()
        self.proc.wait()
        self._reader.join(DEADLINE)


class Server(Process):
    """sluiced on a port of its own.

    data: the build's directory; geo, asn: MMDB files; control: path of the control socket (default:
    beside `data`, None for none); addresses: what it listens on, all with the same port.
    """

    def __init__(self, data, *options, geo=None, asn=None, control="", threads=2,
                 addresses=("127.0.0.1",), wait=True, binary="sluiced"):
        self.data = pathlib.Path(data)
        self.address = addresses[0]
        self.addresses = addresses
        self.reserved = Port(addresses[0])
        self.port = self.reserved.number
        self.control = f"{self.data}.sock" if control == "" else control
        argv = [program(binary), "--data", self.data, "--threads", str(threads)]
        for address in addresses:
            argv += ["--listen", f"{address}@{self.port}"]
        if geo:
            argv += ["--geo", geo]
        if asn:
            argv += ["--asn", asn]
        if self.control:
            argv += ["--control", self.control]
        super().__init__(*argv, *options)
        if wait:
            self.wait_ready()

    def stop(self, status=0):
        try:
            return super().stop(status)
        finally:
            self.reserved.close()

    def kill(self):
        super().kill()
        self.reserved.close()

    def sluice(self, *args, status=0, **options):
        """`sluice ARGS --socket` of this server."""
        return sluice(*args, "--socket", self.control, status=status, **options)

    def reload(self):
        """`sluice reload`: returns when the new data is served."""
        return self.sluice("reload")

    def ask(self, name, rdtype="A", **options):
        """Asks this server; see ask()."""
        options.setdefault("address", self.address)
        return ask(options.pop("address"), self.port, name, rdtype, **options)


# ---- questions -----------------------------------------------------------------------------------


def make_query(name, rdtype="A", ecs=None, edns=True, payload=1232, do=False, options=(), qclass="IN",
               rd=False):
    """A query message.  ecs: "192.0.2.0/24" or an address alone; options: further EDNS options."""
    options = list(options)
    if ecs is not None:
        address, _, bits = ecs.partition("/")
        bits = int(bits) if bits else (128 if ":" in address else 32)
        options.append(dns.edns.ECSOption(address, bits))
    use = 0 if edns or options else -1
    query = dns.message.make_query(name, rdtype, qclass, use_edns=use, payload=payload,
                                   want_dnssec=do and use == 0, options=options or None)
    if not rd:
        query.flags &= ~dns.flags.RD
    return query


def ask(address, port, name, rdtype="A", tcp=False, timeout=DEADLINE, **options):
    """Asks one question; returns dnspython's message (with .wire_size).  No retry over TCP."""
    query = make_query(name, rdtype, **options)
    if tcp:
        reply = dns.query.tcp(query, address, timeout, port, one_rr_per_rrset=True)
    else:
        reply = udp(query, address, port, timeout)
    return reply


def udp(query, address, port, timeout=DEADLINE):
    """UDP with repetition, since a datagram may be lost on a machine under load."""
    end = time.monotonic() + timeout
    while True:
        try:
            return dns.query.udp(query, address, min(5.0, timeout), port, one_rr_per_rrset=True,
                                 ignore_unexpected=True)
        except dns.exception.Timeout:
            if time.monotonic() > end:
                raise


def exchange(address, port, wire, timeout=DEADLINE):
    """Sends raw bytes over UDP, once, and returns the raw reply."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect((address, port))
        sock.send(wire)
        return sock.recv(65535)


def exchange_tcp(address, port, wire, timeout=DEADLINE):
    """Sends one message over TCP and returns the reply's bytes (b"" if the server closes)."""
    with socket.create_connection((address, port), timeout) as sock:
        sock.sendall(struct.pack("!H", len(wire)) + wire)
        return read_message(sock)


def read_message(sock):
    """The next message on a TCP connection, b"" at its end."""
    head = receive(sock, 2)
    return receive(sock, struct.unpack("!H", head)[0]) if len(head) == 2 else b""


def receive(sock, count):
    """Reads `count` octets, or fewer if the peer closes."""
    out = b""
    while len(out) < count:
        part = sock.recv(count - len(out))
        if not part:
            break
        out += part
    return out


def stop_accepting(listener, thread):
    """Ends a thread that accepts, then its socket: closed before, its next accept() would be on whatever
    socket has the number by then, and another test's connection be lost."""
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(DEADLINE)
    listener.close()


def wait_for(condition, what="", timeout=DEADLINE):
    """Waits until condition() is true; `what` is a text or a function that makes one."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def call(path, command, timeout=DEADLINE, **arguments):
    """The reply to one request to a control socket (server/control.h), whether it is ok or not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        sock.connect(str(path))
        sock.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        with sock.makefile("rb") as lines:
            return json.loads(lines.readline())


def control(path, command, timeout=DEADLINE, **arguments):
    """The reply to one request, which must be ok."""
    reply = call(path, command, timeout, **arguments)
    assert reply["ok"], reply
    return reply


def flood(address, port, wire, count, window=64, timeout=DEADLINE):
    """Asks the same question `count` times over UDP, many at a time, and returns the replies
    without their two octets of ID as a dict of bytes -> how often.

    A question without a reply is asked again.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    seen = {}
    waiting = set()
    body = wire[2:]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect((address, port))
        sock.settimeout(1.0)
        sent = got = 0
        end = time.monotonic() + timeout
        while got < count:
            while sent < count and len(waiting) < window:
                sock.send(struct.pack("!H", sent) + body)
                waiting.add(sent)
                sent += 1
            try:
                reply = sock.recv(4096)
            except TimeoutError:
                if time.monotonic() > end:
                    raise
                for number in waiting:
                    sock.send(struct.pack("!H", number) + body)
                continue
            number = reply[0] << 8 | reply[1]
            if number in waiting:
                waiting.remove(number)
                got += 1
                rest = reply[2:]
                seen[rest] = seen.get(rest, 0) + 1
    return seen


# ---- replies -------------------------------------------------------------------------------------


def rdata(reply, rdtype=None, section="answer"):
    """Sorted texts of the record data in a section, of one type or of all."""
    wanted = None if rdtype is None else dns.rdatatype.from_text(rdtype)
    return sorted(rr.to_text() for rrset in getattr(reply, section) for rr in rrset
                  if wanted in (None, rrset.rdtype))


def records(reply, section="answer"):
    """Sorted "owner ttl type data" of a section."""
    return sorted(f"{rrset.name.to_text().lower()} {rrset.ttl} {dns.rdatatype.to_text(rrset.rdtype)} "
                  f"{rr.to_text()}" for rrset in getattr(reply, section) for rr in rrset)


def rcode(reply):
    return dns.rcode.to_text(reply.rcode())


def ecs_of(reply):
    """(address, source, scope) of the reply's ECS option, or None."""
    for option in reply.options:
        if isinstance(option, dns.edns.ECSOption):
            return option.address, option.srclen, option.scopelen
    return None

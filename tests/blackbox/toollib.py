# SPDX-License-Identifier: Apache-2.0
"""What the tests of `sluice` itself share."""
import functools
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading

import sluicelib

DOMAIN = """\
ttl: 30
owner: edge
endpoints:
  one: [192.0.2.1, "2001:db8::1"]
  two: [192.0.2.2, "2001:db8::2"]
  spare: [192.0.2.3, "2001:db8::3"]
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  192.0.2.128/25: {two: 1}
"""

# Records that master files easily get wrong: every form of escape, of name and of RDATA.
RECORDS = r"""
"@": {MX: ["10 mail.example.com."], TXT: ["v=spf1 -all", "quote \" back \\ semi ; at @ dollar $"],
      CAA: ['0 issue "ca.example.net"']}
www: {A: [192.0.2.80, 192.0.2.81], AAAA: ["2001:db8::80"]}
mail: {A: [192.0.2.25]}
"*.wild": {A: [192.0.2.90], TXT: ["star"]}
a.b.c: {A: [192.0.2.91]}
alias: {CNAME: www.example.com.}
_sip._tcp: {SRV: ["10 20 5060 mail.example.com."]}
sub: {NS: [ns.sub.example.com., ns.example.net.]}
ns.sub: {A: [192.0.2.53]}
tree: {DNAME: other.example.net.}
fp: {SSHFP: ["4 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]}
_443._tcp.www: {TLSA: ["3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]}
loc: {LOC: ["52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"]}
naptr: {NAPTR: ['100 50 "s" "z3950+N2L+N2C" "" _z3950._tcp.example.com.']}
long: {TXT: ["%s"]}
""" % ("x" * 600)


def fails(*args, status, **options):
    """The one line that a failing command prints, without `sluice: `."""
    done = sluicelib.sluice(*args, status=status, **options)
    assert done.stdout == "" and done.stderr.startswith("sluice: "), done
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    return done.stderr[8:-1]


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def manifest(data):
    """The manifest of the current build; checks that every hash in it is right."""
    current = pathlib.Path(data) / "current"
    out = json.loads((current / "manifest.json").read_text(encoding="utf-8"))
    for zone in out["zones"]:
        assert sha256(current / zone["image"]) == zone["image_sha256"]
        assert sha256(current / zone["zonefile"]) == zone["zonefile_sha256"]
    assert sha256(current / "checks.json") == out["checks_sha256"]
    assert sha256(current / "domains.json") == out["domains_sha256"]
    assert os.readlink(current) == "builds/" + sha256(current / "manifest.json")[:16]
    return out


def tree(root):
    """{relative path: contents or link target} of everything below a folder."""
    root = pathlib.Path(root)
    out = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            out[name] = "-> " + os.readlink(path)
        elif path.is_file():
            out[name] = path.read_bytes()
    return out


def check_master_file(zone, path):
    """The file loads in NSD, BIND and Knot as it is."""
    commands = [
        ["nsd-checkzone", zone, path],
        # -i local: no questions to the network; -k warn: hosts' names may have underscores
        ["named-checkzone", "-i", "local", "-k", "warn", zone, path],
        ["kzonecheck", "-o", zone, path],
    ]
    env = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin", LC_ALL="C")
    for command in commands:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env,
                              timeout=sluicelib.DEADLINE)
        assert done.returncode == 0, (f"{command[0]} refuses {path}:\n{done.stdout}{done.stderr}\n"
                                      + pathlib.Path(path).read_text(encoding="utf-8"))


# ---- faults ---------------------------------------------------------------------------------------

# Counts the calls that change files; the one with number FAULT_AT fails with FAULT_ERRNO, or, without
# that, ends the process as `kill -9` would at this moment.  FAULT_MARK is made when it was reached.
FAULT_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int due(void) {
  static long count;
  const char *at = getenv("FAULT_AT");
  if (!at || __sync_add_and_fetch(&count, 1) != atol(at))
    return 0;
  syscall(SYS_openat, AT_FDCWD, getenv("FAULT_MARK"), O_CREAT | O_WRONLY, 0600);
  const char *number = getenv("FAULT_ERRNO");
  if (!number)
    kill(getpid(), SIGKILL);
  errno = atoi(number);
  return 1;
}
#define WRAP(type, name, parameters, arguments)                       \
  type name parameters {                                              \
    static type(*next) parameters;                                    \
    if (!next)                                                        \
      next = (type(*) parameters)dlsym(RTLD_NEXT, #name);             \
    return due() ? -1 : next arguments;                               \
  }
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, syncfs, (int fd), (fd))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
WRAP(int, linkat, (int a, const char *p, int b, const char *q, int f), (a, p, b, q, f))
WRAP(int, unlinkat, (int at, const char *path, int f), (at, path, f))
WRAP(int, symlink, (const char *target, const char *path), (target, path))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat2, (int a, const char *p, int b, const char *q, unsigned f), (a, p, b, q, f))

int openat(int at, const char *path, int flags, ...) {
  static int (*next)(int, const char *, int, ...);
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (!next)
    next = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
  return flags & O_CREAT && due() ? -1 : next(at, path, flags, mode);
}
"""


@functools.lru_cache
def fault_library():
    folder = tempfile.TemporaryDirectory(prefix="sluice-fault-")
    source = pathlib.Path(folder.name) / "fault.c"
    source.write_text(FAULT_C, encoding="utf-8")
    library = source.with_suffix(".so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return folder, str(library)


def run_with_fault(at, args, mark, errno=None):
    """Runs `sluice ARGS` with a fault at the `at`-th call that changes files.  Returns the process
    and whether there were so many calls."""
    env = sluicelib.environment()
    env["LD_PRELOAD"] = fault_library()[1]
    env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    env["FAULT_AT"] = str(at)
    env["FAULT_MARK"] = str(mark)
    if errno is not None:
        env["FAULT_ERRNO"] = str(errno)
    done = subprocess.run([sluicelib.program("sluice"), *map(str, args)], capture_output=True,
                          text=True, env=env, timeout=sluicelib.DEADLINE)
    assert not sluicelib.SANITIZER.search(done.stderr), done.stderr
    reached = mark.exists()
    mark.unlink(missing_ok=True)
    return done, reached


# ---- a server that is not one ----------------------------------------------------------------------


class FakeServer:
    """A control socket that gives prepared answers: answer(request) returns an object or bytes."""

    def __init__(self, path, answer):
        self.path = str(path)
        self.answer = answer
        self.requests = []
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.bind(self.path)
        self.sock.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.sock.accept()
            except OSError:
                return
            with peer, peer.makefile("rb") as lines:
                try:
                    line = lines.readline()
                except OSError:  # reset by a client that was killed, say
                    continue
                if not line:
                    continue
                request = json.loads(line)
                self.requests.append(request)
                reply = self.answer(request)
                if not isinstance(reply, bytes):
                    reply = json.dumps(reply).encode() + b"\n"
                try:
                    peer.sendall(reply)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *what):
        sluicelib.stop_accepting(self.sock, self.thread)

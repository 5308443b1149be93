# SPDX-License-Identifier: Apache-2.0
"""What the tests of deploys share: real repositories, real `git push`, a server that is told."""
import json
import os
import pathlib
import socket
import struct
import subprocess
import threading

import sluicelib
import toollib

DOMAIN = """\
ttl: 30
endpoints: {{one: {address}}}
regions: {{global: {{one: 1}}}}
"""


def domain(address):
    return DOMAIN.format(address=address)


def environment(**more):
    """Of git: nothing of the user's own."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
           "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.net", "GIT_COMMITTER_NAME": "Ann",
           "GIT_COMMITTER_EMAIL": "ann@example.net", "GIT_TERMINAL_PROMPT": "0"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_PRELOAD"):
        value = sluicelib.environment().get(name)
        if value and name != "LD_PRELOAD":
            env[name] = value
    env.update(more)
    return env


def git(folder, *args, status=0, env=None, stdin=None, binary=False):
    """Runs git in a folder; its output.  status None: any."""
    done = subprocess.run(["git", "-C", str(folder), *map(str, args)], capture_output=True,
                          text=not binary, env=env or environment(), input=stdin,
                          timeout=sluicelib.DEADLINE)
    err = done.stderr if isinstance(done.stderr, str) else done.stderr.decode(errors="replace")
    assert not sluicelib.SANITIZER.search(err), err
    if status is not None:
        assert done.returncode == status, f"git {args}: {done.returncode}\n{done.stdout}\n{err}"
    return done


def files_of(repository):
    """{path: size} of a repository, to see that nothing was left behind."""
    root = pathlib.Path(repository)
    return {str(p.relative_to(root)): p.lstat().st_size for p in sorted(root.rglob("*"))
            if not p.is_dir()}


class Site:
    """A bare repository that deploys, a working tree that pushes to it, a folder of builds."""

    servers = []  # all that were started

    def __init__(self, root, *options, branch="main", socket=None):
        self.root = pathlib.Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self.bare = self.root / "dns.git"
        self.work = self.root / "work"
        self.data = self.root / "data"
        self.socket = socket or self.root / "control.sock"
        self.branch = branch
        self.server = None
        git(self.root, "init", "-q", "--bare", self.bare)
        git(self.root, "init", "-q", "-b", branch, self.work)
        git(self.work, "remote", "add", "origin", f"file://{self.bare}")
        self.install(*options)

    def install(self, *options):
        return sluicelib.sluice("hook", "install", self.bare, "--data", self.data, "--socket", self.socket,
                                *options)

    def commit(self, files, message="a change"):
        """Commits {path: text} (None removes) and returns the id."""
        sluicelib.write_tree(self.work, files)
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def head(self):
        return git(self.work, "rev-parse", "HEAD").stdout.strip()

    def push(self, *args, status=0, env=None):
        """Pushes; what the pusher sees."""
        done = git(self.work, "push", "origin", *(args or [self.branch]), status=status, env=env)
        return done.stderr

    def start(self):
        """A first commit live, and a server."""
        self.commit(sluicelib.config_files({"cdn": domain("192.0.2.1")}), "first")
        said = self.push()
        assert "ACCEPTED, NOT DEPLOYED: " in said
        self.server = sluicelib.Server(self.data, control=str(self.socket))
        Site.servers.append(self.server)
        self.sluice("status", "--socket", self.socket)
        return self

    @classmethod
    def end_all(cls):
        """Ends what a failed test has left running."""
        while cls.servers:
            cls.servers.pop().kill()

    def change(self, address, name="cdn", message="a change"):
        return self.commit({f"example.com/{name}/domain.yaml": domain(address)}, message)

    def ask(self, name="cdn.example.com."):
        return sluicelib.rdata(self.server.ask(name))

    def serial(self, zone="example.com."):
        return int(sluicelib.rdata(self.server.ask(zone, "SOA"))[0].split()[2])

    def sluice(self, *args, **options):
        return sluicelib.sluice(*args, **options)

    def deploys(self, status=0):
        return json.loads(self.sluice("deploys", self.bare, "--json", status=status).stdout)

    def arm(self, hook):
        """Makes a hook run with the library of faults when FAULT_AT is in the environment."""
        path = self.bare / "hooks" / hook
        text = path.read_text(encoding="utf-8")
        library = toollib.fault_library()[1]
        path.write_text(text.replace("\nexec ", f'\n[ -z "$FAULT_AT" ] || export LD_PRELOAD={library}\nexec ', 1),
                        encoding="utf-8")

    def push_with_fault(self, at, errno=None):
        """A push with a fault at the `at`-th call of the armed hook that changes files; whether it was
        reached, the exit status of git, and what the pusher sees."""
        mark = self.root / "mark"
        env = environment(FAULT_AT=str(at), FAULT_MARK=str(mark))
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        if errno is not None:
            env["FAULT_ERRNO"] = str(errno)
        done = git(self.work, "push", "origin", self.branch, status=None, env=env)
        reached = mark.exists()
        mark.unlink(missing_ok=True)
        return reached, done.returncode, done.stderr


class Relay:
    """A control socket in front of a server's own: before(pid, request) runs first, in a thread of
    each connection."""

    def __init__(self, path, target, before):
        self.target, self.before = str(target), before
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.bind(str(path))
        self.sock.listen(64)
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        pid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        try:
            with peer, peer.makefile("rb") as lines:
                line = lines.readline()
                if not line:
                    return
                self.before(pid, json.loads(line))
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
                    server.connect(self.target)
                    server.sendall(line)
                    with server.makefile("rb") as replies:
                        peer.sendall(replies.readline())
        except OSError:
            pass

    def close(self):
        sluicelib.stop_accepting(self.sock, self.thread)

# SPDX-License-Identifier: Apache-2.0
"""Pushes and followers over ssh: an own sshd on 127.0.0.1, with its own keys."""
import os
import pathlib
import pwd
import socket
import subprocess

import gitlib
import pytest
import sluicelib
from gitlib import git


@pytest.fixture(autouse=True)
def no_server_is_left():
    yield
    gitlib.Site.end_all()


@pytest.fixture
def sshd(tmp_path):
    """GIT_SSH_COMMAND of a login on 127.0.0.1 as the user who runs this, and the URL's host part.

    The login has what sshd gives it (no variables of this test), by way of git-shell's place.
    """
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = sluicelib.Port()
    # Who pushes is told by the key, as with a shared account.
    options = "".join(f"{k}={v} " for k, v in gitlib.environment().items() if k.endswith("SAN_OPTIONS"))
    login = folder / "login"
    login.write_text(f'#!/bin/sh\numask 077\nexec env {options}SLUICE_USER=bob git-shell -c "$SSH_ORIGINAL_COMMAND"\n',
                     encoding="ascii")
    login.chmod(0o755)
    key = (folder / "user.pub").read_text(encoding="ascii")
    (folder / "authorized_keys").write_text(f'restrict,command="{login}" {key}', encoding="ascii")
    (folder / "config").write_text(f"""\
Port {port.number}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
""", encoding="ascii")
    os.makedirs("/run/sshd", exist_ok=True)
    daemon = sluicelib.Process("/usr/sbin/sshd", "-D", "-e", "-f", folder / "config")
    daemon.wait_log("Server listening")
    user = pwd.getpwuid(os.getuid()).pw_name
    command = f"ssh -i {folder}/user -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no " \
              f"-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -F /dev/null"
    yield command, f"ssh://{user}@127.0.0.1:{port.number}"
    daemon.kill()
    port.close()


def test_B13_pushes_over_ssh(tmp_path, sshd):
    command, host = sshd
    site = gitlib.Site(tmp_path / "site").start()
    env = gitlib.environment(GIT_SSH_COMMAND=command)
    git(site.work, "remote", "set-url", "origin", f"{host}{site.bare}")
    site.change("192.0.2.2")
    said = site.push(env=env)
    assert "remote: sluice: deploy 2 is live" in said and site.ask() == ["192.0.2.2"]
    newest = site.deploys()[0]
    assert newest["who"] == "bob" and newest["origin"] == "ssh from 127.0.0.1"
    files = gitlib.files_of(site.bare)
    site.commit({"example.com/cdn/domain.yaml": "ttl: 30\nendpoints: {one: 192.0.2.9}\nregions: {global: {two: 1}}\n"})
    said = site.push(status=1, env=env)
    assert "remote: example.com/cdn/domain.yaml:3:20: " in said
    assert gitlib.files_of(site.bare) == files and site.ask() == ["192.0.2.2"]
    site.server.stop()


def test_a_follower_over_ssh(tmp_path, sshd, monkeypatch):
    command, host = sshd
    site = gitlib.Site(tmp_path / "site").start()
    site.change("192.0.2.2")
    site.push()
    monkeypatch.setenv("GIT_SSH_COMMAND", command)
    data, control = pathlib.Path(tmp_path / "data"), tmp_path / "c.sock"
    follow = ["follow", f"{host}{site.bare}", "--data", data, "--socket", control, "--once"]
    sluicelib.sluice(*follow, status=3)  # no server yet
    with sluicelib.Server(data, control=str(control)) as server:
        sluicelib.sluice(*follow)
        site.change("192.0.2.3")
        site.push()
        sluicelib.sluice(*follow)
        assert sluicelib.rdata(server.ask("cdn.example.com.")) == ["192.0.2.3"] == site.ask()
        assert sluicelib.rdata(server.ask("example.com.", "SOA")) == sluicelib.rdata(
            site.server.ask("example.com.", "SOA"))
    # A host that does not answer.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        done = sluicelib.sluice("follow", f"ssh://x@127.0.0.1:{silent.getsockname()[1]}/r.git", "--data", data,
                                "--socket", control, "--once", status=1)
        assert "cannot fetch from" in done.stderr
    site.server.stop()

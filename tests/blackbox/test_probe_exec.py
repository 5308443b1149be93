# SPDX-License-Identifier: Apache-2.0
"""Probes of type exec: programs of this machine's settings (reports B27, B31, B50)."""
import json
import os
import pathlib
import pwd
import re
import signal
import subprocess

import pytest

import sluicelib
from fakedns import FakeDNS, reply
from probelib import probe, probes, settings
from sluicelib import wait_for

ME = pwd.getpwuid(os.geteuid()).pw_name
RUN_AS = ("--run-as", ME)
CHECK = settings("exec", check="a")
QUICK = settings("exec", check="a", timeout=300)


def run(*argv, check=CHECK, target="127.0.0.1", options=RUN_AS):
    return probe(check, target, *options, programs={"a": argv})


def verdict(*argv, **keywords):
    result = run(*argv, **keywords)
    return result["ok"], result["reason"]


def sh(script, *arguments, **keywords):
    return verdict("/bin/sh", "-c", script, "sh", *arguments, **keywords)


def processes(mark):
    """Processes (and zombies) with this word among their arguments."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(folder.name))
    return found


def unique(number=[0]):
    """Seconds of a sleep that no other process sleeps."""
    number[0] += 1
    return f"600.{os.getpid()}{number[0]:05d}"


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("script,expected", [
    ("exit 0", (True, "exit status 0")),
    ("exit 3", (False, "exit status 3")),
    ("exit 255", (False, "exit status 255")),
    ("kill -9 $$", (False, "killed by signal 9")),
    ("kill -TERM $$", (False, "killed by signal 15")),
    ("yes | head -c 10000000; exit 0", (True, "exit status 0")),
    ("yes | head -c 10000000 >&2; exit 4", (False, "exit status 4")),
])
def test_B27_exit(script, expected):
    assert sh(script) == expected


def test_arguments_come_as_they_are():
    script = '[ "$#" = 3 ] && [ "$1" = "a b" ] && [ "$2" = "\\$(id);*" ] && [ "$3" = "" ]'
    assert sh(script, "a b", "$(id);*", "") == (True, "exit status 0")


def test_B27_the_whole_tree_is_killed():
    mark = unique()
    results = probes(QUICK, ["127.0.0.1", "127.0.0.2"], *RUN_AS, "--rounds", "10",
                     programs={"a": ["/bin/sh", "-c", f"sleep {mark} & sleep {mark}"]})
    assert {r["reason"] for r in results} == {"timeout in running the program"} and len(results) == 20
    wait_for(lambda: not processes(mark))


def test_B27_signals_that_are_ignored():
    mark = unique()
    assert sh(f"trap '' TERM INT HUP QUIT; sleep {mark}; sleep {mark}", check=QUICK) == (
        False, "timeout in running the program")
    wait_for(lambda: not processes(mark))


def test_B27_what_is_left_in_the_background_goes_too():
    mark = unique()
    assert sh(f"sleep {mark} & exit 0") == (True, "exit status 0")
    wait_for(lambda: not processes(mark))


def test_B27_a_session_of_its_own_that_keeps_the_output_open():
    """It is not waited for."""
    mark = unique()
    try:
        assert sh(f"setsid sleep {mark} & exit 0") == (True, "exit status 0")
    finally:
        for pid in processes(mark):
            os.kill(pid, signal.SIGKILL)


def test_B27_missing_program():
    result = run("/usr/lib/sluice/checks/no-such-program")
    assert not result["ok"] and result["own_fault"]
    assert re.search("^/usr/lib.* does not exist$", result["reason"])


def test_program_without_interpreter(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n", encoding="ascii")
    program.chmod(0o755)
    result = run(program)
    assert result["own_fault"] and result["reason"] == "cannot run the program: No such file or directory"


def test_cancelled_and_closed_while_running():
    for way in ("--cancel", "--quit"):
        mark = unique()
        assert probes(CHECK, ["127.0.0.1"] * 3, *RUN_AS, way, "100",
                      programs={"a": ["/bin/sh", "-c", f"sleep {mark} & sleep {mark}"]}) == []
        wait_for(lambda: not processes(mark))


def test_many_rounds_leave_nothing():
    results = probes(CHECK, ["127.0.0.1"] * 4, *RUN_AS, "--rounds", "50", programs={"a": ["/bin/true"]})
    assert len(results) == 200 and all(r["ok"] for r in results)


def test_many_at_once():
    """So many, and no more: the others have no result."""
    results = probes(settings("exec", check="a", timeout=30000), ["127.0.0.1"] * 220, *RUN_AS,
                     programs={"a": ["/bin/sleep", "2"]})
    reasons = [r["reason"] for r in results]
    assert (reasons.count("exit status 0"), reasons.count("200 programs run already")) == (200, 20)
    assert all(r["ok"] != r["own_fault"] for r in results)


# ---- what a program gets -------------------------------------------------------------------------


def start_raw(*argv, check=CHECK, target="127.0.0.1", **popen):
    """probe_once with surroundings of the test's choice."""
    return subprocess.Popen([sluicelib.program("probe_once"), *RUN_AS, "--program", f"a={json.dumps(argv)}",
                             json.dumps(check), target], stdout=subprocess.PIPE, text=True, **popen)


def test_B31_descriptors_and_signals(tmp_path):
    """Whatever the checker has open, blocked or ignored."""
    def surroundings():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGRTMIN + 3})
    fds = [os.open("/dev/zero", os.O_RDONLY) for _ in range(20)]
    names, status = tmp_path / "names", tmp_path / "status"
    listing = ("import json, os, sys; names = {n: os.readlink(f'/proc/self/fd/{n}') for n in "
               "os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')}; "
               "json.dump(names, open(sys.argv[1], 'w'))")
    for argv in (["/usr/bin/python3", "-I", "-c", listing, str(names)],
                 ["/bin/sh", "-c", f"cat /proc/self/status >{status}"]):
        with start_raw(*argv, env=sluicelib.environment(), pass_fds=fds, preexec_fn=surroundings) as proc:
            assert json.loads(proc.stdout.read())["ok"]
    for fd in fds:
        os.close(fd)
    assert json.loads(names.read_text(encoding="ascii")) == {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null"}
    values = dict(line.split(":\t", 1) for line in status.read_text(encoding="ascii").splitlines())
    assert [int(values[k], 16) for k in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


def test_started_by_one_who_ignores_children():
    """Which a program inherits: then the kernel would reap, and exit statuses be lost."""
    for code, ok in ((0, True), (3, False)):
        with start_raw("/bin/sh", "-c", f"exit {code}", env=sluicelib.environment(),
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) as proc:
            result = json.loads(proc.stdout.read())
        assert (result["ok"], result["reason"], proc.returncode) == (ok, f"exit status {code}", 0)


def seen(script, tmp_path, **keywords):
    out = tmp_path / "out"
    assert sh(f"{{ {script}; }} >{out}", **keywords)[0]
    return out.read_text(encoding="ascii").splitlines()


def test_B31_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_CHECKER", "x")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    env = dict(line.split("=", 1) for line in seen("exec /usr/bin/env", tmp_path))
    assert 0 < int(env.pop("SLUICE_TIMEOUT_MS")) <= CHECK["timeout"]
    assert env.pop("PWD", "/") == "/"  # the shell's
    assert env == {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C",
                   "SLUICE_ADDRESS": "127.0.0.1", "SLUICE_FAMILY": "4"}


def test_environment_of_ipv6_and_host_names(tmp_path):
    assert seen("echo $SLUICE_ADDRESS $SLUICE_FAMILY", tmp_path, target="2001:DB8::1") == ["2001:db8::1 6"]
    assert seen("echo $SLUICE_ADDRESS $SLUICE_HOST", tmp_path, target="localhost") == ["127.0.0.1 localhost"]


def test_place_and_limits(tmp_path):
    lines = seen("pwd; umask; cat /proc/$$/limits; cut -d' ' -f1,5,6 /proc/$$/stat", tmp_path)
    assert lines[:2] == ["/", "0022"]
    limits = {line[:26].strip(): line[26:].split()[0] for line in lines[3:-1]}
    assert limits["Max core file size"] == "0" and int(limits["Max cpu time"]) == CHECK["timeout"] // 1000 + 2
    assert int(limits["Max data size"]) <= 1 << 30 and int(limits["Max open files"]) <= 1024
    assert len(set(lines[-1].split())) == 1  # leader of its group and session


def test_B31_ends_with_the_checker():
    mark = unique()
    with start_raw("/bin/sleep", mark, check=settings("exec", check="a", timeout=60000),
                   env=sluicelib.environment()) as proc:
        wait_for(lambda: processes(mark))
        proc.kill()
        wait_for(lambda: not processes(mark))


# ---- who may run what ----------------------------------------------------------------------------


def test_unknown_program():
    result = probe(settings("exec", check="b"), "127.0.0.1", *RUN_AS, programs={"a": ["/bin/true"]})
    assert result["own_fault"] and not result["ok"]
    assert result["reason"] == "no program `b` in `checks:` of this machine's settings"


@pytest.mark.parametrize("path,reason", [
    ("true", "true is not an absolute path"),
    ("../../bin/sh", "../../bin/sh is not an absolute path"),
    ("", " is not an absolute path"),
    ("/bin", "/usr/bin is a folder, not a program"),
    ("/", "/ is a folder, not a program"),
    ("/bin/true/x", "/usr/bin/true is not a folder"),
    ("/etc/passwd", "/etc/passwd is not executable"),
    ("/dev/null", "/dev/null is no regular file"),
])
def test_B50_paths(path, reason):
    result = run(path)
    assert (result["ok"], result["own_fault"], result["reason"]) == (False, True, reason)


def test_B50_files_that_others_may_write(tmp_path):
    folder = tmp_path / "checks"
    folder.mkdir(mode=0o755)
    program = folder / "program"
    program.write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
    program.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to("checks/../checks/program")
    assert verdict(program) == verdict(link) == (True, "exit status 0")
    for mode in (0o775, 0o757):
        program.chmod(mode)
        for path in (program, link):
            assert re.search("program is writable by group or others$", run(path)["reason"])
    program.chmod(0o755)
    for mode in (0o775, 0o757, 0o1777):
        folder.chmod(mode)
        for path in (program, link):
            assert re.search("checks is a folder that group or others may write to$", run(path)["reason"])
    folder.chmod(0o755)
    assert verdict(program)[0]


def test_B50_checked_again_before_each_run(tmp_path):
    """The program makes itself writable for all: it does not run a second time."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nchmod 777 "$0"\n', encoding="ascii")
    program.chmod(0o755)
    first, second = probes(CHECK, ["127.0.0.1"], *RUN_AS, "--rounds", "2", programs={"a": [program]})
    assert first["ok"] and not second["ok"]
    assert second["reason"].endswith("program is writable by group or others")


@pytest.mark.parametrize("host", ["127.0.0.1;touch pwn", "$(touch pwn)", "-rf", "a\nb", "`touch pwn`", "a/../b",
                                  "a|b", ""])
def test_B50_hostile_endpoints(host, tmp_path):
    """Even if they get past the configuration's checks and resolve."""
    out = tmp_path / "out"
    with FakeDNS(lambda query, _: [reply(query, f"{query.question[0].name} 0 IN A 127.0.0.1")]) as server:
        ok, _ = sh(f'touch {out}', target=host, options=(*RUN_AS, "--resolver", f"127.0.0.1@{server.port}"))
    assert not ok and not out.exists() and not (tmp_path / "pwn").exists()


def test_B50_not_as_root_unless_said():
    result = run("/bin/true", options=())
    if os.geteuid() == 0:
        assert result["own_fault"] and not result["ok"]
        assert result["reason"] == "checks do not run as root: name a user in healthd: run-as"
    else:
        assert result["ok"]


def test_B50_as_another_user():
    result = run("/bin/sh", "-c", '[ "$(id -un) $(id -Gn)" = "nobody nogroup" ]', options=("--run-as", "nobody"))
    if os.geteuid() == 0:
        assert result["ok"]
    else:
        assert result["reason"] == "cannot change the user: Operation not permitted"


def test_user_that_is_none():
    result = run("/bin/true", options=("--run-as", "no-such-user"))
    assert result["own_fault"] and "there is no such user" in result["reason"]

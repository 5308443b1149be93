# SPDX-License-Identifier: Apache-2.0
"""Run in a mount namespace of its own (`unshare --mount`): disks that are full or read-only.
Arguments: the scenario, the data directory, an empty folder.  Prints what was seen."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sluicelib  # noqa: E402
import statelib  # noqa: E402


def mount(folder, *options):
    subprocess.run(["mount", *options, "-t", "tmpfs", "none", folder], check=True)


def commit(server, value):
    return statelib.commit(server.control, [statelib.weight("one", value)])


def fill(folder):
    """Takes all that is left."""
    with open(f"{folder}/ballast", "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                pass


def full(data, folder):
    """A full disk: told, nothing changed, and all is well once there is room."""
    mount(folder, "-o", "size=1m")
    with sluicelib.Server(data, "--state", f"{folder}/state") as server:
        assert commit(server, 0)["ok"]
        before = statelib.answers(server)
        fill(folder)
        refused = 0
        for value in range(1, 500):
            reply = commit(server, value % 3 + 1)  # so that all that may be answered is
            if not reply["ok"]:
                refused += 1
                print(reply["error"], file=sys.stderr)
                assert "the disk is full" in reply["error"] and reply["code"] == 1, reply
                break
            before = statelib.answers(server)
        assert refused, "the disk never was full"
        held = statelib.weights(server.control)
        assert statelib.answers(server) == before
        os.unlink(f"{folder}/ballast")
        server.kill()
        server.proc.returncode = 0
    with sluicelib.Server(data, "--state", f"{folder}/state") as server:
        assert statelib.weights(server.control) == held
        assert statelib.answers(server) == before
        assert commit(server, 7)["ok"]
        print("full")


def read_only(data, folder):
    """What was set holds, nothing can be changed, the server says so."""
    mount(folder)
    with sluicelib.Server(data, "--state", f"{folder}/state") as server:
        assert commit(server, 0)["ok"]
        before = statelib.answers(server)
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    with sluicelib.Server(data, "--state", f"{folder}/state") as server:
        server.wait_log("cannot be written")
        assert statelib.answers(server) == before
        reply = commit(server, 5)
        assert not reply["ok"] and "cannot be written" in reply["error"], reply
        assert statelib.answers(server) == before
        print("read-only")


SCENARIOS = {f.__name__: f for f in (full, read_only)}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]](*sys.argv[2:])

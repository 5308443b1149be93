# SPDX-License-Identifier: Apache-2.0
"""Run in a mount namespace of its own: a folder of builds on a disk that is full.  Argument: a
folder.  Prints what a pusher sees."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gitlib  # noqa: E402
import sluicelib  # noqa: E402
import toollib  # noqa: E402


def main(root):
    data = root / "site/data"
    data.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", data], check=True)

    def answer(_request):
        return {"ok": True, "build": {"id": os.readlink(data / "current")[7:]}}

    site = gitlib.Site(root / "site")
    with toollib.FakeServer(site.socket, answer):
        site.commit(sluicelib.config_files({f"d{i}": gitlib.domain("192.0.2.1") for i in range(5)}))
        site.push()
        before = toollib.tree(data)
        for left in (0, 4096, 8192, 12288, 16384, 20480):
            site.commit({"example.com/d1/domain.yaml": gitlib.domain(f"192.0.2.{2 + left // 4096}")})
            space = os.statvfs(data)
            (data / "filler").write_bytes(b"x" * max(0, space.f_bavail * space.f_frsize - left))
            done = gitlib.git(site.work, "push", "origin", "main", status=None)
            print(done.stderr)
            (data / "filler").unlink()
            if done.returncode != 0:
                assert toollib.tree(data) == before, toollib.tree(data).keys() ^ before.keys()
            else:
                break
        site.push()
        assert toollib.manifest(data)["commit"] == site.head()


main(pathlib.Path(sys.argv[1]))

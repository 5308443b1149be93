# SPDX-License-Identifier: Apache-2.0
"""A wall clock that a test moves under running programs (tests/clock/wall_clock.c)."""
import json
import mmap
import os
import struct
import subprocess
import time

import sluicelib

DAY = 86400


class WallClock:
    """Programs started after this have it; the clock of the test itself stays right."""

    def __init__(self, folder, monkeypatch):
        path, library = folder / "clock", folder / "wall_clock.so"
        path.write_bytes(struct.pack("=q", 0))
        with open(path, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", library,
                        sluicelib.REPO / "tests/clock/wall_clock.c"], check=True)
        monkeypatch.setenv("SLUICE_TEST_CLOCK", str(path))
        monkeypatch.setenv("LD_PRELOAD", f"{self._sanitizer()}{library}")

    @staticmethod
    def _sanitizer():
        """What must stand before every other library."""
        options = json.loads((sluicelib.BUILD / "meson-info/intro-buildoptions.json").read_text(encoding="utf-8"))
        if not any(o["name"] == "b_sanitize" and "address" in o["value"] for o in options):
            return ""
        done = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        return os.path.realpath(done.stdout.strip()) + " "

    def shift(self, seconds):
        """So far from the right time, at once for all programs."""
        self._page[:] = struct.pack("=q", int(seconds))

    def set_to(self, at):
        """Unix seconds"""
        self.shift(at - time.time())

# SPDX-License-Identifier: Apache-2.0
"""Serials of transfers in: a zone never goes back (RFC 1982, RFC 1034 section 4.3.5), unless there is nothing better."""
import json
import re
import types

import dns.message
import dns.rdatatype
import pytest

import serverlib
import sluicelib
from primaries import HOST, ZONE
from secondarylib import NS, A, Script, answer, framed, notify, primary, secondary, soa  # noqa: F401

HALF = 2 ** 31


def sends(serial, how):
    """What a primary sends that tells a newer serial: the one that it sends, in this way."""
    other = (f"other.{ZONE}", 1, "A", "192.0.2.66")

    def send(wire, sock):
        rdtype = dns.rdatatype.to_text(dns.message.from_wire(wire).question[0].rdtype)
        whole = soa(serial), NS, A, other, soa(serial)
        if rdtype == "IXFR" and how == "whole":
            sock.sendall(framed(answer(wire, rcode=4)))
        elif rdtype == "IXFR" and how == "lone":
            sock.sendall(framed(answer(wire, soa(serial))))
        else:
            sock.sendall(framed(answer(wire, *whole)))
    return send


def files(mine):
    return {p.name: p.read_bytes() for p in mine.image().parent.iterdir() if p.suffix != ".json"}


def wait_error(mine, text):
    serverlib.wait_for(lambda: text in (mine.status()["error"] or "") and not mine.status()["busy"],
                       f"{text}; the log is:\n{mine.server.log}")


@pytest.mark.parametrize("how", ["whole", "whole-by-ixfr", "lone"])
@pytest.mark.parametrize("serial, words", [
    (9, "older than"), (10, "not newer than"), (10 + HALF, "neither newer nor older (RFC 1982) than"),
    (11 + HALF, "older than")])
def test_a_transfer_that_is_not_newer_is_refused(secondary, serial, words, how):
    mine = secondary()
    script = Script(mine, serial=10)
    try:
        mine.wait_serial(10)
        before = files(mine)
        script.send, script.serial = sends(serial, how), 11
        assert notify(mine.server) == "NOERROR"
        text = f"tells serial 11, but sends serial {serial}, which is {words} our 10"
        wait_error(mine, text)
        mine.server.wait_log(f"secondary {ZONE}: .*{re.escape(text)}")
        assert script.asked == ["AXFR", "IXFR"] + ["AXFR"] * (how == "whole")
        assert mine.serial() == 10 and files(mine) == before
        assert sluicelib.rcode(mine.ask(f"other.{ZONE}")) == "NXDOMAIN"
        assert mine.status()["state"] == "stale"
        script.send = None
        notify(mine.server)
        mine.wait_serial(11)
        assert mine.status()["error"] is None and mine.status()["state"] == "current"
    finally:
        script.close()


def refreshed(info):
    return json.loads(info.read_text(encoding="ascii"))["refreshed"]


def test_what_confirms_the_data(secondary):
    """Our own serial does, though a newer one was told; an older or unrelated one does not."""
    mine = secondary()
    script = Script(mine, serial=10, expire=100000)
    try:
        mine.wait_serial(10)
        info = mine.image().with_name("example.net.json")
        mine.server.stop()
        then = refreshed(info) - 5000
        info.write_text(re.sub(r'(?<="refreshed":)\d+', str(then), info.read_text(encoding="ascii")), encoding="ascii")
        assert refreshed(info) == then
        for serial, confirms in ((9, False), (10 + HALF, False), (10, True)):
            script.send, script.serial = sends(serial, "lone"), 11
            mine.run()
            wait_error(mine, f"but sends serial {serial},")
            assert (mine.status()["refreshed"] > then + 4000) is confirms
            mine.server.stop()
            assert (refreshed(info) > then + 4000) is confirms
    finally:
        script.close()


def test_the_next_primary_is_asked(secondary):
    """One tells what it does not have; the other has it."""
    reserved = sluicelib.Port(HOST)
    mine = secondary(others=[reserved.number])
    first, second = Script(mine, serial=10), Script(types.SimpleNamespace(primary_port=reserved.number), serial=10)
    try:
        mine.wait_serial(10)
        first.send = sends(9, "whole-by-ixfr")
        first.serial = second.serial = 11
        notify(mine.server)
        mine.wait_serial(11)
        mine.server.wait_log(f"{mine.primary_port}.*tells serial 11, but sends serial 9")
        assert second.asked[-1] == "IXFR"
        assert sluicelib.rcode(mine.ask(f"other.{ZONE}")) == "NXDOMAIN"
        mine.wait_status(error=None, state="current")
    finally:
        first.close()
        second.close()
        reserved.close()


def test_a_primary_behind_another(secondary):
    """One that is behind us is an error in the log, no more, as long as another one has what we have."""
    reserved = sluicelib.Port(HOST)
    mine = secondary(others=[reserved.number])
    first, second = Script(mine, serial=10), Script(types.SimpleNamespace(primary_port=reserved.number), serial=10)
    try:
        mine.wait_serial(10)
        first.serial = 9
        notify(mine.server)
        mine.server.wait_log("has serial 9, which is older than our 10")
        mine.wait_status(error=None, state="current", busy=False)
        second.serial = 9
        notify(mine.server)
        wait_error(mine, "has serial 9, which is older than our 10")
        mine.wait_status(state="stale", serial=10)
        assert first.asked + second.asked == ["AXFR"]
    finally:
        first.close()
        second.close()
        reserved.close()


def test_a_serial_that_moves_by_half_of_all(secondary):
    """Exactly half is undefined (RFC 1982 section 3.2) and refused; one less is the longest step there is."""
    mine = secondary()
    script = Script(mine, serial=10)
    try:
        mine.wait_serial(10)
        script.serial = 10 + HALF
        notify(mine.server)
        wait_error(mine, f"has serial {10 + HALF}, which is neither newer nor older (RFC 1982) than our 10")
        mine.wait_status(state="stale", serial=10)
        assert script.asked == ["AXFR"]
        for serial in (9 + HALF, 8):  # how a zone gets to a smaller serial (RFC 2182 section 7)
            script.serial = serial
            notify(mine.server)
            mine.wait_serial(serial)
        assert mine.status()["error"] is None
    finally:
        script.close()


def test_without_data_any_version_is_taken_and_a_newer_one_soon(secondary):
    mine = secondary()
    reserved = types.SimpleNamespace(primary_port=mine.primary_port)
    old = soa(9, refresh=86400, retry=1)
    script = Script(reserved, serial=11, refresh=86400, retry=1,
                    send=lambda wire, sock: sock.sendall(framed(answer(wire, old, NS, A, old))))
    try:
        mine.wait_serial(9)
        script.send = None
        mine.wait_serial(11)  # long before the refresh time of a day
    finally:
        script.close()


@pytest.mark.parametrize("told, how", [(9, "whole"), (10 + HALF, "whole"), (11, "lone"), (11, "whole-by-ixfr")])
def test_an_expired_zone_takes_an_older_one(secondary, told, how):
    """What expired is not served any more: older data are better than none."""
    mine = secondary()
    script = Script(mine, serial=10, refresh=1, retry=1, expire=2)
    mine.wait_serial(10)
    script.close()
    serverlib.wait_for(lambda: mine.status()["state"] == "expired", "the expiry")
    script = Script(mine, serial=told, send=sends(9, how) if told == 11 else None)
    try:
        sent = told if told != 11 else 9
        mine.wait_serial(sent)
        mine.wait_status(state="current", error=None)
        mine.server.wait_log(f"serial {sent} is .* ours, 10, which has expired: it is taken")
    finally:
        script.close()


def test_how_an_operator_goes_back(secondary):
    """A primary that was restored from a backup: what we have is removed by hand (docs/secondary.md)."""
    mine = secondary()
    script = Script(mine, serial=10)
    try:
        mine.wait_serial(10)
        script.serial = 5
        notify(mine.server)
        wait_error(mine, "older than our 10")
        mine.server.stop()
        for path in mine.image().parent.glob("example.net.*"):
            path.unlink()
        mine.run()
        mine.wait_serial(5)
    finally:
        script.close()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/unit/server/tsig_vectors.h: messages that dnspython signed.

Usage: make.py > tests/unit/server/tsig_vectors.h && clang-format -i tests/unit/server/tsig_vectors.h

Messages of BIND, Knot and NSD are beside it in peers.txt, written by capture.py.
"""
import base64
import os
import struct

import dns.flags
import dns.message
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.TSIG
import dns.rrset
import dns.tsig

TIME = 1700000000
SECRET = bytes(range(1, 33))
NAME = dns.name.from_text("transfer.example.")
ALGORITHMS = ["hmac-md5.sig-alg.reg.int", "hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384",
              "hmac-sha512"]


def record(key, error=0, other=b"", time=TIME):
    return dns.rdtypes.ANY.TSIG.TSIG(dns.rdataclass.ANY, dns.rdatatype.TSIG, key.algorithm, time, 300,
                                     b"", 0x1234, error, other)


def append(wire, key, rdata):
    """The message with the record added."""
    data = rdata.to_wire()
    count, = struct.unpack("!H", wire[10:12])
    return (wire[:10] + struct.pack("!H", count + 1) + wire[12:] + key.name.to_wire() +
            struct.pack("!HHIH", 250, 255, 0, len(data)) + data)


def sign(wire, key, request_mac=b"", ctx=None, multi=False, **kw):
    rdata, ctx = dns.tsig.sign(wire, key, record(key, **kw), kw.get("time", TIME), request_mac, ctx, multi)
    return append(wire, key, rdata), rdata.mac, ctx


def query(qtype):
    q = dns.message.make_query("example.com.", qtype, id=0x1234)
    q.flags = 0
    return q


def reply(qtype, *records):
    r = dns.message.make_response(query(qtype))
    r.flags |= dns.flags.AA
    for owner, rtype, data in records:
        r.answer.append(dns.rrset.from_text(owner, 300, "IN", rtype, data))
    return r.to_wire()


def show(name, wires):
    lines = []
    for wire in wires:
        text = wire.hex()
        lines.append("\n".join(f'"{text[i:i + 88]}"' for i in range(0, len(text), 88)) + ",")
    print(f"static const char *const {name}[] = {{\n" + "\n".join(lines) + "\n};\n")


def stream(signed):
    key = dns.tsig.Key(NAME, SECRET, "hmac-sha256")
    soa = ("example.com.", "SOA", "ns. host. 7 1 1 1 1")
    request, mac, _ = sign(query("AXFR").to_wire(), key)
    ctx, wires = None, [request]
    for i, is_signed in enumerate(signed):
        last = [soa] if i in (0, len(signed) - 1) else []
        wire = reply("AXFR", *last, (f"n{i}.example.com.", "A", f"192.0.2.{i}"))
        if is_signed:
            wire, _, ctx = sign(wire, key, mac if ctx is None else b"", ctx, True, time=TIME + i)
        else:
            ctx.update(wire)
        wires.append(wire)
    return wires


def peers():
    path = os.path.join(os.path.dirname(__file__), "peers.txt")
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, *wires = line.split()
                yield name, [bytes.fromhex(w) for w in wires]


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Made by tests/vectors/tsig/make.py.  Each array: the request, then its response(s). */")
    print("#ifndef SLUICE_TESTS_TSIG_VECTORS_H\n#define SLUICE_TESTS_TSIG_VECTORS_H\n")
    print("enum { VECTOR_TIME = %d };" % TIME)
    print('static const char VECTOR_SECRET[] = "%s";\n' % base64.b64encode(SECRET).decode())
    soa = ("example.com.", "SOA", "ns.example.com. host.example.com. 7 3600 600 86400 300")
    for algorithm in ALGORITHMS:
        key = dns.tsig.Key(NAME, SECRET, algorithm)
        request, mac, _ = sign(query("SOA").to_wire(), key)
        response, _, _ = sign(reply("SOA", soa), key, mac)
        show("VECTOR_" + algorithm.split(".")[0].replace("-", "_").upper(), [request, response])
    key = dns.tsig.Key(NAME, SECRET, "hmac-sha256")
    request, mac, _ = sign(query("SOA").to_wire(), key)
    refused = bytearray(reply("SOA"))
    refused[3] = refused[3] & 0xf0 | 9
    bad, _, _ = sign(bytes(refused), key, mac, error=18, other=struct.pack("!HI", 0, TIME + 1000))
    show("VECTOR_BADTIME", [request, bad])
    edns = query("SOA")
    edns.use_edns(0, payload=1232)
    request, mac, _ = sign(edns.to_wire(), key)
    show("VECTOR_EDNS", [request])
    show("VECTOR_STREAM", stream([True] * 5))
    show("VECTOR_STREAM_GAPS", stream([True, False, False, True, True, False, True]))
    for name, wires in peers():
        show(name, wires)
    print("#endif")


main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a MaxMind DB from a JSON list of networks, for tests and the demo.

Each item of the list is an object with "net" (a CIDR prefix) and what is known of it:
"continent", "country", "registered_country", "represented_country", "subdivision", "subdivision2"
(codes as in ISO 3166, without the country), "asn", "organization".  Other keys ("note") are ignored.  Where
networks overlap, the longer prefix decides, whatever their order.

Schemas:
  city   GeoIP2: continent.code, country.iso_code, registered_country.iso_code,
         represented_country.iso_code, subdivisions[].iso_code
  flat   country_code, state1
  asn    autonomous_system_number, autonomous_system_organization
"""
import argparse
import ipaddress
import json
import struct
import sys

EPILOG = """examples:
  make_mmdb.py locations.json city.mmdb
  make_mmdb.py --schema flat --record-size 28 locations.json flat.mmdb
  make_mmdb.py --schema asn --ip-version 4 asns.json asn4.mmdb
"""

MARKER = b"\xab\xcd\xefMaxMind.com"
# Where real files repeat the IPv4 tree inside the IPv6 one: mapped, 6to4, Teredo.
ALIASES = ("::ffff:0:0/96", "2002::/16", "2001::/32")


class Fail(Exception):
    """A problem of the input, told in one line."""


def head(kind, size):
    """The control byte (or bytes) of a value."""
    extended = kind > 7
    first = 0 if extended else kind << 5
    tail = bytes([kind - 7]) if extended else b""
    if size < 29:
        return bytes([first | size]) + tail
    if size < 285:
        return bytes([first | 29]) + tail + bytes([size - 29])
    if size < 65821:
        return bytes([first | 30]) + tail + struct.pack(">H", size - 285)
    return bytes([first | 31]) + tail + struct.pack(">I", size - 65821)[1:]


class U16(int):
    """An integer stored as 16 bits."""


class U64(int):
    """An integer stored as 64 bits."""


def encode(value):
    """A value in the data format, without pointers."""
    if isinstance(value, dict):
        return head(7, len(value)) + b"".join(encode(k) + encode(v) for k, v in value.items())
    if isinstance(value, list):
        return head(11, len(value)) + b"".join(encode(v) for v in value)
    if isinstance(value, str):
        raw = value.encode()
        return head(2, len(raw)) + raw
    kind = 5 if isinstance(value, U16) else 9 if isinstance(value, U64) else 6
    raw = int(value).to_bytes(8, "big").lstrip(b"\0")
    return head(kind, len(raw)) + raw


def city_record(item):
    record = {}
    if "continent" in item:
        record["continent"] = {"code": item["continent"]}
    if "country" in item:
        record["country"] = {"iso_code": item["country"]}
    if "registered_country" in item:
        record["registered_country"] = {"iso_code": item["registered_country"]}
    if "represented_country" in item:
        record["represented_country"] = {"iso_code": item["represented_country"]}
    codes = [item[k] for k in ("subdivision", "subdivision2") if k in item]
    if codes:
        record["subdivisions"] = [{"iso_code": code} for code in codes]
    return record


def flat_record(item):
    record = {}
    country = item.get("country", item.get("registered_country"))
    if country:
        record["country_code"] = country
    if "subdivision" in item:
        record["state1"] = item["subdivision"]
    return record


def asn_record(item):
    if "asn" not in item:
        return {}
    record = {"autonomous_system_number": item["asn"]}
    if "organization" in item:
        record["autonomous_system_organization"] = item["organization"]
    return record


RECORDS = {"city": city_record, "flat": flat_record, "asn": asn_record}


class Tree:
    """The search tree: nodes are pairs; a side is None, a node's index, or ("data", offset)."""

    def __init__(self, bits):
        self.bits = bits
        self.nodes = [[None, None]]

    def insert(self, start, length, value):
        """Sets a prefix; shorter prefixes must come first."""
        if length == 0:
            raise Fail("a net of length 0 cannot be stored")
        at = 0
        for depth in range(length - 1):
            side = start >> (self.bits - 1 - depth) & 1
            below = self.nodes[at][side]
            if not isinstance(below, int):
                self.nodes.append([below, below])
                below = len(self.nodes) - 1
                self.nodes[at][side] = below
            at = below
        self.nodes[at][start >> (self.bits - length) & 1] = value

    def below(self, start, length):
        """What stands at a prefix, or what covers it."""
        at = 0
        for depth in range(length):
            if not isinstance(at, int):
                return at
            at = self.nodes[at][start >> (self.bits - 1 - depth) & 1]
        return at


def read_items(path):
    with open(path, encoding="utf-8") as source:
        items = json.load(source)
    if not isinstance(items, list):
        raise Fail("the file must hold a list")
    for item in items:
        try:
            net = ipaddress.ip_network(item["net"])
        except (KeyError, TypeError, ValueError) as error:
            raise Fail(f"item {item!r}: {error}") from error
        yield net, item


def build(items, schema, version):
    """The tree and the data section."""
    tree = Tree(32 if version == 4 else 128)
    data = bytearray()
    offsets = {}
    for net, item in sorted(items, key=lambda pair: pair[0].prefixlen):
        record = RECORDS[schema](item)
        if not record or net.version > version:
            continue
        raw = encode(record)
        if raw not in offsets:
            offsets[raw] = len(data)
            data += raw
        start, length = int(net.network_address), net.prefixlen
        if version == 6 and net.version == 4:
            length += 96
        tree.insert(start, length, ("data", offsets[raw]))
    if version == 6:
        add_aliases(tree)
    return tree, bytes(data)


def add_aliases(tree):
    root4 = tree.below(0, 96)
    if not isinstance(root4, int):
        return
    for text in ALIASES:
        net = ipaddress.ip_network(text)
        # What the list itself says about such a prefix stays.
        if tree.below(int(net.network_address), net.prefixlen) is None:
            tree.insert(int(net.network_address), net.prefixlen, root4)


def pack_tree(tree, size):
    count = len(tree.nodes)

    def number(side):
        if side is None:
            return count
        return side if isinstance(side, int) else count + 16 + side[1]

    out = bytearray()
    for left, right in ((number(a), number(b)) for a, b in tree.nodes):
        if max(left, right) >= 1 << size:
            raise Fail(f"too much data for records of {size} bits")
        if size == 28:
            middle = left >> 24 << 4 | right >> 24
            out += (left & 0xFFFFFF).to_bytes(3, "big") + bytes([middle])
            out += (right & 0xFFFFFF).to_bytes(3, "big")
        else:
            out += left.to_bytes(size // 8, "big") + right.to_bytes(size // 8, "big")
    return bytes(out)


def write(path, tree, data, options):
    metadata = {
        "binary_format_major_version": U16(2),
        "binary_format_minor_version": U16(0),
        "build_epoch": U64(options.epoch),
        "database_type": options.type or f"Test-{options.schema}",
        "description": {"en": "made by make_mmdb.py"},
        "ip_version": U16(options.ip_version),
        "languages": ["en"],
        "node_count": len(tree.nodes),
        "record_size": U16(options.record_size),
    }
    packed = pack_tree(tree, options.record_size) + bytes(16) + data + MARKER + encode(metadata)
    if path == "-":
        sys.stdout.buffer.write(packed)
        return
    with open(path, "wb") as out:
        out.write(packed)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="the JSON list")
    parser.add_argument("output", help="the file to write, or - for standard output")
    parser.add_argument("--schema", choices=sorted(RECORDS), default="city")
    parser.add_argument("--record-size", type=int, choices=(24, 28, 32), default=24)
    parser.add_argument("--ip-version", type=int, choices=(4, 6), default=6,
                        help="4 leaves the IPv6 networks of the list out")
    parser.add_argument("--epoch", type=int, default=1700000000, help="build time in the file")
    parser.add_argument("--type", help="database type in the file")
    return parser.parse_args()


def main():
    options = arguments()
    try:
        tree, data = build(list(read_items(options.input)), options.schema, options.ip_version)
        write(options.output, tree, data, options)
    except (Fail, OSError, ValueError) as error:
        print(f"make_mmdb.py: {options.input}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes peers.txt: signed zone transfers of real servers to real clients, caught between them.

Usage: capture.py > peers.txt   (needs named, knotd, nsd, dig and kdig; uses 127.0.0.1 ports 20530 on)
"""
import base64
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time

SECRET = base64.b64encode(bytes(range(1, 33))).decode()
ZONE = """$TTL 300
@ SOA ns host 7 3600 600 86400 300
  NS ns
ns A 192.0.2.1
a A 192.0.2.2
b A 192.0.2.3
"""
NAMED = """options {{ directory "{dir}"; pid-file none; session-keyfile none; recursion no;
  listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; transfer-format one-answer; }};
controls {{ }};
key transfer.example {{ algorithm hmac-sha256; secret "{secret}"; }};
zone example.com {{ type primary; file "zone"; allow-transfer {{ key transfer.example; }}; notify no; }};
"""
KNOT = """server:
  rundir: {dir}
  listen: 127.0.0.1@{port}
database:
  storage: {dir}
key:
  - id: transfer.example
    algorithm: hmac-sha512
    secret: {secret}
acl:
  - id: xfr
    action: transfer
    key: transfer.example
zone:
  - domain: example.com
    file: {dir}/zone
    acl: xfr
    zonefile-sync: -1
    journal-content: none
"""
NSD = """server:
  zonesdir: "{dir}"
  ip-address: 127.0.0.1@{port}
  username: ""
  chroot: ""
  pidfile: ""
  xfrdfile: "{dir}/xfrd.state"
  xfrdir: "{dir}"
  zonelistfile: "{dir}/zonelist"
  server-count: 1
remote-control:
  control-enable: no
key:
  name: transfer.example
  algorithm: hmac-sha1
  secret: "{secret}"
zone:
  name: example.com
  zonefile: zone
  provide-xfr: 127.0.0.1 transfer.example
"""
PEERS = [
    ("VECTOR_BIND_DIG", 20530, NAMED, ["named", "-f", "-c"], ["dig"], "hmac-sha256"),
    ("VECTOR_KNOT_KDIG", 20532, KNOT, ["knotd", "-c"], ["kdig"], "hmac-sha512"),
    ("VECTOR_NSD_KDIG", 20534, NSD, ["nsd", "-d", "-c"], ["kdig"], "hmac-sha1"),
]


def frames(stream):
    while len(stream) >= 2:
        size, = struct.unpack("!H", stream[:2])
        yield stream[2:2 + size]
        stream = stream[2 + size:]


def forward(source, sink, seen):
    while data := source.recv(65536):
        seen += data
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


def proxy(listener, port, asked, told):
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", port))
    back = threading.Thread(target=forward, args=(server, client, told))
    back.start()
    forward(client, server, asked)
    back.join()


def wait_for(port):
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def capture(name, port, config, server, client, algorithm):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for file, text in ("zone", ZONE), ("conf", config.format(dir=folder, port=port, secret=SECRET)):
            with open(f"{folder}/{file}", "w", encoding="ascii") as f:
                f.write(text)
        daemon = subprocess.Popen(server + [f"{folder}/conf"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            wait_for(port)
            asked, told = bytearray(), bytearray()
            listener = socket.create_server(("127.0.0.1", port + 1))
            thread = threading.Thread(target=proxy, args=(listener, port, asked, told))
            thread.start()
            subprocess.run(client + ["-y", f"{algorithm}:transfer.example:{SECRET}", "-p", str(port + 1),
                                     "@127.0.0.1", "example.com", "AXFR"],
                           check=True, stdout=subprocess.DEVNULL)
            thread.join()
        finally:
            daemon.terminate()
            daemon.wait()
        print(name, *[m.hex() for m in [*frames(bytes(asked)), *frames(bytes(told))]])


print("# Made by capture.py: name, request, responses.")
for peer in PEERS:
    capture(*peer)

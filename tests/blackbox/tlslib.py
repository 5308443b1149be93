# SPDX-License-Identifier: Apache-2.0
"""What the tests of DNS over TLS share: certificates, and a client that shows every octet."""
import pathlib
import socket
import ssl
import struct
import subprocess

import sluicelib

NAME = "ns.example.net"


def openssl(*args):
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Authority:
    """A certificate authority in a folder, and what it signs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cert = self.folder / "ca.pem"
        self.key = self.folder / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                "-subj", "/CN=Test CA", "-keyout", self.key, "-out", self.cert)

    def issue(self, cert, key, serial=1, days=20, name=NAME, algorithm=("ec", "ec_paramgen_curve:P-256")):
        """Writes a new pair in place of the one that is there."""
        kind, option = algorithm
        request, extensions = self.folder / "request", self.folder / "extensions"
        openssl("req", "-new", "-newkey", kind, "-pkeyopt", option, "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)
        extensions.write_text(f"subjectAltName=DNS:{name}\nbasicConstraints=CA:FALSE\n", encoding="ascii")
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-set_serial", serial,
                "-days", days, "-extfile", extensions, "-out", cert)

    def context(self, version=None, alpn=("dot",)):
        context = ssl.create_default_context(cafile=str(self.cert))
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


class Client:
    """A TLS connection whose octets on the wire can be seen and held back."""

    def __init__(self, address, port, context, shake=True, source=None, **options):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for option, value in options.items():
            self.sock.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
        self.sock.settimeout(sluicelib.DEADLINE)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect((address, port))
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=NAME)
        self.plain = b""
        if shake:
            self.shake()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def shake(self):
        self._until(self.tls.do_handshake)

    def flush(self, step=None):
        """Sends what was encrypted, `step` octets at a time."""
        octets = self.outgoing.read()
        if step is None:
            if octets:
                self.sock.sendall(octets)
            return
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(octets), step):
            self.sock.sendall(octets[at:at + step])

    def _until(self, step):
        """Runs `step` until it need not wait for the server any more."""
        while True:
            try:
                done = step()
                self.flush()
                return done
            except ssl.SSLWantReadError:
                self.flush()
                octets = self.sock.recv(65536)
                if octets:
                    self.incoming.write(octets)
                else:
                    self.incoming.write_eof()

    def send(self, octets, step=None):
        self.tls.write(octets)
        self.flush(step)

    def receive(self, count):
        """`count` octets, or fewer if the server ends the session in order."""
        while len(self.plain) < count:
            try:
                part = self._until(lambda: self.tls.read(65536))
            except ssl.SSLZeroReturnError:
                break
            if not part:
                break
            self.plain += part
        out, self.plain = self.plain[:count], self.plain[count:]
        return out

    def read_message(self):
        """The next response, b"" at the end of the session."""
        head = self.receive(2)
        return self.receive(struct.unpack("!H", head)[0]) if len(head) == 2 else b""

    def end(self):
        """Says that nothing more will be asked (close_notify)."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def serial(self):
        """The serial number of the server's certificate."""
        return int(self.tls.getpeercert()["serialNumber"], 16)


def is_closed(sock):
    """Waits for the end of a connection, whatever comes before it."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    return True

# SPDX-License-Identifier: Apache-2.0
"""Requests to the APIs of providers (base/http.h), to servers that do not mean well."""
import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time

import sluicelib


class Hostile:
    """A server on loopback: answer(n, request bytes) gives the bytes of reply n (from 1); they may be
    a generator.  The connection is closed then."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.times = []
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.sock.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.settimeout(sluicelib.DEADLINE)
                request = self._read(peer)
                if not request:
                    continue
                self.requests.append(request)
                self.times.append(time.monotonic())
                reply = self.answer(len(self.requests), request)
                for part in [reply] if isinstance(reply, bytes) else reply:
                    peer.sendall(part)

    @staticmethod
    def _read(peer):
        data = b""
        while b"\r\n\r\n" not in data:
            part = peer.recv(65536)
            if not part:
                return data
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                while len(body) < int(line.split(b":")[1]):
                    body += peer.recv(65536)
        return head + b"\r\n\r\n" + body

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(sluicelib.DEADLINE)


def reply(status=200, body=b"{}", *headers):
    return b"".join([b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n" % (status, len(body)),
                     *(h.encode() + b"\r\n" for h in headers), b"\r\n", body])


def send(url, *options, method="GET", deadline=20000, env=None):
    """The results of http_once, and all that it wrote."""
    done = subprocess.run([sluicelib.program("http_once"), method, url, str(deadline), *map(str, options)],
                          capture_output=True, text=True, timeout=sluicelib.DEADLINE,
                          env=dict(sluicelib.environment(), **(env or {})))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stdout + done.stderr


def one(*args, **options):
    return send(*args, **options)[0][0]


def test_a_good_reply():
    with Hostile(lambda n, r: reply(200, b'{"a": 1}', 'Link: <http://x/?page=2>; rel="next"')) as server:
        out = one(server.url, "secret", "X-API-Key: very-secret")
        assert out["ok"] and out["status"] == 200 and out["body"] == '{"a": 1}' and out["attempts"] == 1
        assert out["link"] == '<http://x/?page=2>; rel="next"'
        assert b"X-API-Key: very-secret\r\n" in server.requests[0]
        assert b"Expect:" not in server.requests[0]


def test_retries_after_5xx_and_broken_replies():
    bad = [reply(500), reply(503), b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"]
    with Hostile(lambda n, r: bad[n - 1] if n <= len(bad) else reply(200, b"good")) as server:
        out = one(server.url)
        assert out["body"] == "good" and out["attempts"] == 5


def test_what_writes_is_sent_again_only_if_that_is_safe():
    with Hostile(lambda n, r: reply(500) if n == 1 else reply(200)) as server:
        assert one(server.url, "body", "x", method="POST")["status"] == 500
        assert len(server.requests) == 1
    with Hostile(lambda n, r: b"") as server:
        out = one(server.url, "body", "x", method="POST")
        assert not out["ok"] and "cut short" in out["why"] and len(server.requests) == 1
    with Hostile(lambda n, r: reply(500) if n == 1 else reply(200)) as server:
        assert one(server.url, "body", "x", "idempotent", method="PUT")["status"] == 200
        assert server.requests[1].endswith(b"\r\n\r\nx")
    # 429 was not done at all.
    with Hostile(lambda n, r: reply(429) if n == 1 else reply(200)) as server:
        assert one(server.url, "body", "x", method="POST")["attempts"] == 2


def test_other_errors_are_not_repeated():
    for status in (301, 400, 401, 403, 404, 409, 422, 501):
        with Hostile(lambda n, r, s=status: reply(s, b"no", "Location: http://127.0.0.1:1/")) as server:
            out = one(server.url, "secret", "X-API-Key: very-secret")
            assert out["ok"] and out["status"] == status and len(server.requests) == 1


def test_retry_after_is_kept():
    with Hostile(lambda n, r: reply(429, b"", "Retry-After: 2") if n == 1 else reply(200)) as server:
        assert one(server.url)["attempts"] == 2
        assert server.times[1] - server.times[0] >= 2
    # Longer than there is time for: the reply as it is, at once.
    with Hostile(lambda n, r: reply(429, b"later", "Retry-After: 3000")) as server:
        out = one(server.url, deadline=5000)
        assert out["status"] == 429 and out["body"] == "later" and out["attempts"] == 1


def test_rate_limit_headers_set_the_pace():
    headers = ["X-Ratelimit-Limit: 5", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Period: 5"]
    with Hostile(lambda n, r: reply(200, b"", *headers)) as server:
        out, _ = send(server.url, "times", 3)
        assert [o["status"] for o in out] == [200] * 3
        assert server.times[2] - server.times[0] >= 2
    with Hostile(lambda n, r: reply(200, b"", "RateLimit-Remaining: 0", "RateLimit-Reset: 100")) as server:
        out, _ = send(server.url, "times", 2, deadline=3000)
        assert out[0]["ok"] and not out[1]["ok"] and "rate limit" in out[1]["why"]
        assert len(server.requests) == 1


def test_the_deadline_ends_everything():
    release = threading.Event()

    def slow(n, request):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"
        release.wait(sluicelib.DEADLINE)

    with Hostile(slow) as server:
        out = one(server.url, deadline=300)
        release.set()
        assert not out["ok"] and "did not answer within" in out["why"] and f"127.0.0.1:{server.port}" in out["why"]


def test_endless_replies():
    def endless(head, part):
        def answer(n, request):
            yield head
            while True:
                yield part
        return answer

    with Hostile(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)) as server:
        out = one(server.url)
        assert not out["ok"] and "larger than 64 MiB" in out["why"] and len(server.requests) == 1
    with Hostile(endless(b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"y" * 1000 + b"\r\n")) as server:
        out = one(server.url)
        assert not out["ok"] and "larger" in out["why"]


def test_garbage():
    for garbage in (b"\0\xff" * 100, b"HTTP/9.9 banana\r\n\r\n", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nLink\0: x\r\n\r\n"):
        with Hostile(lambda n, r, g=garbage: g) as server:
            out = one(server.url, deadline=1500)
            assert not out["ok"] or out["size"] >= 0
            assert "\n" not in out["why"]


def test_only_reading():
    with Hostile(lambda n, r: reply()) as server:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            out = one(server.url, "read-only", method=method)
            assert not out["ok"] and "only reading" in out["why"]
        assert server.requests == []
        assert one(server.url, "read-only")["ok"]


def test_no_proxy_from_the_environment():
    with Hostile(lambda n, r: reply(200, b"proxy")) as proxy, Hostile(lambda n, r: reply(200, b"direct")) as server:
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")
        out = one(server.url, env={n: f"http://127.0.0.1:{proxy.port}" for n in names})
        assert out["body"] == "direct" and proxy.requests == []


def test_secrets_are_in_no_message(tmp_path):
    with closed_port() as port:
        _, text = send(f"http://127.0.0.1:{port}/?key=url-secret", "secret", "X-API-Key: very-secret", deadline=300)
    assert "secret" not in text and f"127.0.0.1:{port}" in text
    out, text = send("http://127.0.0.1:1/", "secret", "X-API-Key: very-secret\r\nX-Other: y", deadline=300)
    assert not out[0]["ok"] and "control characters" in out[0]["why"] and "very" not in text
    out, _ = send("file:///etc/passwd", deadline=300)
    assert not out[0]["ok"] and out[0]["size"] == 0


@contextlib.contextmanager
def closed_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, nobody listens
        yield sock.getsockname()[1]


def test_certificates_are_checked(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=localhost",
                           "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve():
        listener.settimeout(0.2)
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            with contextlib.suppress(OSError), context.wrap_socket(peer, server_side=True) as tls:
                tls.recv(65536)
                tls.sendall(reply(200, b"tls"))

    thread = threading.Thread(target=serve)
    thread.start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
    out = one(url, deadline=5000)
    good = one(url, "ca", cert, deadline=5000)
    stop.set()
    thread.join(sluicelib.DEADLINE)
    listener.close()
    assert not out["ok"] and "not trusted" in out["why"]
    assert good["body"] == "tls"

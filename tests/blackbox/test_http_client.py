# SPDX-License-Identifier: Apache-2.0
"""Requests to the APIs of providers (base/http.h), to servers that do not mean well."""
import contextlib
import http.server
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
        sluicelib.stop_accepting(self.sock, self.thread)


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
        assert server.times[1] - server.times[0] > 1.9  # the client counts in milliseconds
    # Longer than there is time for: the reply as it is, at once.
    with Hostile(lambda n, r: reply(429, b"later", "Retry-After: 3000")) as server:
        out = one(server.url, deadline=5000)
        assert out["status"] == 429 and out["body"] == "later" and out["attempts"] == 1


def test_rate_limit_headers_set_the_pace():
    headers = ["X-Ratelimit-Limit: 5", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Period: 5"]
    with Hostile(lambda n, r: reply(200, b"", *headers)) as server:
        out, _ = send(server.url, "times", 3)
        assert [o["status"] for o in out] == [200] * 3
        assert server.times[2] - server.times[0] > 1.9
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


# ---- many at a time -------------------------------------------------------------------------------


class Crowd(http.server.ThreadingHTTPServer):
    """Answers many requests at a time: answer(number of the path, or -1) gives (status, headers).  Knows how many
    were under way at once."""
    daemon_threads = True

    def __init__(self, answer, together=1):
        self.answer, self.seen, self.now, self.most = answer, [], 0, 0
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(together)
        super().__init__(("127.0.0.1", 0), CrowdHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *who):
        pass  # a client that gave up

    def __exit__(self, *what):
        self.shutdown()
        self.server_close()


class CrowdHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *args):
        pass

    def do_GET(self):
        crowd, number = self.server, int(self.path[1:] or -1)
        with crowd.lock:
            crowd.now += 1
            crowd.most = max(crowd.most, crowd.now)
            crowd.seen.append(number)
        answer = crowd.answer(number)
        with crowd.lock:
            crowd.now -= 1
        if answer is None:
            self.close_connection = True
            return
        status, headers = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        body = f"reply {number}".encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def send_many(crowd, count, window, **more):
    lines, _ = send(crowd.url, "many", count, window, **more)
    return [{**lines[i], **lines[i + 1]} for i in range(0, len(lines), 2)]


def test_many_go_together_and_keep_their_order():
    """Eight under way at once, never nine; the first alone, since nothing is known of the limits yet."""
    def answer(number):
        if number > 0:
            crowd.barrier.wait(sluicelib.DEADLINE)  # nobody goes on before eight have come
        return 200, {}
    with Crowd(answer, together=8) as crowd:
        results = send_many(crowd, 41, 8)
    assert [r["body"] for r in results] == [f"reply {i}" for i in range(41)]
    assert all(r["ok"] and r["sent"] and r["all"] for r in results)
    assert crowd.most == 8 and crowd.seen[0] == 0 and sorted(crowd.seen) == list(range(41))


def test_many_keep_the_pace():
    """Complaint 24: no more are under way than the last reply still allows, and none after the last one before
    the limit's time is over."""
    lock = threading.Lock()
    used = {"count": 0, "start": None, "over": 0}

    def answer(_):
        with lock:
            now = time.monotonic()
            if used["start"] is None or now - used["start"] >= 1:
                used.update(start=now, count=0)
            used["count"] += 1
            if used["count"] > 5:
                used["over"] += 1
                return 429, {"Retry-After": "1"}
            left = 5 - used["count"]
        # The reply that leaves 2 is overtaken by the one that leaves 1.
        time.sleep({2: 0.1, 0: 0.2}.get(left, 0))
        return 200, {"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": str(left), "X-RateLimit-Reset": "1"}
    with Crowd(answer) as crowd:
        results = send_many(crowd, 12, 8)
    assert all(r["status"] == 200 for r in results)
    assert used["over"] == 0


def test_many_go_together_again_after_a_small_rest():
    """A limit that leaves 3 and then 100: eight are under way again, although no request has ever been alone."""
    came = threading.Condition()

    def answer(number):
        with came:
            came.notify_all()
            if 0 < number < 4:  # not before the next one is under way too
                assert came.wait_for(lambda: number + 1 in crowd.seen, sluicelib.DEADLINE)
        if number >= 4:
            crowd.barrier.wait(sluicelib.DEADLINE)
        return 200, {"X-RateLimit-Remaining": "3" if number == 0 else "100"}
    with Crowd(answer, together=8) as crowd:
        results = send_many(crowd, 20, 8)
    assert all(r["status"] == 200 for r in results)
    assert crowd.most == 8


def test_many_after_some_that_were_given_up():
    """Two could not be driven on; what the limit leaves afterwards is what the next reply says."""
    released = threading.Event()
    came = threading.Condition()
    asked = set()

    def answer(number):
        with came:
            before = 0 <= number < 4 and number not in asked  # of those that are given up
            asked.add(number)
            came.notify_all()
            if before and number == 1:
                assert came.wait_for(lambda: asked >= {2, 3}, sluicelib.DEADLINE)
        if number < 0:
            released.set()
        elif not before:
            crowd.barrier.wait(sluicelib.DEADLINE)
        elif number > 1:
            released.wait(sluicelib.DEADLINE)
        left = {0: "5", 1: "1"}.get(number, "100") if before else "100"
        return 200, {"X-RateLimit-Remaining": left}
    with Crowd(answer, together=8) as crowd:
        lines, _ = send(crowd.url, "many", 4, 3, "break", 2, "times", 1, "then", 8, 8)
    assert [line["ok"] for line in lines[:8:2]] == [True, True, False, False]
    assert "cannot be driven on" in lines[4]["why"]
    assert lines[8]["status"] == 200
    assert [line["status"] for line in lines[9::2]] == [200] * 8


def test_many_stop_after_a_failure():
    with Crowd(lambda number: (403 if number == 3 else 200, {})) as crowd:
        results = send_many(crowd, 50, 2)
    assert results[3]["status"] == 403 and not results[3]["all"]
    assert not results[-1]["sent"] and not results[-1]["ok"] and "another one failed" in results[-1]["why"]
    assert len(crowd.seen) < 50
    assert all(r["ok"] or not r["sent"] for r in results)


def test_many_repeat_what_failed_in_passing():
    """Each has its own repetitions: connections that break, and 500."""
    tries = {}

    def answer(number):
        tries[number] = tries.get(number, 0) + 1
        if tries[number] == 1 and number % 3 == 1:
            return None
        return 500 if tries[number] == 1 and number % 3 == 2 else 200, {}
    with Crowd(answer) as crowd:
        results = send_many(crowd, 12, 4)
    assert [r["status"] for r in results] == [200] * 12
    assert tries == {i: 1 if i % 3 == 0 else 2 for i in range(12)}


def test_many_without_a_server():
    with closed_port() as port:
        lines, _ = send(f"http://127.0.0.1:{port}", "many", 3, 8, deadline=700)
    assert [line["ok"] for line in lines[::2]] == [False] * 3 and [line["sent"] for line in lines[1::2]] == [True, False, False]

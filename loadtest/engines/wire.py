"""One HTTP exchange on a raw socket, with the time at which each byte came.

An HTTP library shows a response once its head is read, or its body, but not when the first byte of either came. Here
the pieces are stamped as the socket gives them and parsed only when the connection has ended, so that parsing delays no
stamp.
"""

import bisect
import json
import socket
import threading
import time
import urllib.parse


class Reply:
    """What came back, with times in seconds from when the request was sent."""

    def __init__(self, pieces):
        if not pieces:
            raise ConnectionError("the server closed the connection without a response")
        self._ends, self._times = [], []
        end = 0
        for at, piece in pieces:
            end += len(piece)
            self._ends.append(end)
            self._times.append(at)
        raw = b"".join(piece for _, piece in pieces)
        head, gap, _ = raw.partition(b"\r\n\r\n")
        if not gap:
            raise ConnectionError("the response head is cut")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines[1:])}
        self._spans = self._chunks(raw, len(head) + 4)
        self.body = b"".join(raw[start:start + size] for start, size in self._spans)
        self.head_s = self._times[0]
        self.first_byte_s = self._time(self._spans[0][0]) if self._spans else None
        self.end_s = self._times[-1]

    def _chunks(self, raw, at):
        """Where the body stands in what came: (start, size) of each part."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return [(at, len(raw) - at)] if len(raw) > at else []
        spans = []
        while (line_end := raw.find(b"\r\n", at)) >= 0:
            size = int(raw[at:line_end].split(b";")[0], 16)
            if size == 0:
                break
            spans.append((line_end + 2, size))
            at = line_end + 2 + size + 2
        return spans

    def _time(self, offset):
        """When the byte at this offset of the response came."""
        return self._times[min(bisect.bisect_right(self._ends, offset), len(self._times) - 1)]

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The server-sent events: (time of the last byte, data)."""
        found, spans, before = [], iter(self._spans), 0
        start, size = next(spans, (0, 0))
        at = 0
        for part in self.body.split(b"\n\n")[:-1]:
            at += len(part) + 2
            while before + size < at:
                before += size
                start, size = next(spans)
            if part.startswith(b"data:"):
                found.append((self._time(start + at - before - 1), part[5:].strip()))
        return found


def exchange(url, path, body=None, timeout=600):
    """Sends one request on a connection of its own and returns the reply. The clock starts when it is connected."""
    place = urllib.parse.urlsplit(url)
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    request = (
        f"{method} {path} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode() + data
    pieces = []
    with socket.create_connection((place.hostname, place.port or 80), timeout=timeout) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.monotonic()
        connection.sendall(request)
        while piece := connection.recv(65536):
            pieces.append((time.monotonic() - began, piece))
    return Reply(pieces)


def ask(url, path, body):
    """Posts a request that must succeed and returns its JSON."""
    reply = exchange(url, path, body)
    if reply.status != 200:
        raise RuntimeError(f"{path}: {reply.status} {reply.body[:300]!r}")
    return reply.json()


def at_once(calls):
    """Runs all calls at the same time, each in a thread, and returns their results in order."""
    results = [None] * len(calls)
    failures = []

    def work(index, call):
        try:
            results[index] = call()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results

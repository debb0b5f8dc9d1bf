"""A small HTTP server with ranges for tests: it counts requests and bytes, and misbehaves as it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

#: What a server reads from: offset and size to bytes.
Reading = Callable[[int, int], bytes]


@dataclass
class Served:
    """One file of the server, and how it is sent. ``ways`` are words of :meth:`_Handler.do_GET`."""

    size: int
    read: Reading
    etag: str = '"1"'
    ways: frozenset[str] = frozenset()
    #: statuses that the next requests are answered with, before any others
    statuses: list[int] = field(default_factory=list)
    location: str = ""
    #: what ``Authorization`` must be
    key: str = ""

    def put(self, data: bytes, etag: str) -> None:
        """Take another file's place, as an upload does."""
        self.size, self.read, self.etag = len(data), lambda at, size: data[at : at + size], etag


class Server:
    """Files by their path, ``/libx.so``; what was asked for stands in ``requests``, each a path with its range."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, str]] = []
        self.sent = 0
        self.authorizations: list[str] = []
        self.lock = threading.Lock()

    def put(self, path: str, data: bytes, *ways: str) -> str:
        """Serve bytes under a path and return the URL."""
        return self.serve(path, Served(len(data), lambda at, size: data[at : at + size], ways=frozenset(ways)))

    def serve(self, path: str, served: Served) -> str:
        """Serve a file under a path and return the URL."""
        self.files[path] = served
        return self.base + path


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server on a free port of this machine."""
    http = _Http(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    server = Server(http.server_address[1])
    http.files = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


class _Http(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each reply waits 40 ms for an acknowledgement
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server: Server = self.server.files  # type: ignore[attr-defined]
        path, asked = unquote(urlsplit(self.path).path), self.headers.get("Range", "")
        with server.lock:
            server.requests.append((path, asked))
            server.authorizations.append(self.headers.get("Authorization", ""))
        served = server.files.get(path)
        if served is None:
            return self._status(404)
        if served.statuses:
            status = served.statuses.pop(0)
            if status == 0:  # the connection ends
                self.close_connection = True
                return None
            return self._status(status)
        if served.key and self.headers.get("Authorization") != served.key:
            return self._status(401)
        if served.location:
            return self._status(302, Location=served.location)
        if "slow" in served.ways:
            time.sleep(5)
        if "half a second" in served.ways:
            time.sleep(0.5)
        return self._send(server, served, asked)

    def _send(self, server: Server, served: Served, asked: str) -> None:
        if not asked.startswith("bytes=") or "no ranges" in served.ways:
            self._begin(200, served, served.size if "no length" not in served.ways else None)
            at = 0
            while at < served.size:
                block = served.read(at, min(65536, served.size - at))
                try:
                    self.wfile.write(block)
                except OSError:
                    break
                with server.lock:
                    server.sent += len(block)
                at += len(block)
            self.close_connection = True
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1, served.size)
        if start >= served.size:
            self._status(416, **{"Content-Range": f"bytes */{served.size}"})
            return
        body = served.read(start, end - start)
        if "short" in served.ways and start:
            body = body[:-1]
        if "long" in served.ways and start:
            body += b"more"
        total = "*" if "no size" in served.ways else str(served.size)
        if "other range" in served.ways and start:
            start, end = start + 1, end + 1
        self._begin(206, served, len(body), **{"Content-Range": f"bytes {start}-{end - 1}/{total}"})
        if "cut" in served.ways and start:
            body = body[: len(body) // 2]
            self.close_connection = True
        if "drips" in served.ways:
            for at in range(len(body)):
                self.wfile.write(body[at : at + 1])
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.wfile.write(body)
        with server.lock:
            server.sent += len(body)

    def _begin(self, status: int, served: Served, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        else:
            self.send_header("Connection", "close")
        if served.etag:
            self.send_header("ETag", served.etag)
        if "compressed" in served.ways:
            self.send_header("Content-Encoding", "gzip")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _status(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

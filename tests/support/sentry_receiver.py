"""A server that speaks the protocol of Sentry: it keeps the events of the envelopes that it gets."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.processes import HOST


@dataclass
class SentryServer:
    port: int = 0
    # Responses, once they are used up 200.
    statuses: list[int] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    raw: bytes = b""
    requests: int = 0

    @property
    def dsn(self) -> str:
        return f"http://public-key@{HOST}:{self.port}/42"

    def receive(self, path: str, auth: str, body: bytes) -> None:
        assert path == "/api/42/envelope/"
        assert "sentry_key=public-key" in auth
        self.raw += body
        lines = body.split(b"\n")
        for header, payload in zip(lines[1::2], lines[2::2], strict=False):
            if json.loads(header)["type"] == "event":
                self.events.append(json.loads(payload))


@contextmanager
def receiving_reports() -> Iterator[SentryServer]:
    found = SentryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.requests += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = found.statuses.pop(0) if found.statuses else 200
            if status == 200:
                found.receive(self.path, self.headers["X-Sentry-Auth"], body)
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Handler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()

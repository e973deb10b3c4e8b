"""Proxies that make a right service wrong: one in front of the API, and one in front of the receiver."""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.support.processes import HOST, free_port
from tonne_conformance.certificate import CertificateFiles

HOP_BY_HOP = {"connection", "content-length", "host", "transfer-encoding", "content-encoding", "accept-encoding"}


@dataclass
class Message:
    """A request on its way, or the response to it. `path` has the query; `status` is the one of a response."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int = 0

    @property
    def document(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @document.setter
    def document(self, value: object) -> None:
        self.body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


Change = Callable[[Message], None]


def unchanged(_: Message) -> None:
    """The service as it is."""


@dataclass(frozen=True)
class Wrong:
    """What is changed: requests to the API, its responses, requests to the receiver, and the receiver's responses."""

    request: Change = field(default=unchanged)
    response: Change = field(default=unchanged)
    delivery: Change = field(default=unchanged)
    acknowledgement: Change = field(default=unchanged)


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str, request: Change, response: Change, context: ssl.SSLContext | None) -> None:
        self.target = target
        self.changes = (request, response)
        self.http = httpx.Client(verify=False, timeout=60)  # noqa: S501 - of the receiver in this process
        super().__init__((HOST, free_port()), _Forward)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is no error."""


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        request = Message(self.command, self.path, headers, body)
        change_request, change_response = self.server.changes
        change_request(request)
        url = f"{self.server.target}{request.path}"
        try:
            answer = self.server.http.request(request.method, url, headers=request.headers, content=request.body)
        except httpx.HTTPError:
            self.close_connection = True
            return
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        response = Message(self.command, self.path, kept, answer.content, answer.status_code)
        change_response(response)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if response.status not in {204, 304}:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    do_GET = do_POST = do_PUT = do_DELETE = _forward  # noqa: N815 - the names that the base class looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class has
        """Nothing."""


@contextlib.contextmanager
def _serving(proxy: _Proxy) -> Iterator[int]:
    thread = threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield proxy.server_address[1]
    finally:
        proxy.shutdown()
        proxy.server_close()
        proxy.http.close()
        thread.join()


@contextlib.contextmanager
def in_front_of(api: str, receiver: str, wrong: Wrong, certificate: CertificateFiles) -> Iterator[tuple[str, str]]:
    """The addresses of both proxies: the one to call, and the one to register."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    calls = _Proxy(api, wrong.request, wrong.response, None)
    deliveries = _Proxy(receiver, wrong.delivery, wrong.acknowledgement, context)
    with _serving(calls) as port, _serving(deliveries) as hook_port:
        yield f"http://{HOST}:{port}", f"https://{HOST}:{hook_port}"

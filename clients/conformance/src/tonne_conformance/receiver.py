"""The HTTPS receiver of the suite. It records every request as it came, and replies as a check tells it to."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tonne_conformance.certificate import CertificateFiles
from tonne_conformance.expect import fail

# Longer than an order takes to complete, even on a busy machine.
WITHIN_S = 60.0
PREFIX = "/tonne-conformance/"
Event = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """`after_s` is the time until the status is sent. With `close`, the connection is closed instead."""

    status: int = 200
    after_s: float = 0.0
    close: bool = False
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Delivery:
    """One request, with the raw bytes of its body and the reply that it got."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    # By the clock of this machine, and by one that never jumps.
    at_epoch_s: float
    at_s: float
    reply: Reply

    def header(self, name: str) -> str | None:
        """None if it is missing. Names have no case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def request_id(self) -> str:
        return f"delivery {self.header('webhook-id') or self.path}"

    @cached_property
    def document(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @cached_property
    def events(self) -> list[Event]:
        """Without anything that is no object: the checks of the format report it."""
        events = self.document.get("events") if isinstance(self.document, dict) else None
        return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []

    @property
    def event_ids(self) -> list[str]:
        return [str(event.get("event_id")) for event in self.events]


def order_of(event: Event) -> dict[str, Any]:
    """The order of an event; empty if there is none."""
    data = event.get("data")
    order = data.get("order") if isinstance(data, dict) else None
    return order if isinstance(order, dict) else {}


Rule = Callable[[Delivery], Reply]


@dataclass
class Inbox:
    """The requests to one address. `rule` chooses the replies."""

    name: str
    url: str
    secret: str = ""
    rule: Rule = field(default=lambda _: Reply())
    _deliveries: list[Delivery] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def deliveries(self) -> list[Delivery]:
        with self._changed:
            return list(self._deliveries)

    @property
    def events(self) -> list[Event]:
        """In the order of arrival, with repetitions."""
        return [event for delivery in self.deliveries for event in delivery.events]

    @property
    def new_events(self) -> list[Event]:
        """In the order of their first arrival."""
        first: dict[str, Event] = {}
        for event in self.events:
            first.setdefault(str(event.get("event_id")), event)
        return list(first.values())

    def events_of(self, order_id: str) -> list[Event]:
        return [event for event in self.new_events if order_of(event).get("id") == order_id]

    def acknowledged_events(self) -> list[Event]:
        return [event for each in self.deliveries if is_acknowledged(each) for event in each.events]

    def add(self, delivery: Delivery) -> Delivery:
        """Record the request with the reply that the rule chooses."""
        with self._changed:
            reply = self.rule(delivery)
            recorded = replace(delivery, reply=reply)
            self._deliveries.append(recorded)
            self._changed.notify_all()
        return recorded

    def wait(self, condition: Callable[[], bool], expected: str, within_s: float = WITHIN_S) -> None:
        """Wait until the condition holds; otherwise the check fails."""
        with self._changed:
            arrived = self._changed.wait_for(condition, within_s)
        if not arrived:
            types = [f"{event.get('event_type')}" for event in self.events[-20:]]
            fail(f"{expected} within {within_s:.0f} s", f"{len(self.deliveries)} requests; last events {types}")

    def wait_for_event(self, order_id: str, event_type: str, within_s: float = WITHIN_S) -> Event:
        """The event of this type for this order."""

        def found() -> list[Event]:
            return [event for event in self.events_of(order_id) if event.get("event_type") == event_type]

        self.wait(lambda: bool(found()), f"the event {event_type} of the order {order_id}", within_s)
        return found()[0]


def is_acknowledged(delivery: Delivery) -> bool:
    return not delivery.reply.close and 200 <= delivery.reply.status < 300


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], receiver: "Receiver", context: ssl.SSLContext) -> None:
        self.receiver = receiver
        self._context = context
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """The handshake is made by the thread of the connection: a slow one must not hold up the others."""
        connection, address = super().get_request()
        wrapped = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def handle_error(self, request: object, client_address: object) -> None:
        """A service that gives up waiting closes the connection: that is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._respond(self.rfile.read(length))

    def do_GET(self) -> None:
        """Recorded as well, so that a wrong method can be seen."""
        self._respond(b"")

    def do_PUT(self) -> None:
        self.do_POST()

    def _respond(self, body: bytes) -> None:
        inbox = self.server.receiver.find(self.path)
        if inbox is None:
            self.send_error(404)
            return
        headers = tuple(self.headers.items())
        arrived = Delivery(self.command, self.path, headers, body, time.time(), time.monotonic(), Reply())
        reply = inbox.add(arrived).reply
        if reply.after_s:
            time.sleep(reply.after_s)
        if reply.close:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        if reply.status not in {204, 304}:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class has
        """Nothing: the report says what arrived."""


class Receiver:
    """Listens at `address`, and is reached by the service at `base_url`."""

    def __init__(self, address: tuple[str, int], base_url: str, certificate: CertificateFiles) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        self._server = _Server(address, self, context)
        self.port: int = self._server.server_address[1]
        self._base_url = base_url.rstrip("/")
        self._inboxes: dict[str, Inbox] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def listening(self) -> Iterator["Receiver"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def inbox(self, name: str) -> Inbox:
        """The inbox of this name, which is a part of its address."""
        with self._lock:
            return self._inboxes.setdefault(name, Inbox(name, f"{self._base_url}{PREFIX}{name}"))

    def find(self, path: str) -> Inbox | None:
        """By the end of the path: a proxy in front of the receiver may add a prefix."""
        with self._lock:
            return self._inboxes.get(path.rpartition("/")[2])

    @property
    def all_deliveries(self) -> list[Delivery]:
        with self._lock:
            inboxes = list(self._inboxes.values())
        return [delivery for inbox in inboxes for delivery in inbox.deliveries]

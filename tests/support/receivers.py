"""Receivers of webhooks: real TLS, all requests recorded, and replies that tests choose."""

import asyncio
import contextlib
import json
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.processes import HOST

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
# Longer than anything here takes, even on a busy machine.
WITHIN_S = 20.0


@dataclass(frozen=True)
class Delivery:
    """One request."""

    head: bytes
    body: bytes
    at_s: float
    # The number of its connection, counted from 1.
    connection: int

    @property
    def request_line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name. A sender must not repeat a name."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    @property
    def events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = json.loads(self.body)["events"]
        return events

    @property
    def event_ids(self) -> list[str]:
        return [event["event_id"] for event in self.events]

    @property
    def account_ids(self) -> set[str]:
        return {event["account_id"] for event in self.events}


# What a receiver does with a request.
Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]
Rule = Callable[[Delivery], Reply]


def response(status: int, body: bytes, headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def reply(status: int, body: bytes = b"", **headers: str) -> Reply:
    return send(response(status, body, [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]))


def send(raw: bytes) -> Reply:
    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return act


OK = reply(200, b"thank you")


def after(release: asyncio.Event, then: Reply = OK) -> Reply:
    """Reply when the event is set."""

    async def act(writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await then(writer)

    return act


def later(seconds: float, then: Reply = OK) -> Reply:
    async def act(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await then(writer)

    return act


def drip(raw: bytes, every_s: float) -> Reply:
    """One byte at a time."""

    async def act(writer: asyncio.StreamWriter) -> None:
        for byte in raw:
            await send(bytes([byte]))(writer)
            await asyncio.sleep(every_s)

    return act


def cut(raw: bytes = b"") -> Reply:
    """Send this and drop the connection."""

    async def act(writer: asyncio.StreamWriter) -> None:
        await send(raw)(writer)
        writer.transport.abort()

    return act


async def hang(_: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@dataclass
class Receiver:
    """`rule` chooses the reply to a request, unless `next` has set one for it."""

    host: str
    port: int = 0
    rule: Rule = field(default=lambda _: OK)
    deliveries: list[Delivery] = field(default_factory=list)
    # The highest number of requests that waited for a reply at the same time.
    most_at_once: int = 0
    _next: deque[Reply] = field(default_factory=deque)
    _waiting: int = 0
    _connections: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}/hook"

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events in the order of arrival, repeats included."""
        return [event for delivery in self.deliveries for event in delivery.events]

    def next(self, *replies: Reply) -> None:
        self._next.extend(replies)

    async def arrived(self, condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(condition), within_s)
            except TimeoutError:
                raise AssertionError(f"{len(self.deliveries)} requests after {within_s} s") from None

    async def count(self, requests: int) -> None:
        await self.arrived(lambda: len(self.deliveries) >= requests)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        while await self._handle_request(reader, writer, connection):
            pass

    async def _handle_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        head, body = await read_request(reader)
        delivery = Delivery(head.removesuffix(b"\r\n\r\n"), body, time.monotonic(), connection)
        self._waiting += 1
        self.most_at_once = max(self.most_at_once, self._waiting)
        async with self._changed:
            self.deliveries.append(delivery)
            self._changed.notify_all()
        replying = asyncio.create_task(self._reply(delivery, writer))
        try:
            # A sender that has closed the connection no longer waits for a reply.
            while not replying.done() and not reader.at_eof():
                await asyncio.wait({replying}, timeout=0.005)
            return replying.done() and not writer.is_closing()
        finally:
            self._waiting -= 1
            replying.cancel()
            await asyncio.gather(replying, return_exceptions=True)

    async def _reply(self, delivery: Delivery, writer: asyncio.StreamWriter) -> None:
        chosen = self._next.popleft() if self._next else self.rule(delivery)
        await chosen(writer)


@asynccontextmanager
async def receiving(context: ssl.SSLContext, host: str = HOST, name: str = "") -> AsyncIterator[Receiver]:
    """A receiver on a port of its own; `name` is the host in its URL."""
    receiver = Receiver(name or host)
    async with listening(receiver.handle, context, host) as port:
        receiver.port = port
        yield receiver


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """A port whose connections `handle` serves. It can be shut, and opened again on the same port.

    Without `context` it does not use TLS.
    """

    def __init__(self, handle: Handler, context: ssl.SSLContext | None = None, host: str = HOST) -> None:
        self._context = context
        self.port = 0
        self._handle = handle
        self._host = host
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def open(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, self._host, self.port, ssl=self._context, limit=2**20, backlog=512
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            # `close` cancels this task; asyncio would log a cancelled one as an error.
            with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
                await self._handle(reader, writer)
        finally:
            del self._connections[task]
            writer.transport.abort()

    def shut(self) -> None:
        """Refuse new connections and drop the open ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop_connections()

    def drop_connections(self) -> None:
        for writer in self._connections.values():
            writer.transport.abort()

    async def close(self) -> None:
        self.shut()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def listening(handle: Handler, context: ssl.SSLContext | None = None, host: str = HOST) -> AsyncIterator[int]:
    """The port of a listener."""
    listener = Listener(handle, context, host)
    await listener.open()
    try:
        yield listener.port
    finally:
        await listener.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request. The head ends with its empty line."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = _LENGTH.search(head)
    return head, await reader.readexactly(int(found[1]) if found else 0)


class UnacceptedPort:
    """A port that listens and never accepts. With `full`, its queue is full: not even a connection is made."""

    def __init__(self, *, full: bool = False) -> None:
        self._listener = socket.socket()
        self._listener.bind((HOST, 0))
        self._listener.listen(0 if full else 128)
        self.port: int = self._listener.getsockname()[1]
        self._waiting = [socket.socket() for _ in range(3 if full else 0)]
        # The queue holds one connection more than asked for; further attempts get no reply.
        for waiting in self._waiting:
            waiting.setblocking(False)
            waiting.connect_ex((HOST, self.port))

    def close(self) -> None:
        for waiting in (*self._waiting, self._listener):
            waiting.close()


@contextlib.contextmanager
def never_accepting() -> Iterator[str]:
    """The URL of a port that listens and never accepts."""
    port = UnacceptedPort()
    try:
        yield f"https://{HOST}:{port.port}/hook"
    finally:
        port.close()

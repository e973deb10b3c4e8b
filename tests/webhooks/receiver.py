"""A webhook receiver for tests: real TLS, records every request, and misbehaves on demand."""

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

# A time-out that only a bug exceeds, even on a busy machine.
WITHIN_S = 20.0


@dataclass(frozen=True)
class Delivery:
    """One received request."""

    head: bytes
    body: bytes
    at_s: float
    # The number of its connection, from 1.
    connection: int

    @property
    def request_line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name. The sender must not send a name twice."""
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


# What the receiver does after it has read a request.
Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]
Rule = Callable[[Delivery], Reply]


def reply(status: int, body: bytes = b"", **headers: str) -> Reply:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return send("\r\n".join([*lines, "", ""]).encode() + body)


def send(raw: bytes) -> Reply:
    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return act


OK = reply(200, b"thank you")


def after(released: asyncio.Event, then: Reply = OK) -> Reply:
    """Responds once the test has set the event."""

    async def act(writer: asyncio.StreamWriter) -> None:
        await released.wait()
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
    """Sends these bytes and breaks the connection."""

    async def act(writer: asyncio.StreamWriter) -> None:
        await send(raw)(writer)
        writer.transport.abort()

    return act


async def hang(_: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@dataclass
class Receiver:
    """`rule` chooses the reply to a request, unless `next` has queued one."""

    host: str
    port: int = 0
    rule: Rule = field(default=lambda _: OK)
    deliveries: list[Delivery] = field(default_factory=list)
    # The highest number of requests that were unanswered at the same time.
    most_at_once: int = 0
    _next: deque[Reply] = field(default_factory=deque)
    _unanswered: int = 0
    _connections: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}/hook"

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events that arrived, including repeats, in order of arrival."""
        return [event for delivery in self.deliveries for event in delivery.events]

    def next(self, *replies: Reply) -> None:
        self._next.extend(replies)

    async def arrived(self, condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(condition), within_s)
            except TimeoutError:
                raise AssertionError(f"after {within_s} s, {len(self.deliveries)} requests have arrived") from None

    async def count(self, requests: int) -> None:
        await self.arrived(lambda: len(self.deliveries) >= requests)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        while await self._take_one(reader, writer, connection):
            pass

    async def _take_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
        delivery = Delivery(head, b"", time.monotonic(), connection)
        body = await reader.readexactly(int(delivery.headers["content-length"]))
        delivery = Delivery(head, body, time.monotonic(), connection)
        self._unanswered += 1
        self.most_at_once = max(self.most_at_once, self._unanswered)
        async with self._changed:
            self.deliveries.append(delivery)
            self._changed.notify_all()
        answering = asyncio.create_task(self._answer(delivery, writer))
        try:
            # A sender that has disconnected does not wait any more: its request no longer counts as unanswered.
            while not answering.done() and not reader.at_eof():
                await asyncio.wait({answering}, timeout=0.005)
            return answering.done() and not writer.is_closing()
        finally:
            self._unanswered -= 1
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def _answer(self, delivery: Delivery, writer: asyncio.StreamWriter) -> None:
        chosen = self._next.popleft() if self._next else self.rule(delivery)
        await chosen(writer)


@asynccontextmanager
async def receiving(context: ssl.SSLContext, host: str = "127.0.0.1", name: str = "") -> AsyncIterator[Receiver]:
    """A receiver on a port of its own. `name` replaces the address in its URL."""
    receiver = Receiver(name or host)
    async with listening(receiver.take, context, host) as port:
        receiver.port = port
        yield receiver


Take = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(take: Take, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A port whose connections `take` handles; plain TCP without a context."""
    busy: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        try:
            # The server cancels it at the end; asyncio's own callback would log that as an error.
            with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
                await take(reader, writer)
        finally:
            busy.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, host, 0, ssl=context, limit=2**20)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy)


@asynccontextmanager
async def never_accepting() -> AsyncIterator[str]:
    """The URL of a port that listens and never accepts."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        yield f"https://127.0.0.1:{listening.getsockname()[1]}/hook"


def unused_port() -> int:
    """A port on which nothing listens: connections are refused."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

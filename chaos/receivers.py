"""Receivers with real TLS that record every byte, and that misbehave as a scenario wants."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tests.support.processes import HOST
from tests.support.receivers import Listener, read_request, response


class Exchange(msgspec.Struct):
    """A request and how it ended. Times are on the monotonic clock, except `arrived_unix`."""

    # Identifies the connection and the process that sent it.
    peer_port: int
    arrived_s: float
    arrived_unix: float
    # Where its bytes are in the file of the receiver.
    offset: int
    head_length: int
    body_length: int
    # The status of the response and its time. None: the client closed the connection, or still waits.
    status: int | None = None
    ended_s: float | None = None

    @property
    def acknowledged(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Call:
    """A complete request that waits for a response."""

    def __init__(self, exchange: Exchange, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.exchange = exchange
        self.body = body
        self._writer = writer
        # Set when the client has closed the connection.
        self.closed = asyncio.Event()

    def respond(self, status: int = 200, body: bytes = b"", *headers: str) -> None:
        self.end(status)
        self.write(response(status, body, headers))

    def end(self, status: int | None) -> None:
        """Recorded before the bytes are sent: the next request can follow at once."""
        if self.exchange.ended_s is None:
            self.exchange.status, self.exchange.ended_s = status, time.monotonic()

    def write(self, raw: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(raw)


# What a receiver does with a request. If it sends nothing, the connection stays open.
Behaviour = Callable[[Call], Awaitable[None]]


async def accept(call: Call) -> None:
    call.respond(200)


class Receiver(Listener):
    """`behaviour` can be changed at any time; it applies to the requests that arrive from then on."""

    def __init__(self, folder: Path, name: str, context: ssl.SSLContext, behaviour: Behaviour = accept) -> None:
        super().__init__(self._receive, context)
        self.name = name
        self.tls = context
        self.behaviour = behaviour
        self.exchanges: list[Exchange] = []
        self.errors: list[str] = []
        self._path = folder / f"{name}.bytes"
        self._file = self._path.open("wb")
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/{self.name}"

    async def close(self) -> None:
        await super().close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._file.close()
        self._path.with_suffix(".jsonl").write_bytes(msgspec.json.Encoder().encode_lines(self.exchanges))

    def read(self, exchange: Exchange) -> tuple[bytes, bytes]:
        """Head and body of a recorded request."""
        if not self._file.closed:
            self._file.flush()
        with self._path.open("rb") as file:
            file.seek(exchange.offset)
            return file.read(exchange.head_length), file.read(exchange.body_length)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with one request after the other."""
        call = None
        try:
            while True:
                head, body = await read_request(reader)
                exchange = self._record(head, body, writer.get_extra_info("peername")[1])
                call = Call(exchange, body, writer)
                task = asyncio.create_task(self._behave(call))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            if call is not None:
                call.end(None)
                call.closed.set()

    def _record(self, head: bytes, body: bytes, peer_port: int) -> Exchange:
        now_s, offset = time.monotonic(), self._file.tell()
        exchange = Exchange(peer_port, now_s, time.time(), offset, len(head), len(body))
        self._file.write(head + body)
        self.exchanges.append(exchange)
        return exchange

    async def _behave(self, call: Call) -> None:
        try:
            await self.behaviour(call)
        except Exception as error:  # noqa: BLE001 - an error of the scenario must be reported, not end the run
            self.errors.append(f"receiver {self.name}: {error!r}")

"""Receivers with real TLS that record every byte, and that misbehave as a scenario wants."""

import asyncio
import itertools
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tests.support.processes import HOST

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Exchange(msgspec.Struct):
    """A request and how it ended. Times are on the monotonic clock, except `arrived_unix`."""

    connection: int
    # Identifies the process that sent it.
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
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *headers]
        self.end(status)
        self.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

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


class Receiver:
    """`behaviour` can be changed at any time; it applies to the requests that arrive from then on."""

    def __init__(self, folder: Path, name: str, context: ssl.SSLContext, behaviour: Behaviour = accept) -> None:
        self.name = name
        self.behaviour = behaviour
        self.context = context
        self.port = 0
        self.exchanges: list[Exchange] = []
        self.errors: list[str] = []
        self._path = folder / f"{name}.bytes"
        self._file = self._path.open("wb")
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/{self.name}"

    async def open(self) -> "Receiver":
        """Listen, on the same port as before if there was one."""
        self._server = await asyncio.start_server(
            self._serve, HOST, self.port, ssl=self.context, reuse_address=True, backlog=512
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def shut(self) -> None:
        """Refuse new connections and drop the open ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop_connections()

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        self.shut()
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with one request after the other."""
        self._writers.add(writer)
        number, call = next(self._numbers), None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                exchange = self._record(head, body, number, writer.get_extra_info("peername")[1])
                call = Call(exchange, body, writer)
                task = asyncio.create_task(self._behave(call))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            if call is not None:
                call.end(None)
                call.closed.set()
            writer.transport.abort()

    def _record(self, head: bytes, body: bytes, connection: int, peer_port: int) -> Exchange:
        now_s, offset = time.monotonic(), self._file.tell()
        exchange = Exchange(connection, peer_port, now_s, time.time(), offset, len(head), len(body))
        self._file.write(head + body)
        self.exchanges.append(exchange)
        return exchange

    async def _behave(self, call: Call) -> None:
        try:
            await self.behaviour(call)
        except Exception as error:  # noqa: BLE001 - an error of the scenario must be reported, not end the run
            self.errors.append(f"receiver {self.name}: {error!r}")


class UnacceptedPort:
    """A port that listens and never accepts. With `full`, its queue is full: not even a connection is made."""

    def __init__(self, *, full: bool) -> None:
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

"""Receivers as they are in the world: real TLS, every byte recorded, and as ill-behaved as a scenario wants them."""

import asyncio
import itertools
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from chaos.certificates import HOST, Certificates
from chaos.records import Exchange, Recorder

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

# What a receiver does with a request. It may return without an answer: the connection then stays open, and silent.
Behaviour = Callable[["Call"], Awaitable[None]]


class Call:
    """A request that has arrived whole and waits for what the receiver does."""

    def __init__(self, exchange: Exchange, head: bytes, body: bytes, transport: asyncio.Transport) -> None:
        self.exchange = exchange
        self.head = head
        self.body = body
        self._transport = transport
        # Set when the sender has hung up.
        self.gone = asyncio.Event()

    def answer(self, status: int = 200, body: bytes = b"", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} As it is", f"Content-Length: {len(body)}", *headers]
        self.ends_with(status)
        self.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def ends_with(self, status: int) -> None:
        """Noted before the bytes go out: from here on another request may come."""
        if self.exchange.ended_s is None:
            self.exchange.status, self.exchange.ended_s = status, time.monotonic()

    def write(self, raw: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(raw)

    def hung_up(self) -> None:
        if self.exchange.ended_s is None:
            self.exchange.ended_s = time.monotonic()
        self.gone.set()


async def accept(call: Call) -> None:
    call.answer(200)


class Receiver:
    """`behaviour` may be exchanged at any moment; it counts for requests that arrive from then on."""

    def __init__(self, folder: Path, name: str, certificates: ssl.SSLContext, behaviour: Behaviour = accept) -> None:
        self.name = name
        self.behaviour = behaviour
        self.recorder = Recorder(folder, name)
        self.port = 0
        self.connections = itertools.count(1)
        self.troubles: list[str] = []
        self._certificates = certificates
        self._server: asyncio.Server | None = None
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/{self.name}"

    @property
    def exchanges(self) -> list[Exchange]:
        return self.recorder.exchanges

    async def open(self, port: int = 0) -> "Receiver":
        """Listen, on the same port as before when there was one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Line(self), HOST, port or self.port, ssl=self._certificates, reuse_address=True, backlog=512
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def use_certificate(self, certificates: Certificates, kind: str) -> None:
        certificates.use(self._certificates, kind)

    def shut(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """Cut the connections that are open; new ones are welcome."""
        for line in list(self._lines):
            line.cut()

    async def close(self) -> None:
        self.shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.recorder.close()

    def begin(self, call: Call) -> None:
        task = asyncio.create_task(self._behave(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _behave(self, call: Call) -> None:
        try:
            await self.behaviour(call)
        except Exception as error:  # noqa: BLE001 - a mistake of the scenario must show in its verdict, not end the run
            self.troubles.append(f"receiver {self.name}: {error!r}")


class _Line(asyncio.Protocol):
    """One connection: HTTP/1.1, one request after the other."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._number = next(receiver.connections)
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._call: Call | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._receiver._lines.add(self)  # noqa: SLF001 - a receiver and its lines are one thing

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        found = _LENGTH.search(self._buffer, 0, end)
        length = int(found[1]) if found else 0
        if len(self._buffer) < end + length or self._transport is None:
            return
        head, body = bytes(self._buffer[:end]), bytes(self._buffer[end : end + length])
        del self._buffer[: end + length]
        peer_port = self._transport.get_extra_info("peername")[1]
        exchange = self._receiver.recorder.add(head, body, connection=self._number, peer_port=peer_port)
        self._call = Call(exchange, head, body, self._transport)
        self._receiver.begin(self._call)

    def connection_lost(self, _: Exception | None) -> None:
        self._receiver._lines.discard(self)  # noqa: SLF001 - see above
        if self._call is not None:
            self._call.hung_up()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class DeafPort:
    """A port where nobody ever accepts. `full`: so many wait already that even a connection is not made."""

    def __init__(self, *, full: bool) -> None:
        self._listener = socket.socket()
        self._listener.bind((HOST, 0))
        self._listener.listen(0 if full else 128)
        self.port: int = self._listener.getsockname()[1]
        self._waiting: list[socket.socket] = []
        # The system's queue holds one more than asked for; further attempts get no answer at all.
        for _ in range(3 if full else 0):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex((HOST, self.port))
            self._waiting.append(waiting)

    def close(self) -> None:
        for waiting in self._waiting:
            waiting.close()
        self._listener.close()

"""The receivers of webhooks: TLS, in one process of their own, and cheap, since they share the cores."""

import asyncio
import contextlib
import multiprocessing
import os
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import trustme
import uvloop

from tests.support.processes import HOST

# Every event of a batch starts with it, and no event contains it elsewhere.
EVENT_MARK = b'{"api_version":'
_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """`at` is on the monotonic clock of the machine; `events` is the number of events received so far."""

    at: float
    events: int


@dataclass(slots=True)
class Tally:
    """What one receiver got."""

    events: int = 0
    acknowledged: list[Acknowledgement] = field(default_factory=list)


class Receivers:
    """Controls the process of the receivers. Each receiver has a port of its own."""

    def __init__(self, pipe: Pipe, ca_file: Path) -> None:
        self._pipe = pipe
        self.ca_file = ca_file
        self.urls: list[str] = self._call("urls")

    def tallies(self) -> list[Tally]:
        found: list[Tally] = self._call("tallies")
        return found

    def reset(self) -> None:
        """Start counting from zero."""
        self._call("reset")

    def hang(self, number: int) -> None:
        """From now on this receiver reads requests and does not respond."""
        self._call("hang", number)

    def resume(self) -> None:
        """A hanging receiver sends its outstanding responses and works normally again."""
        self._call("resume")

    def _call(self, *call: object) -> Any:
        self._pipe.send(call)
        return self._pipe.recv()


@contextlib.contextmanager
def start_receivers(count: int, folder: Path) -> Iterator[Receivers]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file := folder / "authority.pem"))
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(folder / "receiver.pem"))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, count, folder / "receiver.pem"), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Receivers(ours, ca_file)
    finally:
        ours.close()
        process.join()


def _run(pipe: Pipe, count: int, certificate: Path) -> None:
    uvloop.run(_Server(pipe).serve(count, certificate))


class _Server:
    """Serves the receivers, and the calls of `Receivers` that come over the pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._receivers: list[_Receiver] = []
        self._urls: list[str] = []
        self._closed = asyncio.Event()

    async def serve(self, count: int, certificate: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        loop = asyncio.get_running_loop()
        for _ in range(count):
            receiver = _Receiver()
            server = await loop.create_server(receiver.connection, HOST, 0, ssl=context, backlog=64)
            self._receivers.append(receiver)
            self._urls.append(f"https://{HOST}:{server.sockets[0].getsockname()[1]}/events")
        loop.add_reader(self._pipe.fileno(), self._handle_call)
        await self._closed.wait()

    def _handle_call(self) -> None:
        # add_reader made the pipe non-blocking, but a result can be longer than its buffer.
        os.set_blocking(self._pipe.fileno(), True)
        try:
            name, *arguments = self._pipe.recv()
        except EOFError:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._closed.set()
            return
        self._pipe.send(getattr(self, name)(*arguments))

    def urls(self) -> list[str]:
        return self._urls

    def tallies(self) -> list[Tally]:
        return [receiver.tally for receiver in self._receivers]

    def reset(self) -> None:
        for receiver in self._receivers:
            receiver.tally = Tally()

    def hang(self, number: int) -> None:
        self._receivers[number].outstanding = []

    def resume(self) -> None:
        for receiver in self._receivers:
            receiver.resume()


class _Receiver:
    def __init__(self) -> None:
        self.tally = Tally()
        # While it hangs: the connections that wait for a response, with the number of events they sent.
        self.outstanding: list[tuple[asyncio.Transport, int]] | None = None

    def connection(self) -> "_Connection":
        return _Connection(self)

    def receive(self, transport: asyncio.Transport, events: int) -> None:
        if self.outstanding is not None:
            self.outstanding.append((transport, events))
            return
        transport.write(_RESPONSE)
        self.tally.events += events
        self.tally.acknowledged.append(Acknowledgement(time.monotonic(), self.tally.events))

    def resume(self) -> None:
        outstanding, self.outstanding = self.outstanding or [], None
        for transport, events in outstanding:
            if not transport.is_closing():
                self.receive(transport, events)


class _Connection(asyncio.Protocol):
    """One request at a time, like a webhook sends them."""

    def __init__(self, receiver: _Receiver) -> None:
        self._receiver = receiver
        self._parts: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, received: bytes) -> None:
        if self._missing:
            self._parts.append(received)
            self._missing -= len(received)
        else:
            head, end, body = b"".join([*self._parts, received]).partition(_END_OF_HEAD)
            if not end:
                self._parts = [head]
                return
            length = int(head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
            self._parts = [body]
            self._missing = length - len(body)
        if not self._missing:
            body, self._parts = b"".join(self._parts), []
            self._receiver.receive(self._transport, body.count(EVENT_MARK))

"""The receivers of webhooks: TLS, in a process of their own, as cheap as they can be, since they share the cores."""

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

HOST = "127.0.0.1"
# Every event of a batch begins with it, and nothing within an event looks like it.
EVENT_MARK = b'{"api_version":'
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answered:
    """`at` is on the clock that all processes of the machine share; `events` counts all so far, these included."""

    at: float
    events: int


@dataclass(slots=True)
class Tally:
    """What one receiver got."""

    requests: int = 0
    events: int = 0
    answered: list[Answered] = field(default_factory=list)


class Receivers:
    """The handle that the benchmarks hold: `count` receivers, each on a port of its own."""

    def __init__(self, pipe: Pipe, authority_file: Path) -> None:
        self._pipe = pipe
        self.authority_file = authority_file
        self.urls: list[str] = self._ask("urls")

    def tallies(self) -> list[Tally]:
        found: list[Tally] = self._ask("tallies")
        return found

    def forget(self) -> None:
        """Start counting anew."""
        self._ask("forget")

    def hang(self, number: int) -> None:
        """From now on this receiver reads requests and answers none."""
        self._ask("hang", number)

    def resume(self) -> None:
        """Whoever hangs answers what it owes, and goes on."""
        self._ask("resume")

    def _ask(self, *question: object) -> Any:
        self._pipe.send(question)
        return self._pipe.recv()


@contextlib.contextmanager
def receiving(count: int, folder: Path) -> Iterator[Receivers]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(authority_file := folder / "authority.pem"))
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(folder / "receiver.pem"))
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(theirs, count, folder / "receiver.pem"), daemon=True
    )
    process.start()
    theirs.close()
    try:
        yield Receivers(ours, authority_file)
    finally:
        ours.close()
        process.join()


def _run(pipe: Pipe, count: int, certificate: Path) -> None:
    uvloop.run(_serve(pipe, count, certificate))


async def _serve(pipe: Pipe, count: int, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    receivers = [_Receiver() for _ in range(count)]
    urls = []
    for receiver in receivers:
        server = await loop.create_server(receiver.connection, HOST, 0, ssl=context, backlog=64)
        urls.append(f"https://{HOST}:{server.sockets[0].getsockname()[1]}/events")
    gone = asyncio.Event()

    def answer() -> None:
        # The loop has made it one that never waits; an answer may be longer than what fits in at once.
        os.set_blocking(pipe.fileno(), True)
        try:
            question, *values = pipe.recv()
        except EOFError:
            loop.remove_reader(pipe.fileno())
            gone.set()
            return
        pipe.send(_answer(receivers, urls, question, *values))

    loop.add_reader(pipe.fileno(), answer)
    await gone.wait()


def _answer(receivers: list["_Receiver"], urls: list[str], question: str, *values: int) -> object:
    match question:
        case "urls":
            return urls
        case "tallies":
            return [receiver.tally for receiver in receivers]
        case "forget":
            for receiver in receivers:
                receiver.tally = Tally()
        case "hang":
            receivers[values[0]].owed = []
        case "resume":
            for receiver in receivers:
                receiver.resume()
        case _:
            raise ValueError(question)
    return None


class _Receiver:
    def __init__(self) -> None:
        self.tally = Tally()
        # While it hangs: to whom it owes an answer, and for how many events.
        self.owed: list[tuple[asyncio.Transport, int]] | None = None

    def connection(self) -> "_Connection":
        return _Connection(self)

    def got(self, transport: asyncio.Transport, events: int) -> None:
        if self.owed is not None:
            self.owed.append((transport, events))
            return
        transport.write(_ANSWER)
        tally = self.tally
        tally.requests += 1
        tally.events += events
        tally.answered.append(Answered(time.monotonic(), tally.events))

    def resume(self) -> None:
        owed, self.owed = self.owed or [], None
        for transport, events in owed:
            if not transport.is_closing():
                self.got(transport, events)


class _Connection(asyncio.Protocol):
    """One request at a time, as a webhook sends them."""

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
            self._receiver.got(self._transport, body.count(EVENT_MARK))

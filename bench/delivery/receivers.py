"""The receivers of webhooks: TLS, in one thread, and cheap, since they share the cores with the worker."""

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import trustme
import uvloop

from tests.support.processes import HOST

# Every event of a batch starts with it, and no event contains it elsewhere.
EVENT_MARK = b'{"api_version":'
_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_END_OF_HEAD = b"\r\n\r\n"


class Acknowledgement(NamedTuple):
    """`at` is on the monotonic clock of the machine; `events` is the number of events received so far."""

    at: float
    events: int


class Receiver:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.url = ""
        self.acknowledged: list[Acknowledgement] = []
        self._loop = loop
        # While it hangs: the connections that wait for a response, with the number of events they sent.
        self._outstanding: list[tuple[asyncio.Transport, int]] | None = None

    async def open(self, context: ssl.SSLContext) -> None:
        server = await self._loop.create_server(lambda: _Connection(self), HOST, 0, ssl=context, backlog=64)
        self.url = f"https://{HOST}:{server.sockets[0].getsockname()[1]}/events"

    @property
    def events(self) -> int:
        """How many events it has acknowledged since the last reset."""
        return self.acknowledged[-1].events if self.acknowledged else 0

    def reset(self) -> None:
        self.acknowledged = []

    def hang(self) -> None:
        """From now on it reads requests and does not respond."""
        self._outstanding = []

    def resume(self) -> None:
        """Send the outstanding responses and work normally again."""
        self._loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        outstanding, self._outstanding = self._outstanding or [], None
        for transport, events in outstanding:
            if not transport.is_closing():
                self.receive(transport, events)

    def receive(self, transport: asyncio.Transport, events: int) -> None:
        if self._outstanding is not None:
            self._outstanding.append((transport, events))
            return
        transport.write(_RESPONSE)
        self.acknowledged.append(Acknowledgement(time.monotonic(), self.events + events))


class _Connection(asyncio.Protocol):
    """One request at a time, like a webhook sends them."""

    def __init__(self, receiver: Receiver) -> None:
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


@contextlib.contextmanager
def start_receivers(count: int, ca_file: Path) -> Iterator[list[Receiver]]:
    """Receivers on ports of their own, whose certificates the authority in `ca_file` has issued.

    They run in a thread of this process, which otherwise only waits while something is measured.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    receivers = [Receiver(loop) for _ in range(count)]
    for receiver in receivers:
        asyncio.run_coroutine_threadsafe(receiver.open(context), loop).result()
    try:
        yield receivers
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

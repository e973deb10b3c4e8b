"""The HTTP load generator. It shares the cores with the server under test, so it does little per request."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.processes import HOST

KEY_LENGTH = 24
_RESPONSE_WITHIN_S = 30.0


class UnexpectedResponse(Exception):
    """A response is not the expected one, so the run measured something else."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The bytes of a request and its expected response. A new key goes between `head` and `tail`, if there is one."""

    head: bytes
    tail: bytes
    status: int
    # The length of the response body, or None if it is not known in advance.
    length: int | None


@dataclass(slots=True)
class Outcome:
    """`answered` counts all responses including the warm-up; the rest covers the time after it."""

    answered: int = 0
    per_second: float = 0.0
    latencies_s: list[float] = field(default_factory=list)


def get(path: str, key: str | None = None, *, length: int | None = None, etag: str | None = None) -> PreparedRequest:
    """With `etag`, the response must be a 304."""
    headers = f"Authorization: Bearer {key}\r\n" if key else ""
    headers += f"If-None-Match: {etag}\r\n" if etag else ""
    head = f"GET {path} HTTP/1.1\r\nHost: bench\r\n{headers}\r\n".encode()
    return PreparedRequest(head, b"", 304 if etag else 200, length)


def post(path: str, key: str, body_head: str, body_tail: str) -> PreparedRequest:
    """A POST request with a new key between the two parts of its body."""
    size = len(body_head) + KEY_LENGTH + len(body_tail)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n{body_head}"
    )
    return PreparedRequest(head.encode(), body_tail.encode(), 201, None)


def post_always(path: str, key: str, body: str, *, status: int, length: int | None = None) -> PreparedRequest:
    """A POST request that is the same every time."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    return PreparedRequest(head.encode(), b"", status, length)


async def run_load(
    port: int,
    requests: list[PreparedRequest],
    key_prefix: str,
    *,
    connections: int,
    warm_up_s: float,
    seconds: float,
    per_second: float | None = None,
) -> Outcome:
    """Send the requests in this order, again and again. Every connection has one in flight.

    With `per_second`, requests are due at even intervals however long responses take, and their times count from when
    they were due.
    """
    loop = asyncio.get_running_loop()
    run = _Run(requests, key_prefix, per_second)
    opened = [await loop.create_connection(lambda: _Connection(run), HOST, port) for _ in range(connections)]
    run.since = time.perf_counter() + warm_up_s
    run.until = run.since + seconds
    run.next_due = time.perf_counter()
    for _, connection in opened:
        connection.send()
    await asyncio.sleep(warm_up_s + seconds)
    async with asyncio.timeout(_RESPONSE_WITHIN_S):
        await asyncio.gather(*(connection.finished for _, connection in opened))
    for transport, _ in opened:
        transport.close()
    run.outcome.per_second = len(run.outcome.latencies_s) / seconds
    return run.outcome


class _Run:
    """What all connections share: the next request, the time limits, and the outcome."""

    def __init__(self, requests: Sequence[PreparedRequest], key_prefix: str, per_second: float | None) -> None:
        self._requests = itertools.cycle(requests)
        self._interval_s = None if per_second is None else 1 / per_second
        self.next_due = 0.0
        self._number = itertools.count()
        self._key_prefix = key_prefix
        self._digits = KEY_LENGTH - len(key_prefix)
        self.since = self.until = 0.0
        self.outcome = Outcome()

    def due_at(self) -> float:
        """When the next request is to be sent."""
        if self._interval_s is None:
            return time.perf_counter()
        self.next_due += self._interval_s
        return self.next_due

    def next(self) -> tuple[PreparedRequest, bytes]:
        request = next(self._requests)
        if not request.tail:
            return request, request.head
        key = f"{self._key_prefix}{next(self._number):0{self._digits}d}".encode()
        return request, request.head + key + request.tail

    def count(self, sent_at: float, now: float) -> None:
        self.outcome.answered += 1
        if self.since <= now < self.until:
            self.outcome.latencies_s.append(now - sent_at)


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self._run = run
        self._head = b""
        self._body_left = 0
        self._request: PreparedRequest | None = None
        self._sent_at = 0.0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(UnexpectedResponse(f"The server closed a connection: {error}."))

    def send(self) -> None:
        self._sent_at = self._run.due_at()
        wait_s = self._sent_at - time.perf_counter()
        if wait_s > 0:
            asyncio.get_running_loop().call_later(wait_s, self._send)
        else:
            self._send()

    def _send(self) -> None:
        self._request, content = self._run.next()
        self._transport.write(content)

    def data_received(self, received: bytes) -> None:
        if self._body_left:
            self._body_left -= len(received)
        else:
            self._head += received
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._body_left = self._check(self._head[:end].lower()) - (len(self._head) - end - 4)
            self._head = b""
        if self._body_left == 0 and not self.finished.done():
            self._count_response()

    def _check(self, head: bytes) -> int:
        """Check status and length of the response; returns the length of its body."""
        request = self._request
        stated = head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
        # A 304 has no body, and does not say so.
        length = int(stated or (0 if request is not None and request.status == 304 else -1))
        if (
            request is None
            or head[9:12] != b"%d" % request.status
            or length < 0
            or request.length not in {None, length}
        ):
            expected = "nothing" if request is None else f"status {request.status}, length {request.length}"
            self.finished.set_exception(UnexpectedResponse(f"Expected {expected}, got {head.decode('latin-1')!r}."))
        return length

    def _count_response(self) -> None:
        now = time.perf_counter()
        self._run.count(self._sent_at, now)
        if now < self._run.until:
            self.send()
        else:
            self.finished.set_result(None)

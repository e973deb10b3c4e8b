"""The HTTP load generator. It shares the cores with what it measures, so it does as little as it can per request."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import uvloop

KEY_LENGTH = 24
_ANSWER_WITHIN_S = 30.0


class WrongAnswer(Exception):
    """An answer that is not the expected one: whatever was measured, it was something else."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One request, ready to send, and what its answer must be. A fresh key goes between `head` and `tail`, if any."""

    head: bytes
    tail: bytes
    status: int
    # Of the answer's body; None when it is not known beforehand.
    length: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    port: int
    connections: int
    warm_up_s: float
    seconds: float
    # Fired in this order, over and over.
    shots: Sequence[Shot]
    # Makes the fresh keys of this load different from those of every other.
    key_prefix: str = ""


@dataclass(slots=True)
class Outcome:
    """`answered` counts every answer, warm-up included; the rest is about the time after the warm-up."""

    answered: int = 0
    per_second: float = 0.0
    # (index of the shot, seconds)
    latencies: list[tuple[int, float]] = field(default_factory=list)


def get(path: str, key: str | None = None, *, length: int | None = None) -> Shot:
    authorisation = f"Authorization: Bearer {key}\r\n" if key else ""
    return Shot(f"GET {path} HTTP/1.1\r\nHost: bench\r\n{authorisation}\r\n".encode(), b"", 200, length)


def post(path: str, key: str, body_head: str, body_tail: str) -> Shot:
    """A POST whose body has a fresh key between its two parts."""
    size = len(body_head) + KEY_LENGTH + len(body_tail)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n{body_head}"
    )
    return Shot(head.encode(), body_tail.encode(), 201, None)


def fire(load: Load) -> Outcome:
    """Keep every connection busy with one request at a time, for as long as `load` says."""
    return uvloop.run(_fire(load))


async def _fire(load: Load) -> Outcome:
    gun = _Gun(load)
    loop = asyncio.get_running_loop()
    connections = [
        await loop.create_connection(lambda: _Connection(gun), "127.0.0.1", load.port) for _ in range(load.connections)
    ]
    gun.start()
    for _, connection in connections:
        connection.fire()
    await asyncio.sleep(load.warm_up_s + load.seconds)
    async with asyncio.timeout(_ANSWER_WITHIN_S):
        await asyncio.gather(*(connection.finished for _, connection in connections))
    for transport, _ in connections:
        transport.close()
    gun.outcome.per_second = len(gun.outcome.latencies) / load.seconds
    return gun.outcome


class _Gun:
    """What all connections share: the next request, the clock, and the tally."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._order: Iterator[int] = itertools.cycle(range(len(load.shots)))
        self._number = itertools.count()
        self._digits = KEY_LENGTH - len(load.key_prefix)
        self._from = self.until = 0.0
        self.outcome = Outcome()

    def start(self) -> None:
        self._from = time.perf_counter() + self._load.warm_up_s
        self.until = self._from + self._load.seconds

    def next(self) -> tuple[int, Shot, bytes]:
        index = next(self._order)
        shot = self._load.shots[index]
        if not shot.tail:
            return index, shot, shot.head
        key = f"{self._load.key_prefix}{next(self._number):0{self._digits}d}".encode()
        return index, shot, shot.head + key + shot.tail

    def hit(self, index: int, fired_at: float, now: float) -> None:
        self.outcome.answered += 1
        if self._from <= now < self.until:
            self.outcome.latencies.append((index, now - fired_at))


class _Connection(asyncio.Protocol):
    def __init__(self, gun: _Gun) -> None:
        self._gun = gun
        self._head = b""
        self._body_left = 0
        self._index = 0
        self._shot: Shot | None = None
        self._fired_at = 0.0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(WrongAnswer(f"The server closed a connection: {error}."))

    def fire(self) -> None:
        self._index, self._shot, request = self._gun.next()
        self._fired_at = time.perf_counter()
        self._transport.write(request)

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
            self._answered()

    def _check(self, head: bytes) -> int:
        """The length of the body, once status and length are the expected ones."""
        shot = self._shot
        length = int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0] or -1)
        if shot is None or head[9:12] != b"%d" % shot.status or length < 0 or shot.length not in {None, length}:
            wanted = "no answer" if shot is None else f"status {shot.status}, length {shot.length}"
            self.finished.set_exception(WrongAnswer(f"Expected {wanted}, got {head.decode('latin-1')!r}."))
        return length

    def _answered(self) -> None:
        now = time.perf_counter()
        self._gun.hit(self._index, self._fired_at, now)
        if now < self._gun.until:
            self.fire()
        else:
            self.finished.set_result(None)

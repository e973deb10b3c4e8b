"""What receivers saw, on disk: every byte of every request in one file, and one line about each in another."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec


class Exchange(msgspec.Struct):
    """A request and how it ended. Moments are seconds of this machine's monotonic clock, `arrived_unix` excepted."""

    receiver: str
    connection: int
    # Where the request came from: tells which process has sent it.
    peer_port: int
    arrived_s: float
    arrived_unix: float
    # Where its bytes stand in the other file.
    offset: int
    head_length: int
    body_length: int
    # The status that was sent back, and when. None: the sender hung up before, or the receiver is still at it.
    status: int | None = None
    ended_s: float | None = None

    @property
    def acknowledged(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Recorder:
    """Writes as requests come in; the lines follow when all is over."""

    def __init__(self, folder: Path, receiver: str) -> None:
        self._receiver = receiver
        self._lines = folder / f"{receiver}.jsonl"
        self._path = folder / f"{receiver}.bytes"
        self._bytes = self._path.open("wb")
        self._offset = 0
        self.exchanges: list[Exchange] = []

    def add(self, head: bytes, body: bytes, *, connection: int, peer_port: int) -> Exchange:
        exchange = Exchange(
            receiver=self._receiver,
            connection=connection,
            peer_port=peer_port,
            arrived_s=time.monotonic(),
            arrived_unix=time.time(),
            offset=self._offset,
            head_length=len(head),
            body_length=len(body),
        )
        self._bytes.write(head + body)
        self._offset += len(head) + len(body)
        self.exchanges.append(exchange)
        return exchange

    def body_of(self, exchange: Exchange) -> bytes:
        self._bytes.flush()
        with self._path.open("rb") as file:
            file.seek(exchange.offset + exchange.head_length)
            return file.read(exchange.body_length)

    def close(self) -> None:
        self._bytes.close()
        self._lines.write_bytes(msgspec.json.Encoder().encode_lines(self.exchanges))


class Recorded(msgspec.Struct, frozen=True):
    """An exchange as it is read back."""

    exchange: Exchange
    head: bytes
    body: bytes


def read_records(folder: Path, receiver: str) -> Iterator[Recorded]:
    """In order of arrival."""
    exchanges = msgspec.json.Decoder(Exchange).decode_lines((folder / f"{receiver}.jsonl").read_bytes())
    with (folder / f"{receiver}.bytes").open("rb") as file:
        for exchange in exchanges:
            file.seek(exchange.offset)
            yield Recorded(exchange, file.read(exchange.head_length), file.read(exchange.body_length))

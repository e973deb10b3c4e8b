"""How receivers misbehave. `fired` counts it."""

import asyncio
import random
import zlib
from collections.abc import Awaitable, Callable

from chaos.model import NotAsExpected
from chaos.receivers import Behaviour, Call

TRIGGERED_WITHIN_S = 15.0
Fired = Callable[[], None]


def fail_sometimes(rng: random.Random, share: float, fired: Fired) -> Behaviour:
    async def behave(call: Call) -> None:
        if rng.random() < share:
            fired()
            call.respond(500, b"Internal error")
        else:
            call.respond(200)

    return behave


def respond_with(fired: Fired, status: int, body: bytes = b"", *headers: str) -> Behaviour:
    async def behave(call: Call) -> None:
        fired()
        call.respond(status, body, *headers)

    return behave


def gzip_bomb(fired: Fired) -> Behaviour:
    """A few hundred kilobytes that decompress to 200 MB."""
    packer = zlib.compressobj(wbits=31)
    zeros = bytes(1024 * 1024)
    bomb = b"".join([packer.compress(zeros) for _ in range(200)]) + packer.flush()
    return respond_with(fired, 200, bomb, "Content-Encoding: gzip")


def respond_after(seconds: float) -> Behaviour:
    async def behave(call: Call) -> None:
        await asyncio.sleep(seconds)
        if not call.closed.is_set():
            call.respond(200)

    return behave


def hang(fired: Fired) -> Behaviour:
    """Read the request and never respond."""

    async def behave(_: Call) -> None:
        fired()

    return behave


def drip(pause_s: float, fired: Fired) -> Behaviour:
    """A valid response, one byte at a time: it is never complete in time."""

    async def behave(call: Call) -> None:
        fired()
        await _write_slowly(call, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Padding: " + b"x" * 4096, pause_s)

    return behave


def drip_body(pause_s: float, fired: Fired) -> Behaviour:
    """The status at once, which is an acknowledgement; then the body, one byte at a time."""

    async def behave(call: Call) -> None:
        fired()
        call.end(200)
        call.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        await _write_slowly(call, b"x" * 100_000, pause_s)

    return behave


async def _write_slowly(call: Call, raw: bytes, pause_s: float) -> None:
    for byte in raw:
        if call.closed.is_set():
            return
        call.write(bytes([byte]))
        await asyncio.sleep(pause_s)


class Trap:
    """Runs `action` for the first request that arrives. `then` handles the others, if it is given."""

    def __init__(self, action: Callable[[Call], Awaitable[None]], then: Behaviour | None = None) -> None:
        self._action = action
        self._then = then
        self._armed = True
        self._done = asyncio.Event()

    async def behave(self, call: Call) -> None:
        if self._armed:
            self._armed = False
            await self._action(call)
            self._done.set()
        elif self._then is not None:
            await self._then(call)

    async def triggered(self) -> None:
        try:
            async with asyncio.timeout(TRIGGERED_WITHIN_S):
                await self._done.wait()
        except TimeoutError:
            raise NotAsExpected(f"no request arrived within {TRIGGERED_WITHIN_S:g} s") from None

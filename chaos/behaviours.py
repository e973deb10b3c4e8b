"""What receivers do that they should not."""

import asyncio
import random
import zlib
from collections.abc import Callable

from chaos.receivers import Behaviour, Call, accept

TEN_MB = 10 * 1024 * 1024


def fail_sometimes(rng: random.Random, share: float, fired: Callable[[], None]) -> Behaviour:
    async def behave(call: Call) -> None:
        if rng.random() < share:
            fired()
            call.answer(500, b"not today")
        else:
            call.answer(200)

    return behave


def redirect(to: str, fired: Callable[[], None]) -> Behaviour:
    async def behave(call: Call) -> None:
        fired()
        call.answer(301, b"", f"Location: {to}")

    return behave


def answer_after(seconds: float, status: int = 200) -> Behaviour:
    async def behave(call: Call) -> None:
        await asyncio.sleep(seconds)
        if not call.gone.is_set():
            call.answer(status)

    return behave


def hang(fired: Callable[[], None]) -> Behaviour:
    """Read the request and never say a word."""

    async def behave(_: Call) -> None:
        fired()

    return behave


def drip(pause_s: float, fired: Callable[[], None]) -> Behaviour:
    """A good answer, one byte at a time: each arrives in time, the whole never does."""

    async def behave(call: Call) -> None:
        fired()
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Padding: " + b"x" * 4096 + b"\r\n\r\n":
            if call.gone.is_set():
                return
            call.write(bytes([byte]))
            await asyncio.sleep(pause_s)
        call.ends_with(200)

    return behave


def drip_body(pause_s: float, fired: Callable[[], None]) -> Behaviour:
    """The status at once, the rest one byte at a time: an acknowledgement, since the status is what counts."""

    async def behave(call: Call) -> None:
        fired()
        call.ends_with(200)
        call.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not call.gone.is_set():
            call.write(b"x")
            await asyncio.sleep(pause_s)

    return behave


def flood(fired: Callable[[], None]) -> Behaviour:
    """10 MB as the answer."""
    megabytes = b"x" * TEN_MB

    async def behave(call: Call) -> None:
        fired()
        call.answer(200, megabytes)

    return behave


def gzip_bomb(fired: Callable[[], None]) -> Behaviour:
    """Some hundred kilobytes that would unpack to 200 MB."""
    packer = zlib.compressobj(wbits=31)
    zeros = bytes(1024 * 1024)
    bomb = b"".join([packer.compress(zeros) for _ in range(200)]) + packer.flush()

    async def behave(call: Call) -> None:
        fired()
        call.answer(200, bomb, "Content-Encoding: gzip")

    return behave


def at_first(times: int, bad: Behaviour, then: Behaviour = accept) -> Behaviour:
    """`bad` for the first so many requests."""
    left = [times]

    async def behave(call: Call) -> None:
        if left[0] > 0:
            left[0] -= 1
            await bad(call)
        else:
            await then(call)

    return behave

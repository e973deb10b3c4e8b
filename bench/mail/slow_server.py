"""A mail server that takes the same time for every step and keeps nothing. It runs in a process of its own."""

import asyncio
import contextlib
import multiprocessing
import socket
from collections.abc import Iterator
from functools import partial

import uvloop

from tests.support.processes import HOST


@contextlib.contextmanager
def slow_server(step_s: float) -> Iterator[str]:
    """The address of a server that listens."""
    with socket.create_server((HOST, 0), backlog=128) as listener:
        process = multiprocessing.get_context("spawn").Process(target=_run, args=(listener, step_s), daemon=True)
        process.start()
        try:
            yield f"smtp://{HOST}:{listener.getsockname()[1]}"
        finally:
            process.kill()
            process.join()


def _run(listener: socket.socket, step_s: float) -> None:
    uvloop.run(_serve(listener, step_s))


async def _serve(listener: socket.socket, step_s: float) -> None:
    server = await asyncio.start_server(partial(_converse, step_s), sock=listener)
    await server.serve_forever()


async def _converse(step_s: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def answer(line: bytes) -> None:
        await asyncio.sleep(step_s)
        writer.write(line + b"\r\n")

    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        await answer(b"220 ready")
        while line := await reader.readline():
            if line[:4].upper() == b"DATA":
                await answer(b"354 go on")
                await reader.readuntil(b"\r\n.\r\n")
            await answer(b"221 bye" if line[:4].upper() == b"QUIT" else b"250 OK")
    writer.close()

"""Runs a function that computes in Python for long in a process of its own.

A thread would not help: it holds the interpreter for 5 ms at a time, and every step of the event loop waits for that.
The function and its arguments are pickled, so the function is found by its name, and the process imports only what it
needs. If the process dies, `OffloadFailed` is raised; if the caller is cancelled, the process is killed.
"""

import asyncio
import os
import pickle
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

from tonne.platform.process.progress import Advance, shown_by

P = ParamSpec("P")
T = TypeVar("T")
# Gets the label of what is being done, and how much of how much is done.
OnProgress = Callable[[str, int, int], Awaitable[object]]
REPORT_EVERY_S = 0.5
_SIZE = struct.Struct(">Q")


class OffloadFailed(Exception):
    """The process died, for example because it was killed or had no memory left."""


async def offload(on_progress: OnProgress, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the function returns or raises. What it reports with `progress` is passed on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    task, answer = cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout)
    try:
        task.write(pickle.dumps((function, args, kwargs)))
        task.write_eof()
        while True:
            (size,) = _SIZE.unpack(await answer.readexactly(_SIZE.size))
            kind, value = pickle.loads(await answer.readexactly(size))  # noqa: S301 - of our own process
            if kind == "progress":
                await on_progress(*value)
            elif kind == "error":
                raise value
            else:
                return value  # type: ignore[no-any-return]
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise OffloadFailed(f"the process of {function.__name__} ended early") from error
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _run() -> None:
    """The other process. What its libraries print goes to standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(kind: str, value: Any) -> None:
        message = pickle.dumps((kind, value))
        out.write(_SIZE.pack(len(message)) + message)
        out.flush()

    @contextmanager
    def open_bar(label: str, total: int) -> Iterator[Advance]:
        done, due_at = 0, 0.0

        def advance(steps: int) -> None:
            nonlocal done, due_at
            done += steps
            if time.monotonic() >= due_at:
                due_at = time.monotonic() + REPORT_EVERY_S
                send("progress", (label, done, total))

        yield advance

    function, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
    try:
        with shown_by(open_bar):
            result = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - raised in the process that called
        send("error", error)
    else:
        send("result", result)


if __name__ == "__main__":
    _run()

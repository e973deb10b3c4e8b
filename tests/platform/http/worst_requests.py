"""Sends requests to the application, and measures the longest step of the event loop."""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tonne.platform.http.asgi import AsgiApp

MAX_STEP_S = 0.020


class Steps:
    """The longest uninterrupted piece of work on the event loop, in CPU time of its thread."""

    longest_s = 0.0


@contextmanager
def measured_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    steps, run = Steps(), asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        run(handle)
        steps.longest_s = max(steps.longest_s, time.thread_time() - started)

    # The garbage of thousands of tests is not the cost of a request.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.Handle, "_run", timed)
            yield steps
    finally:
        gc.enable()
        gc.unfreeze()


class Sender:
    """Calls the application directly, so that no step contains the work of a client."""

    def __init__(self, app: AsgiApp, key: str, steps: Steps) -> None:
        self._app, self._key, self._steps = app, key, steps
        self.sent = 0
        # The length of the last response.
        self.received = 0
        self.slow: list[str] = []

    async def send(
        self, what: str, method: str, path: str, *, body: bytes = b"", query: bytes = b"", **more: bytes
    ) -> int:
        """The best of eight, if the first one took too long: other programs may have used the caches of the core."""
        status = 0
        for _ in range(8):
            self._steps.longest_s = 0.0
            status = await asyncio.create_task(self._call(method, path, body, query, more))
            self.sent += 1
            if self._steps.longest_s <= MAX_STEP_S:
                return status
        self.slow.append(f"{what}: {self._steps.longest_s * 1000:.0f} ms")
        return status

    async def _call(self, method: str, path: str, body: bytes, query: bytes, more: dict[str, bytes]) -> int:
        headers = {b"authorization": b"Bearer " + self._key.encode(), b"content-type": b"application/json"}
        headers |= {name.replace("_", "-").encode(): value for name, value in more.items()}
        headers[b"content-length"] = str(len(body)).encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [(b"host", b"tonne.test"), *headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("tonne.test", 80),
        }
        statuses: list[int] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                self.received = 0
            else:
                self.received += len(message["body"])

        await self._app(scope, receive, send)
        return statuses[0]

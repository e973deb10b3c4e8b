"""What the network does to requests to a registry, and to their answers: it loses, delays and doubles them."""

import asyncio
import contextlib
import json
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

from aiohttp import web

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fault(StrEnum):
    LOST = "lost"
    ANSWER_LOST = "answer lost"
    # The connection breaks, and the request arrives nevertheless.
    LATE = "late"
    DOUBLED = "doubled"
    REFUSED = "refused"
    # With or without an effect.
    TIMED_OUT = "timed out"


@web.middleware
async def _compress(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """As servers of registries do, if the client accepts it."""
    response = await handler(request)
    response.enable_compression()
    return response


class Network:
    """`script` are the faults of the next requests of a method; then each fault has the same share of the method's
    `probability`.

    `patience_s` is how long the other side waits for an answer.
    """

    def __init__(
        self,
        rng: random.Random | None = None,
        *,
        probability: Mapping[str, float] | None = None,
        patience_s: float = 0.5,
        late_s: float = 0.2,
    ) -> None:
        self.requests: list[tuple[str, str]] = []
        # Requests, and answers of ours, that are not what the interface of the registry says.
        self.breaches: list[str] = []
        self.script: dict[str, deque[Fault | None]] = {"GET": deque(), "POST": deque()}
        self.probability = probability or {}
        # What a refusal answers.
        self.refusals: Sequence[int] = (401, 429, 503)
        self._rng = rng or random.Random(1)  # noqa: S311 - not a secret
        self._patience_s = patience_s
        self._late_s = late_s
        self._under_way: set[asyncio.Task[None]] = set()

    def require(self, condition: bool, breach: str) -> None:
        """What a request must be like. A registry refuses others; a server that fails would be asked again."""
        if not condition:
            self.note_breach(breach)
            text = json.dumps({"detail": [{"loc": ["body"], "msg": breach, "type": "value_error"}]})
            raise web.HTTPUnprocessableEntity(text=text, content_type="application/json")

    def note_breach(self, breach: str) -> None:
        self.breaches.append(breach)

    def choose(self, method: str) -> Fault | None:
        fault = None
        if self.script[method]:
            fault = self.script[method].popleft()
        elif self._rng.random() < self.probability.get(method, 0):
            fault = self._rng.choice(list(Fault))
        return fault

    @web.middleware
    async def between(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        await request.read()
        self.requests.append((request.method, request.path))
        match self.choose(request.method):
            case None:
                return await handler(request)
            case Fault.REFUSED:
                return web.json_response({"detail": "Not now."}, status=self._rng.choice(self.refusals))
            case Fault.DOUBLED:
                self._later(request, handler)
                return await handler(request)
            case Fault.LATE:
                self._later(request, handler)
            case Fault.ANSWER_LOST:
                await handler(request)
            case Fault.TIMED_OUT:
                if self._rng.random() < 0.5:
                    await handler(request)
                await asyncio.sleep(2 * self._patience_s)
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def settle(self) -> None:
        """Wait until everything has arrived."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _later(self, request: web.Request, handler: _Handler) -> None:
        async def arrive() -> None:
            await asyncio.sleep(self._rng.uniform(0, 2 * self._late_s))
            # Nobody reads what comes of it.
            with contextlib.suppress(web.HTTPException):
                await handler(request)

        task = asyncio.create_task(arrive())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    @contextlib.asynccontextmanager
    async def serving(self, routes: Sequence[web.RouteDef], port: int = 0) -> AsyncIterator[str]:
        """The address of a server on loopback."""
        app = web.Application(middlewares=[_compress, self.between])
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await self.settle()
            await runner.cleanup()

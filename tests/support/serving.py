"""The application of a test behind a real HTTP server, in this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server as Granian

from tonne.apps.wiring.app import Services, build_app


@contextlib.asynccontextmanager
async def serving(services: Services) -> AsyncIterator[str]:
    """Its URL, at the port of its settings."""
    granian = Granian(
        build_app(services),
        port=services.settings.port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        log_enabled=False,
    )
    task = asyncio.create_task(granian.serve())
    url = f"http://127.0.0.1:{services.settings.port}"
    await _wait_until_ready(url)
    yield url
    granian.stop()  # type: ignore[no-untyped-call]
    await task


async def _wait_until_ready(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client, asyncio.timeout(30):
        while True:
            with contextlib.suppress(httpx.TransportError):
                if (await client.get("/health/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.01)

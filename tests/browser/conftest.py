"""A real Chromium against a real server with its worker: one browser per test process, one site per test.

All of it runs on one event loop for the whole session, since a browser belongs to the loop that started it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect
from pytest_asyncio import is_async_test

from tests.browser.chromium import FLAGS, MISSING, find_chromium
from tests.browser.visit import PATIENCE_MS, Visit
from tests.conftest import POPULATED, Server
from tests.support.api_client import ApiClient
from tests.support.processes import free_port
from tests.support.serving import serving
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.events.notification import listen
from tonne.platform.jobs.loop import Job, RunOnce, run_jobs, wake_jobs
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace

HERE = Path(__file__).parent
on_one_loop = pytest_asyncio.fixture(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = await asyncio.to_thread(find_chromium)
    assert path is not None, MISSING
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield chromium
        await chromium.close()


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """With the public URL of the server that is about to start."""
    port = free_port()
    return msgspec.structs.replace(
        settings, port=port, public_url=f"http://127.0.0.1:{port}", data_dir=str(tmp_path), worker_poll_s=0.25
    )


@on_one_loop
async def populated_db(server: Server, settings: Settings) -> AsyncIterator[Database]:
    async with server.open(POPULATED, settings) as database:
        yield database


class SiteWorker:
    """The jobs of the site, which a test can pause while it does their work, or looks at what waits for them."""

    def __init__(self, jobs: list[Job]) -> None:
        self._locks = {job.name: asyncio.Lock() for job in jobs}
        self.jobs = [replace(job, run_once=partial(self._run, self._locks[job.name], job.run_once)) for job in jobs]

    @staticmethod
    async def _run(lock: asyncio.Lock, run_once: RunOnce) -> bool:
        async with lock:
            return await run_once()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Waits for what is under way: a job that has leased rows would hide them from the test."""
        async with AsyncExitStack() as stack:
            for lock in self._locks.values():
                await stack.enter_async_context(lock)
            yield


@pytest.fixture
def worker(services: Services) -> SiteWorker:
    return SiteWorker(services.jobs())


@on_one_loop
async def site(services: Services, settings: Settings, worker: SiteWorker) -> AsyncIterator[str]:
    """The URL of an API with a worker and its own database."""
    stop = asyncio.Event()
    wake = partial(wake_jobs, worker.jobs)
    async with serving(services):
        working = [
            asyncio.create_task(run_jobs(worker.jobs, stop, settings.worker_poll_s)),
            asyncio.create_task(listen(services.database._url, services.settings, wake, stop)),
        ]
        # The pages compare it with the address in the browser.
        yield settings.base_url
        stop.set()
        await asyncio.gather(*working)


@on_one_loop
async def api(site: str, world: World) -> AsyncIterator[ApiClient]:
    """An API client of `ours` in test mode."""
    async with httpx.AsyncClient(base_url=site, timeout=30) as client:
        yield ApiClient(client, world.ours_test.key)


@on_one_loop
async def visit(browser: Browser, site: str, worker: SiteWorker) -> AsyncIterator[Visit]:
    """Opens pages in the browser, and fails the test if any error occurred."""
    visit = Visit(browser, site, worker.paused)
    yield visit
    await visit.close()
    assert visit.troubles == []

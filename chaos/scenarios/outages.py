"""The database or the api goes away under load: what was answered with 2xx is there afterwards, once, and arrives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from chaos.behaviours import fail_sometimes
from chaos.scenarios.scenario import Scenario
from chaos.scene import Organisation, Scene

OUTAGES = 3
ORGANISATIONS = 3


@contextlib.asynccontextmanager
async def _load(scene: Scene) -> AsyncIterator[None]:
    """Orders come in over HTTP all the time, from clients that send again, with the same key, what found no answer."""
    counted = scene.faults.announce("order requests that failed and were sent again")
    failing = scene.faults.announce("answered with 500")
    organisations = []
    for number in range(ORGANISATIONS):
        organisations.append(await scene.open_organisation())
        receiver = await scene.receiver(f"receiver-{number}", fail_sometimes(scene.rng, 0.1, failing))
        await scene.register(organisations[-1], receiver)
    for _ in range(2):
        scene.start_worker()

    async def all_receive() -> bool:
        return all(receiver.exchanges for receiver in scene.receivers)

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as clients:
        for organisation in organisations:
            clients.create_task(_order_until(stop, scene, organisation))
        await scene.until(all_receive, "all receivers get events", 30)
        try:
            yield
            await asyncio.sleep(1.0)
        finally:
            stop.set()
    for _ in range(scene.failed_requests):
        counted()
    scene.note(f"{len(scene.placed)} orders")


async def _order_until(stop: asyncio.Event, scene: Scene, organisation: Organisation) -> None:
    while not stop.is_set():
        await scene.place(organisation, 5, at_once=2)


async def postgres_restarted(scene: Scene) -> None:
    scene.trouble_in_logs_is_meant = True
    fired = scene.faults.announce("PostgreSQL restarted hard", OUTAGES)
    async with _load(scene):
        for _ in range(OUTAGES):
            await asyncio.sleep(scene.rng.uniform(1.5, 3.0))
            await scene.postgres.stop_hard()
            await asyncio.sleep(scene.rng.uniform(0.0, 1.0))
            await scene.postgres.start()
            fired()
    await scene.until_delivered(60)


async def api_killed(scene: Scene) -> None:
    fired = scene.faults.announce("api killed", OUTAGES)
    async with _load(scene):
        for _ in range(OUTAGES):
            await asyncio.sleep(scene.rng.uniform(0.5, 1.0))
            if scene.api is not None:
                scene.api.kill()
                fired()
            await scene.start_api()
    await scene.until_delivered(30)


SCENARIOS = (
    Scenario("postgres-restarted", postgres_restarted, within_s=120),
    Scenario("api-killed", api_killed),
)

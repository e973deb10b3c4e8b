"""PostgreSQL stopped hard under load, and started again."""

import asyncio

from chaos.behaviours import fail_sometimes
from chaos.scenarios.scenario import Scenario
from chaos.scene import Organisation, Scene

RESTARTS = 3


async def restarted_hard(scene: Scene) -> None:
    """Orders come in over HTTP all the time; what was answered with 2xx is there afterwards, and arrives."""
    scene.trouble_in_logs_is_meant = True
    restarted = scene.faults.announce("PostgreSQL restarted hard", RESTARTS)
    counted = scene.faults.announce("order requests that failed and were sent again")
    failing = scene.faults.announce("answered with 500")
    organisations = []
    for number in range(3):
        organisation = await scene.open_organisation()
        behaviour = fail_sometimes(scene.rng, 0.1, failing)
        await scene.register(organisation, await scene.receiver(f"receiver-{number}", behaviour))
        organisations.append(organisation)
    for _ in range(2):
        scene.start_worker()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as load:
        for organisation in organisations:
            load.create_task(_order_until(stop, scene, organisation))
        for _ in range(RESTARTS):
            await asyncio.sleep(scene.rng.uniform(1.5, 3.0))
            await scene.postgres.stop_hard()
            await asyncio.sleep(scene.rng.uniform(0.0, 1.0))
            await scene.postgres.start()
            restarted()
        await asyncio.sleep(1.0)
        stop.set()
    for _ in range(scene.failed_requests):
        counted()
    scene.note(f"{len(scene.placed)} orders")
    await scene.until_delivered(60)


async def _order_until(stop: asyncio.Event, scene: Scene, organisation: Organisation) -> None:
    while not stop.is_set():
        await scene.place(organisation, 5, at_once=2)


SCENARIOS = (Scenario("postgres-restarted", restarted_hard, within_s=120),)

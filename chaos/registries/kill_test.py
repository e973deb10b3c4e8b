"""Retirements over a network that loses, delays, doubles, refuses and times out, while workers are killed."""

import asyncio
import os

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.life.buyers import short_leases
from chaos.registries.books import compare_books
from chaos.registries.scene import CODES, LOT_UNITS, RegistryScene, registry_scene, serial_of
from chaos.scenario import scenario
from tests.support.registries.network import Fault
from tonne_verify.serials.parse import parse

WORKERS = 4
FAULTS = int(os.environ.get("CHAOS_REGISTRY_FAULTS", "10000"))
FAULTS_PER_KILL = 50
SHORT_FAULTS = 300
PROBABILITY = 0.3
# Orders that wait for the registry, so that it always has work.
AHEAD = 16
SETTINGS = {**SHORT_TIMES, "payment_time_scale": "0.0001"}

UNFINISHED = """
SELECT format('order %s is %s', id, status) AS what FROM orders WHERE mode = 'live' AND status <> 'complete'
UNION ALL
SELECT format('request %s is %s: %s', id, state, problem) FROM registry_instructions WHERE closed_at IS NULL
"""
OPEN_ORDERS = "SELECT count(*) FROM orders WHERE mode = 'live' AND status <> 'complete'"
PAUSED = "SELECT format('lot %s: %s', id, pause_reason) FROM lots WHERE paused_at IS NOT NULL"
# A registry that fails is asked again at once, not after a minute.
LOOK_NOW = "UPDATE registry_accounts SET next_look_at = '-infinity', stopped_at = NULL, failures = 0"
CONNECTED = "SELECT count(*) = $1 FROM lots WHERE mode = 'live' AND registry_account = 'isometric'"


@scenario("registry-faults", within_s=850, settings=SETTINGS, family="registries", api=False)
async def registry_faults(cluster: Cluster) -> None:
    """10,000 faults, of which 200 are SIGKILL of a worker. `CHAOS_REGISTRY_FAULTS` is another number."""
    await _retire_through_faults(cluster, FAULTS)


@scenario("some-registry-faults", within_s=300, settings=SETTINGS, family="registries-short", api=False)
async def some_registry_faults(cluster: Cluster) -> None:
    await _retire_through_faults(cluster, SHORT_FAULTS)


async def _retire_through_faults(cluster: Cluster, faults: int) -> None:
    kills = faults // FAULTS_PER_KILL
    killed = cluster.announce("worker killed", kills)
    kinds = {kind: cluster.announce(str(kind), faults // 20) for kind in Fault}
    async with registry_scene(cluster) as scene:
        network = scene.network
        cluster.start_worker()
        await cluster.until(lambda: _is_connected(cluster), "all lots are connected", 60, every_s=1)
        for _ in range(WORKERS - 1):
            cluster.start_worker()
        network.probability = PROBABILITY
        async with short_leases(cluster), asyncio.TaskGroup() as tasks:
            buying = tasks.create_task(_buy(cluster, scene))
            while (count := killed.count + network.counts.total()) < faults or killed.count < kills:
                if killed.count < kills and network.counts.total() >= (killed.count + 1) * (FAULTS_PER_KILL - 1):
                    await _kill_one(cluster)
                    killed()
                await asyncio.sleep(0.05 if count else 0.2)
            buying.cancel()
        for kind, fault in kinds.items():
            fault(network.counts[kind])
        network.probability = 0
        async with short_leases(cluster):
            await cluster.until_empty("every credit was retired", UNFINISHED, 150)
        await network.settle()
        codes = await _codes(scene)
        units = await compare_books(cluster, scene.books, codes, LOT_UNITS)
        paused = await cluster.fetch(PAUSED)
        cluster.require(not paused, f"lots are paused: {[row[0] for row in paused[:3]]}")
        total = killed.count + network.counts.total()
        cluster.notes.append(f"{total} faults, {len(cluster.placed)} orders, {units} units retired, {WORKERS} workers")


async def _is_connected(cluster: Cluster) -> bool:
    await cluster.execute(LOOK_NOW)
    return bool(await cluster.fetchval(CONNECTED, len(CODES)))


async def _buy(cluster: Cluster, scene: RegistryScene) -> None:
    while True:
        # The registry is compared all the time, and must not be found to differ.
        await cluster.execute(LOOK_NOW)
        if (missing := AHEAD - await cluster.fetchval(OPEN_ORDERS)) > 0:
            await scene.buy(missing)
        await asyncio.sleep(0.2)


async def _kill_one(cluster: Cluster) -> None:
    running = [worker for worker in cluster.workers if worker.running]
    await asyncio.to_thread(cluster.rng.choice(running).kill)
    cluster.start_worker()


async def _codes(scene: RegistryScene) -> dict[str, str]:
    """The project of each lot at the registry."""
    namespaces = {parse("Isometric", serial_of(code)).namespace: code for code in CODES}
    return {id_: namespaces[units.namespace] for id_, units in scene.registry.lots.items()}

"""Retirements over a network that loses, delays, doubles, refuses and times out, while every process is killed."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import asyncpg

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.life.buyers import short_leases
from chaos.registries.scene import CODES, RegistryScene, registry_scene
from chaos.scenario import scenario
from tests.support.registries.network import Fault

WORKERS = 4
FAULTS = int(os.environ.get("CHAOS_REGISTRY_FAULTS", "10000"))
SHORT_FAULTS = 300
FAULTS_PER_KILL = 50
# Beside these: without a checkpoint, like a power failure.
FAULTS_PER_STOP = 1000
# How often each is the one that is killed.
VICTIMS = {"worker": 6, "registry": 2, "api": 1}
# What is lost or doubled matters for requests to retire. Most requests only read.
PROBABILITY = {"GET": 0.05, "POST": 0.6}
# Orders that wait for a registry, so that it always has work.
AHEAD = 32
SETTINGS = {**SHORT_TIMES, "payment_time_scale": "0.0001"}

UNFINISHED = """
SELECT format('order %s is %s', id, status) AS what FROM orders WHERE status <> 'complete'
UNION ALL
SELECT format('request %s of %s is %s: %s', id, registry_account, state, problem)
FROM registry_instructions WHERE closed_at IS NULL
"""
OPEN_ORDERS = "SELECT count(*) FROM orders WHERE status <> 'complete'"
PAUSED = "SELECT format('lot %s: %s', id, pause_reason) FROM lots WHERE paused_at IS NOT NULL"
# A registry that fails is looked at again at once, not after a minute. What works then is asked again.
LOOK_NOW = """
UPDATE registry_accounts SET next_look_at = '-infinity'
WHERE id IN (SELECT id FROM registry_accounts FOR UPDATE SKIP LOCKED)
"""
STOPPED = "SELECT count(*) FROM audit_log WHERE action = 'registry_account.stopped'"
CONNECTED = "SELECT count(*) = $1 FROM lots WHERE mode = 'live' AND registry_account IN ('isometric', 'puro')"
COMPARED = "SELECT bool_and(looked_at > $1) FROM registry_accounts"
NOW = "SELECT clock_timestamp()"
_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


@scenario("registry-faults", within_s=2400, settings=SETTINGS, api=False)
async def registry_faults(cluster: Cluster) -> None:
    """10,000 faults, of which 200 are SIGKILL. `CHAOS_REGISTRY_FAULTS` is another number."""
    await _KillTest(cluster, FAULTS).run()


@scenario("some-registry-faults", within_s=900, settings=SETTINGS, family="registries-short", api=False)
async def some_registry_faults(cluster: Cluster) -> None:
    await _KillTest(cluster, SHORT_FAULTS).run()


class _KillTest:
    def __init__(self, cluster: Cluster, faults: int) -> None:
        self._cluster = cluster
        self._faults = faults
        kills = faults // FAULTS_PER_KILL
        self._victims = [name for name, weight in VICTIMS.items() for _ in range(weight)]
        self._killed = {name: cluster.announce(f"{name} killed", kills // 20) for name in VICTIMS}
        self._stopped = cluster.announce("database stopped", faults // FAULTS_PER_STOP)
        self._of_posts = {kind: cluster.announce(f"POST {kind}", faults // 20) for kind in Fault}
        self._of_gets = {kind: cluster.announce(f"GET {kind}", faults // 200) for kind in Fault}
        self._breaker = cluster.announce("account stopped", faults // 600)
        self._is_buying = True
        # A database that stops fails what jobs do.
        cluster.log_errors_expected = self._stopped.at_least > 0

    @property
    def _kills(self) -> int:
        return sum(killed.count for killed in self._killed.values())

    async def run(self) -> None:
        cluster = self._cluster
        async with registry_scene(cluster) as scene, self._looking():
            cluster.start_worker()
            await cluster.until_true("all lots are connected", CONNECTED, len(CODES), within_s=90)
            await scene.start_servers(PROBABILITY)
            async with short_leases(cluster), asyncio.TaskGroup() as tasks:
                tasks.create_task(self._buy(scene))
                await self._inject(scene)
                self._is_buying = False
            # Requests that are under way to the registries are lost with these.
            await scene.start_servers({})
            self._start_workers()
            async with short_leases(cluster):
                await cluster.until_empty("every credit was retired", UNFINISHED, 600)
            await self._compare(scene)

    async def _inject(self, scene: RegistryScene) -> None:
        """Until there were enough faults of all kinds together."""
        while True:
            self._start_workers()
            total = self._count(scene)
            if total >= (self._kills + 1) * FAULTS_PER_KILL:
                await self._kill_one(scene)
            elif total >= (self._stopped.count + 1) * FAULTS_PER_STOP:
                await self._cluster.restart_postgres(max_pause_s=1)
                self._stopped()
            elif total >= self._faults:
                return
            else:
                await asyncio.sleep(0.1)

    def _count(self, scene: RegistryScene) -> int:
        """All faults so far."""
        counts = scene.count()
        for method, faults in (("POST", self._of_posts), ("GET", self._of_gets)):
            for kind, fault in faults.items():
                fault.count = counts[method, kind]
        return counts.total() + self._kills + self._stopped.count

    def _start_workers(self) -> None:
        """Like a supervisor: also those that found no database when they started."""
        for _ in range(WORKERS - sum(worker.running for worker in self._cluster.workers)):
            self._cluster.start_worker()

    async def _kill_one(self, scene: RegistryScene) -> None:
        cluster = self._cluster
        match victim := cluster.rng.choice(self._victims):
            case "registry":
                await asyncio.to_thread(scene.kill_servers)
                await scene.start_servers()
            case "api":
                assert cluster.api is not None
                await asyncio.to_thread(cluster.api.kill)
                await cluster.start_api()
            case _:
                running = [worker for worker in cluster.workers if worker.running]
                await asyncio.to_thread(cluster.rng.choice(running).kill)
        self._killed[victim]()

    async def _buy(self, scene: RegistryScene) -> None:
        """Each order gets its answer, so that all are known in the end."""
        while self._is_buying:
            missing = 0
            with contextlib.suppress(*_UNREACHABLE):
                missing = AHEAD - await self._cluster.fetchval(OPEN_ORDERS)
            await scene.buy(max(0, missing))
            await asyncio.sleep(0.5)

    async def _compare(self, scene: RegistryScene) -> None:
        """Also as the service compares: it must find no difference."""
        cluster = self._cluster
        finished = await cluster.fetchval(NOW)
        await cluster.until_true("all accounts were compared", COMPARED, finished, within_s=120)
        retired = await scene.compare()
        paused = await cluster.fetch(PAUSED)
        cluster.require(not paused, f"lots are paused: {[row[0] for row in paused[:3]]}")
        total, posts = self._count(scene), sum(fault.count for fault in self._of_posts.values())
        self._breaker.count = await cluster.fetchval(STOPPED)
        cluster.require(posts >= self._faults // 2, f"only {posts} faults of requests to retire")
        units = ", ".join(f"{count} of {account}" for account, count in retired.items())
        cluster.notes.append(
            f"{total} faults, {posts} of POST, {self._kills} SIGKILL, {len(cluster.placed)} orders, {WORKERS} workers"
        )
        cluster.notes.append(f"units retired: {units}")
        cluster.require(all(retired.values()), f"an account has retired nothing: {units}")

    @contextlib.asynccontextmanager
    async def _looking(self) -> AsyncIterator[None]:
        """The registries are compared all the time, and must not be found to differ."""

        async def look() -> None:
            while True:
                with contextlib.suppress(*_UNREACHABLE):
                    await self._cluster.execute(LOOK_NOW)
                await asyncio.sleep(1)

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()

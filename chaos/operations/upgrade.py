"""An upgrade under load: migrate, restart every process with the new release, and go back to the old one."""

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.model import Hook, NotAsExpected
from chaos.scenario import scenario
from tests.support.processes import HOST, ROOT, Process, free_port
from tonne.platform.db.schema.migration_files import all_migrations
from tonne.platform.values.context import new_id

# The commit of the old release. Until there is a release, it is this one: the schema is still changed in place.
OLD_COMMIT = os.environ.get("CHAOS_OLD_RELEASE", "")
CLIENTS = 4
CHECK_EVERY_S = 0.1
DRAIN_S = 1.0
MAX_LOCK_WAIT_S = 1.0
REPORT_S = 2.0
# The migrations of the new release: a column, an index, a backfill in batches, and the index of what it filled.
MIGRATIONS = (
    (
        "column",
        "",
        "ALTER TABLE orders ADD COLUMN chaos_size text; ALTER TABLE orders ALTER COLUMN chaos_size SET DEFAULT 'small'",
    ),
    (
        "index",
        "-- transaction: none\n",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS chaos_created ON orders (created_at, id)",
    ),
    (
        "backfill",
        "-- transaction: none\n",
        """-- repeat until it changes no row
        UPDATE orders SET chaos_size = 'large'
        WHERE (account_id, id) IN (SELECT account_id, id FROM orders WHERE chaos_size IS NULL LIMIT 50);
        CREATE INDEX CONCURRENTLY IF NOT EXISTS chaos_sizes ON orders (chaos_size)""",
    ),
)
LONGEST_WAIT = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8
FROM pg_locks WHERE NOT granted AND locktype = 'relation'
"""


class Release:
    """A folder with the source of a release."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.source = folder / name / "src"

    @property
    def wrapper(self) -> tuple[str, ...]:
        return ("env", f"PYTHONPATH={self.source}")


def old_release(folder: Path) -> Release:
    """This one, or a commit whose schema this one can migrate."""
    release = Release("old", folder)
    if not OLD_COMMIT:
        shutil.copytree(ROOT / "src", release.source, ignore=shutil.ignore_patterns("__pycache__"))
        return release
    release.source.parent.mkdir()
    archive = subprocess.run(["git", "archive", OLD_COMMIT, "src"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=release.source.parent, input=archive.stdout, check=True)
    return release


def new_release(folder: Path) -> Release:
    """This one with further migrations, which the old one can run on."""
    release = Release("new", folder)
    shutil.copytree(ROOT / "src", release.source, ignore=shutil.ignore_patterns("__pycache__"))
    last = all_migrations()[-1].version
    for number, (name, header, sql) in enumerate(MIGRATIONS, last + 1):
        file = release.source / f"tonne/platform/db/schema/migrations/{number:04}_{name}.sql"
        file.write_text(f"-- compatible_from: {last}\n{header}{sql};\n", encoding="utf-8")
    return release


class Server:
    """One of several apis. Clients use it while it is ready, as a load balancer does."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self.port = free_port()
        self.is_ready = False
        self._process: Process | None = None

    async def start(self, release: Release) -> None:
        settings = self._cluster.settings | {"port": self.port, "drain_s": DRAIN_S}
        self._process = run(self._cluster, release, f"{self._name}.log", "api", "--stop-with-parent", settings=settings)
        self._cluster.supports.append(self._process)
        await asyncio.to_thread(self._process.wait_until_ready, self.port, 60.0)

    async def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        code = await asyncio.to_thread(self._process.wait, 30.0)
        self._cluster.require(code == 0, f"the api ended with {code} after SIGTERM")

    async def watch(self) -> None:
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(f"http://{HOST}:{self.port}", timeout=timeout) as http:
            while True:
                try:
                    async with http.get("/health/ready") as response:
                        self.is_ready = response.status == 200
                except (aiohttp.ClientError, TimeoutError):
                    self.is_ready = False
                await asyncio.sleep(CHECK_EVERY_S)


def run(
    cluster: Cluster, release: Release, log: str, *words: str, settings: dict[str, object] | None = None
) -> Process:
    chosen = cluster.settings if settings is None else settings
    return Process("tonne", *words, settings=chosen, log=cluster.folder / log, wrapper=release.wrapper)


class Clients:
    """They send requests without a pause, keep their connections open, and never repeat a request."""

    def __init__(self, cluster: Cluster, hook: Hook, servers: list[Server]) -> None:
        self._cluster = cluster
        self._hook = hook
        self._servers = servers
        self.requests = 0
        self.slowest_s = 0.0

    async def run_one(self) -> None:
        headers = {"Authorization": f"Bearer {self._hook.organisation.key}"}
        async with contextlib.AsyncExitStack() as stack:
            sessions = {}
            for server in self._servers:
                session = aiohttp.ClientSession(f"http://{HOST}:{server.port}", headers=headers)
                sessions[server] = await stack.enter_async_context(session)
            for turn in itertools.count():
                ready = [server for server in self._servers if server.is_ready]
                if not ready:
                    self._cluster.problems.append("no api was ready")
                    await asyncio.sleep(CHECK_EVERY_S)
                    continue
                await self._send(sessions[self._cluster.rng.choice(ready)], turn)

    async def _send(self, session: aiohttp.ClientSession, turn: int) -> None:
        started = time.monotonic()
        try:
            if turn % 3 == 0:
                await self._read(session)
            else:
                await self._order(session)
        except (aiohttp.ClientError, TimeoutError, NotAsExpected) as error:
            self._cluster.problems.append(f"a request failed: {error!r}")
        self.requests += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)

    async def _read(self, session: aiohttp.ClientSession) -> None:
        async with session.get("/v1/orders?limit=20") as response:
            await self._require(response, 200)

    async def _order(self, session: aiohttp.ClientSession) -> None:
        key = new_id("key")
        body = {"mass": {"amount": "100", "unit": "kg"}, "idempotency_key": key}
        async with session.post("/v1/orders/by-mass", json=body) as response:
            await self._require(response, 201)
            self._cluster.placed[self._hook.organisation.scopes[0].account_id, key] = (await response.json())["id"]

    async def _require(self, response: aiohttp.ClientResponse, status: int) -> None:
        text = await response.text()
        if response.status != status:
            raise NotAsExpected(f"{response.status} instead of {status}: {text[:200]}")


class LockWaits:
    """The longest time that a statement waited for a lock on a table."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self, cluster: Cluster) -> None:
        async with cluster.connection() as connection:
            while True:
                self.longest_s = max(self.longest_s, await connection.fetchval(LONGEST_WAIT))
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def in_background(*tasks: asyncio.Task[None]) -> AsyncIterator[None]:
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@scenario("upgrade-and-back", within_s=300, settings=SHORT_TIMES, family="upgrades")
async def upgrade_and_back(cluster: Cluster) -> None:
    """Migrations, restarts and the way back fail no request, and no lock on a table is waited for longer than 1 s."""
    retried = cluster.announce("migration tried again because a report used its table")
    killed = cluster.announce("`tonne migrate` killed while it built an index")
    restarted = cluster.announce("servers and workers restarted under load", 6)
    old, new = old_release(cluster.folder), new_release(cluster.folder)
    hook = await cluster.open_hook("receiver", accounts=1)
    assert cluster.api is not None
    await asyncio.to_thread(cluster.api.stop)
    servers = [Server(cluster, name) for name in ("first", "second")]
    for server in servers:
        await server.start(old)
    cluster.workers.append(run(cluster, old, "worker-old.log", "worker", "--stop-with-parent"))
    clients, waits = Clients(cluster, hook, servers), LockWaits()
    watching = [asyncio.create_task(server.watch()) for server in servers]
    await cluster.until(lambda: all(server.is_ready for server in servers), "both servers are ready")
    sending = [asyncio.create_task(clients.run_one()) for _ in range(CLIENTS)]
    async with in_background(*watching, *sending, asyncio.create_task(waits.watch(cluster))):
        retried(await _migrate_beside_a_report(cluster, new))
        killed(await _kill_while_building(cluster, new))
        await _migrate(cluster, new)
        migrated_s, migrated = waits.longest_s, clients.requests
        for release in (new, old):
            restarted(await _restart_all(cluster, servers, release))
        cluster.require("Nothing to do" in await _migrate(cluster, old), "the old release does not accept the schema")
    cluster.notes.append(
        f"{clients.requests} requests, {migrated} of them during the migrations; slowest {clients.slowest_s:.2f} s; "
        f"longest wait for a table {migrated_s:.2f} s during the migrations, {waits.longest_s:.2f} s in all"
    )
    longest_s = waits.longest_s
    cluster.require(longest_s < MAX_LOCK_WAIT_S, f"a statement waited {longest_s:.2f} s for a lock on a table")
    left = await cluster.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid")
    cluster.require(left == 0, f"{left} indexes are not valid")
    for server in servers:
        await server.stop()
    await cluster.until_delivered(60)


async def _migrate(cluster: Cluster, release: Release) -> str:
    process = run(cluster, release, f"migrate-{release.name}.log", "migrate")
    code = await asyncio.to_thread(process.wait, 120.0)
    text = process.log.read_text()
    if code != 0:
        process.kill()
        raise NotAsExpected(f"`tonne migrate` ended with {code}: {text[-500:]}")
    return text


async def _migrate_beside_a_report(cluster: Cluster, release: Release) -> bool:
    """A transaction reads orders for longer than a migration waits: the column is added only afterwards."""
    last = all_migrations()[-1].version
    is_waiting = (
        "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'orders'::regclass "
        "AND mode = 'AccessExclusiveLock')"
    )
    async with cluster.holding("LOCK TABLE orders IN ACCESS SHARE MODE"):
        process = run(cluster, release, "migrate-first.log", "migrate")
        await cluster.until_true("the migration waits for the table", is_waiting, within_s=60)
        await cluster.until_true("it gives up for now", f"SELECT NOT ({is_waiting})")
        await asyncio.sleep(REPORT_S)
        added = await cluster.fetchval("SELECT max(version) FROM schema_migrations")
        cluster.require(added == last, "the column was added although a report used the table")
    code = await asyncio.to_thread(process.wait, 120.0)
    cluster.require(code == 0, f"`tonne migrate` ended with {code}")
    return "trying again" in process.log.read_text()


async def _kill_while_building(cluster: Cluster, release: Release) -> bool:
    """The index of the last migration is built again, after a kill in the middle."""
    await cluster.execute("DROP INDEX CONCURRENTLY chaos_sizes")
    last = all_migrations()[-1].version + len(MIGRATIONS)
    await cluster.execute(f"DELETE FROM schema_migrations WHERE version = {last}")
    is_building = (
        "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('chaos_sizes') AND NOT indisvalid)"
    )
    async with cluster.holding("LOCK TABLE orders IN ROW EXCLUSIVE MODE"):
        process = run(cluster, release, "migrate-killed.log", "migrate")
        await cluster.until_true("the index is being built", is_building, within_s=60)
        process.kill()
        await cluster.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%'"
        )
        return bool(await cluster.fetchval(is_building))


async def _restart_all(cluster: Cluster, servers: list[Server], release: Release) -> int:
    for server in servers:
        await server.stop()
        await server.start(release)
        await cluster.until(lambda: all(each.is_ready for each in servers), "the restarted server is in use")
    before = cluster.workers[-1]
    cluster.workers.append(run(cluster, release, f"worker-{len(cluster.workers)}.log", "worker", "--stop-with-parent"))
    stopped = await asyncio.to_thread(before.stop, 15.0)
    cluster.require(stopped, "a worker did not stop in time after SIGTERM")
    return len(servers) + 1

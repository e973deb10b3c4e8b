"""Reads from a streaming replica: which server is chosen, and what happens when the replica fails or is behind."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial

import httpx
import msgspec
import pytest

from tests.support.command import tonne
from tests.support.postgres import PostgresServer, ReplicaServer
from tests.support.processes import HOST, free_port
from tests.support.world import World, build_world
from tonne.apps.cli.database import FAILURES, open_readers
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.replica import Reads
from tonne.platform.settings.settings import Settings

NAME = "tonne"
IS_REPLICA = "SELECT pg_is_in_recovery()"
INSERT = "INSERT INTO organisations (id, name, created_at) VALUES ($1, 'x', now())"
FIND = "SELECT id FROM organisations WHERE id = $1"
WITHIN_S = 30.0


@dataclass(frozen=True)
class Pair:
    primary: PostgresServer
    replica: ReplicaServer
    world: World


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("replica")
    primary = PostgresServer(folder / "primary")
    asyncio.run(primary.create(NAME))
    world = asyncio.run(primary.fill(NAME, build_world))
    replica = ReplicaServer(primary, folder / "replica")
    yield Pair(primary, replica, world)
    asyncio.run(replica.close())
    asyncio.run(primary.close())


class ManualMonotonic:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> ManualMonotonic:
    return ManualMonotonic()


@pytest.fixture
def replica_settings(pair: Pair, settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, database_replica_url=pair.replica.url(NAME))


@pytest.fixture
async def primary(pair: Pair, replica_settings: Settings) -> AsyncIterator[Database]:
    database = await Database(pair.primary.url(NAME), replica_settings).open()
    yield database
    await database.close()


@pytest.fixture
async def reads(primary: Database, replica_settings: Settings, ticks: ManualMonotonic) -> AsyncIterator[Reads]:
    """The replica is in use."""
    reads = Reads(primary, replica_settings, ticks)
    await _until_used(reads)
    yield reads
    await reads.close()


async def _until_used(reads: Reads) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await _reads_replica(reads):
            await reads.measure()


async def _reads_replica(reads: Reads) -> bool:
    found: bool = await reads.read(lambda tx: tx.fetchval(IS_REPLICA))
    return found


async def _execute(server: PostgresServer, statement: str, *arguments: str) -> None:
    async with server.connection(NAME) as connection:
        await connection.execute(statement, *arguments)


@pytest.fixture
async def paused(pair: Pair) -> AsyncIterator[None]:
    """The replica receives changes and does not apply them."""
    async with pair.replica.connection(NAME) as connection:
        await connection.execute("SELECT pg_wal_replay_pause()")
        async with asyncio.timeout(WITHIN_S):
            while await connection.fetchval("SELECT pg_get_wal_replay_pause_state()") != "paused":
                pass
    yield
    await _execute(pair.replica, "SELECT pg_wal_replay_resume()")


async def test_without_a_replica_the_primary_is_read(primary: Database, settings: Settings) -> None:
    reads = Reads(primary, settings)
    await reads.measure()
    assert not await _reads_replica(reads)
    assert [metric.snapshot().series for metric in reads.metrics] == [[], []]
    await asyncio.wait_for(reads.watch(), WITHIN_S)


async def test_the_replica_is_used_once_it_was_measured(primary: Database, replica_settings: Settings) -> None:
    reads = Reads(primary, replica_settings)
    assert not await _reads_replica(reads)
    watching = asyncio.create_task(reads.watch())
    async with asyncio.timeout(WITHIN_S):
        while not await _reads_replica(reads):
            pass
    watching.cancel()
    await reads.close()


@pytest.mark.usefixtures("paused")
async def test_a_replica_that_is_too_far_behind_is_not_read(pair: Pair, reads: Reads, ticks: ManualMonotonic) -> None:
    await _execute(pair.primary, INSERT, "org_behind")
    for now, is_read in ((6.0, True), (9.9, True), (10.1, False), (600.0, False)):
        ticks.now = now
        await reads.measure()
        assert await _reads_replica(reads) == is_read, now
    await _execute(pair.replica, "SELECT pg_wal_replay_resume()")
    await _until_used(reads)


async def test_a_replica_without_news_is_not_behind(reads: Reads, ticks: ManualMonotonic) -> None:
    """The time of the last transaction says nothing when there is none. The server's own work may write a little."""
    ticks.now += 1000.0
    await _until_used(reads)
    ticks.now += 1000.0
    assert not await _reads_replica(reads), "it was not measured in this time"


@pytest.mark.usefixtures("paused")
async def test_what_the_replica_does_not_have_is_found_on_the_primary(pair: Pair, reads: Reads) -> None:
    await _execute(pair.primary, INSERT, "org_new")
    assert await reads.read(lambda tx: tx.fetchval(FIND, "org_new")) is None
    assert await reads.find(lambda tx: tx.fetchval(FIND, "org_new")) == "org_new"
    assert await reads.find(lambda tx: tx.fetchval(FIND, "org_never")) is None


async def test_a_replica_that_goes_down_is_replaced_by_the_primary(pair: Pair, reads: Reads) -> None:
    lag, counts = reads.metrics
    assert lag.snapshot().series == [((), [0.0])]
    await pair.replica.stop_hard()
    assert not await _reads_replica(reads)
    assert lag.snapshot().series == [((), [math.inf])]
    assert {labels for labels, _ in counts.snapshot().series} == {("primary",), ("replica",)}
    await reads.measure()
    assert not await _reads_replica(reads)
    await pair.replica.start()
    await _until_used(reads)


async def test_a_query_that_the_replica_cancels_runs_on_the_primary(pair: Pair, reads: Reads) -> None:
    await _execute(pair.replica, "ALTER SYSTEM SET max_standby_streaming_delay = 0")
    await _execute(pair.replica, "SELECT pg_reload_conf()")
    servers: list[bool] = []

    async def work(tx: Connection) -> int:
        servers.append(await tx.fetchval(IS_REPLICA))
        if servers[-1]:
            await _execute(pair.primary, "UPDATE organisations SET name = name")
            await _execute(pair.primary, "VACUUM organisations")
            while True:
                await tx.fetchval("SELECT count(*) FROM organisations")
        count: int = await tx.fetchval("SELECT count(*) FROM organisations")
        return count

    async with asyncio.timeout(WITHIN_S):
        assert await reads.read(work) > 0
    assert servers == [True, False]
    await _until_used(reads)


async def test_an_error_of_the_statement_is_raised(reads: Reads) -> None:
    with pytest.raises(Exception, match="division by zero"):
        await reads.read(lambda tx: tx.fetchval("SELECT 1 / 0"))


async def test_pages_are_read_from_the_replica(pair: Pair, primary: Database, replica_settings: Settings) -> None:
    services = Services(primary, replica_settings)
    await _until_used(services.reads)
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        key = {"Authorization": f"Bearer {pair.world.ours_test.key}"}
        made = await client.put("/v1/sustainability-page", json={"slug": "on-a-replica", "enabled": True}, headers=key)
        assert made.status_code == 200, made.text
        assert (await client.get("/sustainability/test/on-a-replica")).status_code == 200, "also when it is new"
        assert (await client.get("/sustainability/test/no-such-page")).status_code == 404
    await services.health.close()
    await services.reads.close()


async def test_metrics_of_queues_runs_and_locks_are_read_from_the_primary(
    primary: Database, replica_settings: Settings
) -> None:
    """A replica has other locks, and one that is behind has old queues."""
    services = Services(primary, replica_settings)
    await _until_used(services.reads)
    async with asyncio.timeout(WITHIN_S), primary.transaction() as holder:
        await holder.execute("LOCK TABLE service_holds")
        waiting = asyncio.create_task(primary.run(Connection.fetchval, "SELECT count(*) FROM service_holds"))
        while not await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass
        assert services.reads.server() is not primary
        by_name = {each.name: each.series for each in await services.queues.read()}
    await waiting
    await services.queues.close()
    await services.reads.close()
    assert by_name["tonne_database_blocking_seconds"][0][1][0] > 0


def test_commands_that_only_read_use_the_replica(pair: Pair) -> None:
    urls = {"database_url": pair.primary.url(NAME), "database_replica_url": pair.replica.url(NAME)}
    done = tonne("doctor", "--json", **urls)
    assert done.stderr == "Reading from the replica.\n"
    assert msgspec.json.decode(done.stdout)["server"] == "replica"
    for words in (("export", "balances"), ("export", "journal", "--month", "2026-11")):
        exported = tonne(*words, **urls)
        assert (exported.returncode, exported.stderr) == (0, "Reading from the replica.\n")
        assert exported.stdout == tonne(*words, database_url=urls["database_url"]).stdout
    nowhere = {**urls, "database_replica_url": f"postgresql://x@{HOST}:{free_port()}/x"}
    done = tonne("doctor", "--json", **nowhere)
    assert done.stderr.startswith("Reading from the primary: the replica cannot be reached")
    assert msgspec.json.decode(done.stdout)["server"] == "primary"
    promoted = {**urls, "database_replica_url": urls["database_url"], "database_replica_lag_s": "1"}
    assert "is no replica" in tonne("export", "balances", **promoted).stderr


async def test_operations_19_a_command_goes_on_on_the_primary_when_the_replica_is_lost(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_readers(pair.primary.url(NAME), pair.replica.url(NAME)) as readers:
        assert [await readers.run(place, lambda tx: tx.fetchval(IS_REPLICA)) for place in (0, 1)] == [True, True]
        await pair.replica.stop_hard()
        assert [await readers.run(place, lambda tx: tx.fetchval(IS_REPLICA)) for place in (0, 1)] == [False, False]
        assert readers.server == "primary"
    await pair.replica.start()
    [message] = capsys.readouterr().err.splitlines()
    assert message.startswith("The replica was lost (")
    assert message.endswith(" Reading from the primary.")


async def test_operations_19_work_that_the_replica_cancels_is_repeated(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    await _execute(pair.replica, "ALTER SYSTEM SET max_standby_streaming_delay = 0")
    await _execute(pair.replica, "SELECT pg_reload_conf()")
    cancelled: list[bool] = []

    async def work(tx: Connection, conflicts: int) -> bool:
        await tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        is_replica: bool = await tx.fetchval(IS_REPLICA)
        if is_replica and len(cancelled) < conflicts:
            cancelled.append(is_replica)
            await tx.fetchval("SELECT count(*) FROM organisations")
            await _execute(pair.primary, "UPDATE organisations SET name = name")
            await _execute(pair.primary, "VACUUM organisations")
            while True:
                await tx.fetchval("SELECT count(*) FROM organisations")
        return is_replica

    async with open_readers(pair.primary.url(NAME), pair.replica.url(NAME)) as readers, asyncio.timeout(WITHIN_S):
        assert await readers.run(0, partial(work, conflicts=FAILURES - 1)), "still on the replica"
        cancelled.clear()
        assert not await readers.run(0, partial(work, conflicts=FAILURES))
    assert "hot_standby_feedback = on in the replica. Reading from the primary." in capsys.readouterr().err


@pytest.mark.usefixtures("paused")
async def test_a_command_does_not_read_a_replica_that_misses_something(pair: Pair) -> None:
    await _execute(pair.primary, INSERT, "org_missing")
    urls = {"database_url": pair.primary.url(NAME), "database_replica_url": pair.replica.url(NAME)}
    done = await asyncio.to_thread(tonne, "doctor", **urls, database_replica_lag_s="0.2")
    assert done.stderr.startswith("Reading from the primary: the replica is too far behind")

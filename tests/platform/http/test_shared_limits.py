"""Rate limits across machines: each reports what clients have used, and the database adds it up."""

import asyncio
import gc
from collections.abc import Sequence

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Server
from tests.support.clock import ManualClock
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.limits.limit_store import Usage, delete_full, settle
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.limits.shared_limits import MARGIN_S, SharedLimits
from tonne.platform.settings.settings import Settings

# So slow that no bucket refills while a test runs.
SLOW = 1e-6


class Machine:
    """One limit of one machine."""

    def __init__(self, database: Database, per_second: float = SLOW, burst: int = 10) -> None:
        self.clock = ManualClock()
        self.buckets = TokenBuckets("limit", per_second, burst, self.clock.monotonic)
        self.shared = SharedLimits(database)
        self.shared.add([self.buckets])

    def use(self, client: str, times: int) -> int:
        """How many of these requests are allowed."""
        return sum(self.buckets.consume(client).allowed for _ in range(times))


async def settle_all(machines: Sequence[Machine]) -> None:
    for machine in machines:
        await machine.shared.settle()


async def test_a_client_has_one_limit_on_all_machines(db: Database) -> None:
    first, second = Machine(db), Machine(db)
    assert (first.use("a", 4), second.use("a", 3), second.use("b", 1)) == (4, 3, 1)
    await settle_all([first, second, first])
    # The first has learned of the second's 3 only if it used the limit itself since.
    assert first.use("a", 1) == 1
    await settle_all([first])
    assert (first.use("a", 10), second.use("a", 10)) == (2, 3)
    await settle_all([first, second])
    assert (first.use("a", 1), second.use("a", 1)) == (0, 0)
    assert (first.use("b", 10), second.use("b", 10)) == (10, 9)


async def test_what_was_allowed_too_much_is_paid_back(db: Database) -> None:
    first, second = Machine(db, per_second=1), Machine(db, per_second=1)
    # Both start with a full bucket: within one interval, each allows the whole burst.
    assert (first.use("a", 20), second.use("a", 20)) == (10, 10)
    await settle_all([first, second])
    # The common bucket had 10 and a margin of 2, and is at -8 now. The second knows.
    second.clock.advance(seconds=8)
    assert second.use("a", 1) == 0
    second.clock.advance(seconds=2)
    assert second.use("a", 5) == 2


async def test_the_limit_of_one_machine_is_not_changed_by_its_own_reports(db: Database) -> None:
    machine = Machine(db, per_second=1, burst=5)
    async with db.connection() as connection:
        allowed = 5
        for seconds in (5, 2, 1, 3, 5, 9):
            assert machine.use("a", 9) == allowed
            await machine.shared.settle()
            machine.clock.advance(seconds=seconds)
            # The database has a clock of its own.
            await connection.execute("UPDATE rate_limits SET updated_at = updated_at - $1 * interval '1 s'", seconds)
            allowed = min(5, seconds)


async def test_a_client_that_keeps_to_its_rate_on_many_machines_is_never_refused(db: Database) -> None:
    """The reports of a second arrive at once. Here the burst is much smaller than what a second allows."""
    machines = [Machine(db, per_second=100, burst=1) for _ in range(4)]
    key = ("limit", 1)
    async with db.connection() as connection:
        for _ in range(5):
            await connection.execute("UPDATE rate_limits SET updated_at = now() - interval '1 s'")
            for _machine in machines:
                levels = await settle(connection, [Usage(*key, 25, 1 + MARGIN_S * 100, 100)])
            assert levels[key] >= 1


async def test_a_restarted_machine_learns_what_was_used(db: Database) -> None:
    before = Machine(db)
    before.use("a", 10)
    await before.shared.settle()
    after = Machine(db)
    assert after.use("a", 1) == 1
    await after.shared.settle()
    assert after.use("a", 1) == 0


async def test_requests_that_were_refused_and_checks_are_not_reported(db: Database) -> None:
    machine = Machine(db, burst=2)
    machine.buckets.consume("a", 0)
    assert machine.buckets.take_used() == {}
    machine.use("a", 5)
    assert machine.buckets.take_used() == {"a": 2}
    assert machine.buckets.take_used() == {}


async def test_many_clients_use_bounded_memory(db: Database) -> None:
    machine = Machine(db)
    for number in range(5000):
        machine.use(f"client {number}", 1)
    machine.use("client 0", 1)
    used = machine.buckets.take_used()
    assert len(used) == 2000
    assert used["client 0"] == 2


async def test_without_the_database_each_machine_has_its_own_limit(server: Server, settings: Settings) -> None:
    closed = Database(server.url("no_such_database"), settings)
    closed.is_open = True
    machine = Machine(closed)
    assert machine.use("a", 20) == 10
    await machine.shared.settle()
    await machine.shared.delete_full()
    assert (machine.use("a", 20), machine.use("b", 20)) == (0, 10)
    await machine.shared.settle()
    [snapshot] = [metric.snapshot() for metric in machine.shared.metrics]
    assert snapshot.series == [(("failed",), [2])]
    # What was not reported is not kept: reported later, it would count as used at once.
    assert machine.buckets.take_used() == {}


async def test_concurrent_reports_of_the_same_clients_do_not_deadlock(db: Database) -> None:
    machines = [Machine(db) for _ in range(4)]
    for machine in machines:
        for number in range(300):
            machine.use(f"client {number}", 1)
    await asyncio.gather(*(machine.shared.settle() for machine in machines))
    async with db.connection() as connection:
        levels = await connection.fetch("SELECT DISTINCT round(level) AS level FROM rate_limits")
    assert [row["level"] for row in levels] == [10 - len(machines)]


async def test_full_buckets_are_deleted(db: Database) -> None:
    capacity, per_second = 10.0, 1.0
    async with db.connection() as connection:
        await settle(connection, [Usage("limit", client, 5, capacity, per_second) for client in range(3)])
        await connection.execute("UPDATE rate_limits SET updated_at = now() - interval '6 s' WHERE client < 2")
        assert await delete_full(connection, 1) == 1
        assert await delete_full(connection, 10) == 1
        assert await delete_full(connection, 10) == 0
        assert await connection.fetchval("SELECT array_agg(client) FROM rate_limits") == [2]


async def test_a_row_in_use_is_deleted_later(db: Database) -> None:
    usage = Usage("limit", 1, 5, 10.0, 1.0)
    async with db.connection() as connection, db.connection() as other:
        await settle(connection, [usage])
        await connection.execute("UPDATE rate_limits SET updated_at = now() - interval '6 s'")
        async with other.transaction():
            await settle(other, [usage])
            assert await delete_full(connection, 10) == 0
        assert await connection.fetchval("SELECT count(*) FROM rate_limits") == 1


async def test_the_table_has_no_addresses_and_is_not_logged(db: Database) -> None:
    machine = Machine(db)
    machine.use("192.0.2.77", 1)
    await machine.shared.settle()
    async with db.connection() as connection:
        rows = await connection.fetch("SELECT to_jsonb(bucket)::text AS row FROM rate_limits AS bucket")
        assert "192.0.2" not in rows[0]["row"]
        kind = await connection.fetchval("SELECT relpersistence FROM pg_class WHERE relname = 'rate_limits'")
    assert kind == b"u"


def all_buckets() -> list[TokenBuckets]:
    # Not isinstance(): it asks an object for its class, and lazy objects of other libraries then load something.
    return [each for each in gc.get_objects() if type(each) is TokenBuckets]


async def test_every_limit_of_the_service_is_shared(db: Database, settings: Settings) -> None:
    before = all_buckets()
    services = Services(db, settings)
    created = [each for each in all_buckets() if not any(each is other for other in before)]
    assert {each.name for each in created} == services.limits.names
    with pytest.raises(ValueError, match="two rate limits"):
        services.limits.add(services.authenticator.limits)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(0, 20)), max_size=60),
    st.integers(1, 20),
    st.integers(1, 5),
)
def test_the_rate_holds_whatever_the_clients_do(steps: list[tuple[int, int, int]], burst: int, rate: int) -> None:
    """In a model of the common bucket, as SETTLE computes it, with machines that settle after every step."""
    clock = ManualClock()
    machines = [TokenBuckets(f"limit {number}", rate, burst, clock.monotonic) for number in range(4)]
    capacity = burst + MARGIN_S * rate
    level, updated_at, started_at = capacity, clock.monotonic(), clock.monotonic()
    allowed = 0
    for number, requests, seconds in steps:
        clock.advance(seconds=seconds)
        buckets = machines[number]
        allowed += sum(buckets.consume("a").allowed for _ in range(requests))
        for used in buckets.take_used().values():
            now = clock.monotonic()
            level = min(capacity, level + (now - updated_at) * rate) - used
            updated_at = now
            buckets.lower("a", level)
    elapsed_s = clock.monotonic() - started_at
    # Each machine may allow one burst before it learns of the others.
    assert allowed <= len(machines) * burst + (elapsed_s + MARGIN_S) * rate + 1e-6


async def test_a_level_is_right_after_the_clock_of_the_database_went_back(db: Database) -> None:
    async with db.connection() as connection:
        usage = Usage("limit", 1, 4, 10.0, 1.0)
        await settle(connection, [usage])
        await connection.execute("UPDATE rate_limits SET updated_at = now() + interval '1 hour'")
        assert (await settle(connection, [usage]))["limit", 1] == pytest.approx(2)


async def test_amounts_must_be_possible(db: Database) -> None:
    async with db.connection() as connection:
        with pytest.raises(asyncpg.CheckViolationError):
            await settle(connection, [Usage("limit", 1, 4, 0.0, 1.0)])

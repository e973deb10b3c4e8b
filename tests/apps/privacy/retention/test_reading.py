"""Wherever partitions end: reads see every event once and in order, and no event that is needed is removed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.apps.privacy.retention.months import Months, divide
from tonne.apps.privacy.retention.remove_partitions import NotRemoved
from tonne.channels.webhooks.delivery import batch_store, claim
from tonne.channels.webhooks.model import Lease
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import EVENTS
from tonne.platform.events import store
from tonne.platform.values.context import replace

NOW = datetime.now(UTC).replace(microsecond=0)
HOURS = 24 * 200
# Hours before now: many within the last days, which are read first, and around boundaries.
_MOMENTS = st.integers(0, 60) | st.integers(0, HOURS)
_EXAMPLES = hypothesis_settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def ago(hours: int) -> datetime:
    return NOW - timedelta(hours=hours)


async def arrange(months: Months, boundaries: set[int], moments: Sequence[int]) -> None:
    """Events at these moments, alternately of two accounts; at most one boundary is ahead of now."""
    async with months.database.transaction() as tx:
        for table in ("webhooks", "webhook_scopes", "webhook_parked", "events", "removed_partitions"):
            await tx.execute(f"DELETE FROM {table}")  # noqa: S608 - names of this test
        await tx.execute(
            "UPDATE event_streams SET last_position = 0, last_sequence = '2000-01-01', floor_position = 0, "
            "floor_sequence = NULL"
        )
    await divide(months.database, EVENTS, [*map(ago, sorted(boundaries, reverse=True)), NOW + timedelta(days=1)])
    for number, moment in enumerate(sorted(moments, reverse=True)):
        await months.append(ago(moment), months.one if number % 2 == 0 else months.two)


async def leases(months: Months) -> list[Lease]:
    async with months.database.connection() as connection:
        claimed = await claim.claim_webhooks(connection, 10, 10, 60)
    # The type of the events of these tests, which no webhook can name.
    return [replace(lease, event_types=("other.made",)) for lease in claimed]


@_EXAMPLES
@given(
    boundaries=st.sets(_MOMENTS, min_size=1, max_size=6),
    moments=st.lists(_MOMENTS, min_size=1, max_size=14),
    limit=st.integers(1, 5),
)
async def test_every_event_is_read_once_and_in_order(
    months: Months, boundaries: set[int], moments: list[int], limit: int
) -> None:
    await arrange(months, boundaries, moments)
    everything = list(range(1, len(moments) + 1))
    await months.register()
    [lease] = await leases(months)
    async with months.database.connection() as connection:
        seen: list[int] = []
        while batch := await batch_store.read_stream(connection, lease, len(seen), limit):
            seen += batch.positions
        assert seen == everything

        for scope, expected in ((months.one, everything[::2]), (months.two, everything[1::2])):
            seen = []
            at = replace(lease, account_ids=(scope.account_id,), batch_limit=limit)
            while at.cursor_position < at.last_position:
                batch = await batch_store.read_in_scope(connection, at)
                seen += batch.positions
                at = replace(at, cursor_position=batch.reaches)
            assert seen == expected

        for oldest_first in (True, False):
            assert await pages(connection, months, oldest_first=oldest_first, limit=limit) == (
                everything if oldest_first else everything[::-1]
            )
        for position, sequence in await connection.fetch("SELECT position, sequence FROM events"):
            assert await store.last_position_before(connection, months.one, sequence) == position - 1


async def pages(connection: Connection, months: Months, *, oldest_first: bool, limit: int) -> list[int]:
    """All positions, page by page, as the endpoint reads them."""
    seen: list[int] = []
    near = None if oldest_first else NOW
    while True:
        bounds = store.PageBounds(
            below=2**62 if oldest_first or not seen else seen[-1],
            above=seen[-1] if oldest_first and seen else 0,
            near=near,
        )
        rows = await store.list_events(
            connection, months.one, bounds, account_id=None, event_type="", oldest_first=oldest_first, limit=limit
        )
        seen += [row["position"] for row in rows]
        if len(rows) < limit:
            return seen
        near = rows[-1]["sequence"]


@_EXAMPLES
@given(
    boundaries=st.sets(_MOMENTS, min_size=1, max_size=6),
    moments=st.lists(_MOMENTS, min_size=1, max_size=14),
    days=st.integers(1, 150),
    waiting=st.tuples(st.lists(st.integers(0, 14), max_size=3), st.none() | st.integers(1, 14)),
)
async def test_a_removal_leaves_all_events_that_are_young_or_needed(
    months: Months, boundaries: set[int], moments: list[int], days: int, waiting: tuple[list[int], int | None]
) -> None:
    """`waiting`: the cursors of webhooks, and the position at which an account of the first one is parked."""
    cursors, parked = waiting
    await arrange(months, boundaries, moments)
    count = len(moments)
    hooks = [await months.register(at=min(cursor, count)) for cursor in cursors]
    needed = min([min(cursor, count) for cursor in cursors], default=count) + 1
    if hooks and parked is not None and parked <= count:
        await months.execute(PARK, months.one.organisation_id, hooks[0].id, months.one.account_id, parked)
        needed = min(needed, parked)
    sequences = {
        row["position"]: row["sequence"] for row in await months.fetch("SELECT position, sequence FROM events")
    }
    months.settings = msgspec.structs.replace(months.settings, events_days=days, archive_tables="")
    outcomes = await months.remove(NOW)

    kept = await months.positions()
    assert kept == list(range(count - len(kept) + 1, count + 1)), "the newest, without a gap"
    gone = [position for position in sequences if position not in kept]
    assert all(position < needed for position in gone)
    assert all(sequences[position] < NOW - timedelta(days=days) for position in gone)
    floor = await months.floor()
    assert floor["position"] == len(gone)
    if not any(isinstance(outcome, NotRemoved) for outcome in outcomes):
        # Nothing prevented it: every partition that is old enough is gone.
        due = [ago(hours) for hours in boundaries if ago(hours) <= NOW - timedelta(days=days)]
        last = max(due, default=None)
        assert last is None or all(sequences[position] >= last for position in kept)
    broken = await months.breaches()
    assert broken.keys().isdisjoint({"stream positions have no gap", "no webhook waits for removed events"})


PARK = """
INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, next_attempt_at)
VALUES ($1, $2, $3, $4, 5, now(), now())
"""

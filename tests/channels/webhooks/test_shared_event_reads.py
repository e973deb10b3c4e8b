"""Webhooks of one organisation that read the same events at the same time share one query."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.channels.webhooks.stage import Stage
from tests.support.receivers import Receiver
from tonne.channels.webhooks.delivery import claim, turn
from tonne.channels.webhooks.delivery.batch_store import READ_STREAM, RECENT
from tonne.channels.webhooks.delivery.turn import SharedEventReads
from tonne.channels.webhooks.model import Lease
from tonne.platform.db.database import Database
from tonne.platform.values.context import replace, utc_now


@pytest.fixture
async def lease(stage: Stage, receiver: Receiver) -> Lease:
    await stage.register(receiver.url)
    await stage.emit_many(stage.one, ["1", "2", "3"])
    async with stage.services.database.connection() as connection:
        [lease] = await claim.claim_webhooks(connection, 1, 1, 60)
    return lease


async def test_concurrent_callers_share_one_read(stage: Stage, lease: Lease) -> None:
    shared = SharedEventReads(stage.services.database)
    batches = await asyncio.gather(*(shared.read(lease, 0, 100) for _ in range(4)))
    assert batches[0] is not None
    assert list(batches[0].positions) == [1, 2, 3]
    assert all(batch is batches[0] for batch in batches)
    assert await shared.read(lease, 0, 100) is batches[0], "kept for a short time"


async def test_a_look_for_recent_events_does_not_read_a_backlog_of_older_ones(stage: Stage, lease: Lease) -> None:
    await stage.emit_many(stage.one, [str(number) for number in range(4, 100)])
    async with stage.services.database.connection() as connection:
        await connection.execute("UPDATE events SET sequence = sequence - interval '3 days'")
        # Statistics of the few rows of an earlier test would make a scan of the table look cheapest.
        await connection.execute("ANALYZE events; SET enable_seqscan = off")
        key = (lease.organisation_id, lease.mode, 0, 2, utc_now() - RECENT, lease.delivered_types)
        [plan] = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {READ_STREAM}", *key))
    assert 0 < _removed_rows(plan["Plan"]) <= 2
    batch = await SharedEventReads(stage.services.database).read(lease, 0, 2)
    assert batch is not None
    assert list(batch.positions) == [1, 2]


def _removed_rows(node: dict[str, Any]) -> int:
    own: int = node.get("Rows Removed by Filter", 0)
    return own + sum(_removed_rows(below) for below in node.get("Plans", ()))


async def test_another_position_or_stream_is_another_read(stage: Stage, lease: Lease) -> None:
    shared = SharedEventReads(stage.services.database)
    first, later = await asyncio.gather(shared.read(lease, 0, 2), shared.read(lease, 2, 2))
    assert first is not None
    assert later is not None
    assert (list(first.positions), list(later.positions)) == ([1, 2], [3])
    assert await shared.read(replace(lease, organisation_id="org_other"), 0, 2) is None


async def test_an_expired_read_is_repeated(stage: Stage, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "KEEP_S", 0.0)
    shared = SharedEventReads(stage.services.database)
    first = await shared.read(lease, 0, 100)
    assert await shared.read(lease, 0, 100) is not first


async def test_a_cancelled_caller_does_not_cancel_the_read_of_the_others(stage: Stage, lease: Lease) -> None:
    shared = SharedEventReads(stage.services.database)
    reader = asyncio.create_task(shared.read(lease, 0, 100))
    follower = asyncio.create_task(shared.read(lease, 0, 100))
    other = asyncio.create_task(shared.read(lease, 0, 100))
    await asyncio.sleep(0)
    follower.cancel()
    assert await reader is not None
    assert await other is await reader


async def test_a_failed_read_fails_for_all_waiters_and_is_not_kept(stage: Stage, lease: Lease) -> None:
    closed = Database(stage.services.database._url, stage.services.settings)
    shared = SharedEventReads(closed)
    failed = await asyncio.gather(*(shared.read(lease, 0, 100) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in failed] == [asyncpg.InterfaceError] * 3
    await closed.open()
    try:
        assert await shared.read(lease, 0, 100) is not None
    finally:
        await closed.close()

"""Which webhooks a worker claims: found without reading idle ones, and with places kept for those without failures."""

import json
from datetime import timedelta

from tests.support.receivers import Receiver, hang, receiving
from tests.support.tls import Authority
from tests.support.world import World
from tests.webhooks.stage import Stage
from tonne.webhooks.claim import CLAIM, CLAIM_BY_SCAN

# Each with a stream of its own, in which nothing happens.
ADD_IDLE = """
WITH number AS (SELECT format('idle_%s_%s', $1::integer, n) AS id FROM generate_series(1, $1::integer) AS n),
organisation AS (
    INSERT INTO organisations (id, name, created_at) SELECT id, id, now() FROM number RETURNING id
), mode AS (
    INSERT INTO organisation_modes (organisation_id, mode) SELECT id, 'test' FROM organisation RETURNING organisation_id
), stream AS (
    INSERT INTO event_streams (organisation_id, mode) SELECT organisation_id, 'test' FROM mode RETURNING organisation_id
)
INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, cursor_position,
                      next_attempt_at)
SELECT organisation_id, 'test', organisation_id, 'https://receiver.test/', now(), ''::bytea, 'abcd', 0, now()
FROM stream
"""


async def _buffers(stage: Stage, statement: str = CLAIM) -> int:
    """The pages that one claim reads when nothing is due."""
    async with stage.database.connection() as connection:
        await connection.execute("VACUUM ANALYZE webhooks, event_streams, webhook_parked")
        [plan] = json.loads(
            await connection.fetchval(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", 10, 10, timedelta(seconds=45)
            )
        )
    assert plan["Plan"]["Actual Rows"] == 0
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


async def test_operations_13_finding_due_webhooks_reads_no_more_pages_with_many_idle_ones(stage: Stage) -> None:
    await stage.execute("SET LOCAL session_replication_role = replica; DELETE FROM webhooks")
    await stage.execute(ADD_IDLE, 50)
    few = await _buffers(stage)
    await stage.execute(ADD_IDLE, 2000)
    many = await _buffers(stage)
    assert many <= few + 10, (few, many)
    # The same without the indexes: at least one page for every few webhooks.
    assert await _buffers(stage, CLAIM_BY_SCAN) > 10 * many


async def test_operations_13_a_webhook_is_found_by_each_index(stage: Stage, receiver: Receiver) -> None:
    """New events, and then a rewind of a stream in which nothing has happened for long."""
    hook = await stage.register(receiver.url)
    async with stage.working():
        await stage.idle()
        ids = await stage.emit(stage.one, stage.two)
        await stage.idle()
        assert (await stage.row(hook))["due_at"] is None
        await stage.execute("UPDATE event_streams SET last_sequence = now() - interval '1 day'")
        await stage.execute("UPDATE webhooks SET cursor_position = 0, due_at = now() WHERE id = $1", hook.id)
        await receiver.arrived(lambda: [event["event_id"] for event in receiver.events] == ids * 2)
        await stage.idle()


async def test_operations_10_failing_webhooks_leave_half_of_the_places_to_the_others(
    stage: Stage, world: World, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as hanging:
        hanging.rule = lambda _: hang
        for _ in range(12):
            await stage.register(hanging.url)
        await stage.emit(stage.one)
        await stage.execute("UPDATE webhooks SET failures = 3, failing_since = now()")
        await stage.register(receiver.url, scope=world.theirs_test.scope)
        stage.worker(stage.change(webhook_concurrency=4))
        await hanging.count(2)
        for n in range(20):
            await stage.emit(world.theirs_test.scope)
            await receiver.arrived(lambda n=n: len(receiver.events) > n)  # type: ignore[misc]
        # All twenty arrived while the same two requests were still hanging.
        assert await stage.fetch("SELECT FROM webhook_attempts WHERE NOT acknowledged") == []
        assert hanging.most_at_once == len(hanging.deliveries) == 2


async def test_operations_10_webhooks_that_hang_for_the_first_time_do_not_keep_their_places(
    stage: Stage, world: World, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as hanging:
        hanging.rule = lambda _: hang
        for _ in range(6):
            await stage.register(hanging.url)
        await stage.emit(stage.one)
        stage.worker(stage.change(webhook_concurrency=2))
        await hanging.count(2)
        await stage.register(receiver.url, scope=world.theirs_test.scope)
        await stage.emit(world.theirs_test.scope)
        # Before the first of the hanging requests times out, after 30 s.
        await receiver.count(1)
        assert await stage.fetch("SELECT FROM webhook_attempts WHERE NOT acknowledged") == []

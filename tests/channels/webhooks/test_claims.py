"""Which webhooks a worker claims: found without reading idle ones, and with slots kept for those without failures."""

import json
from datetime import timedelta

from tests.channels.webhooks.stage import Stage
from tests.support.receivers import Receiver, hang, receiving
from tests.support.tls import Authority
from tests.support.world import TESTER, World
from tonne.channels.webhooks import registration_store
from tonne.channels.webhooks.delivery.claim import (
    CLAIM,
    CLAIM_BY_SCAN,
    claim_in_streams,
    claim_webhooks,
    clear_due,
)
from tonne.channels.webhooks.model import Lease
from tonne.channels.webhooks.register import change_webhook, remove_webhook
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import Scope, replace

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
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", 10, 10, timedelta(seconds=45), [], []
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
        await stage.execute("UPDATE webhooks SET due_at = NULL")
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


async def test_operations_10_webhooks_that_hang_for_the_first_time_do_not_keep_their_slots(
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


LEASE_S = 45.0


async def _claim(stage: Stage) -> list[str]:
    """The webhooks that the indexes find. The claim is undone."""
    async with stage.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        leases = await claim_webhooks(connection, 50, 50, LEASE_S, full_scan=False)
        await transaction.rollback()
    return [lease.id for lease in leases]


async def _claim_named(stage: Stage, *scopes: Scope) -> list[Lease]:
    async with stage.database.transaction() as tx:
        streams = [Stream(scope.organisation_id, scope.mode) for scope in scopes]
        return await claim_in_streams(tx, streams, 10, LEASE_S)


async def test_operations_13_new_events_claim_only_webhooks_of_their_stream(
    stage: Stage, world: World, receiver: Receiver
) -> None:
    ours = await stage.register(receiver.url)
    theirs = await stage.register(receiver.url, scope=world.theirs_test.scope)
    await stage.emit(stage.one, stage.two)
    await stage.emit(world.theirs_test.scope)
    [lease] = await _claim_named(stage, stage.one)
    assert lease.id == ours.id
    assert lease.first_batch is not None, "the claim reads a few events at once"
    assert list(lease.first_batch.positions) == [1, 2]
    assert [event["account_id"] for event in json.loads(lease.first_batch.body)["events"]] == [
        stage.one.account_id,
        stage.two.account_id,
    ]
    assert await _claim_named(stage, stage.one) == [], "it is leased"
    assert [lease.id for lease in await _claim_named(stage, stage.one, world.theirs_test.scope)] == [theirs.id]


async def test_operations_13_new_events_do_not_shorten_the_back_off_of_a_failing_webhook(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    await stage.emit(stage.one)
    await stage.execute("UPDATE webhooks SET failures = 3, next_attempt_at = now() + interval '1 hour'")
    assert await _claim_named(stage, stage.one) == []
    await stage.execute("UPDATE webhooks SET failures = 0, enabled = false, next_attempt_at = now()")
    assert await _claim_named(stage, stage.one) == []
    await stage.execute("UPDATE webhooks SET enabled = true")
    assert [lease.id for lease in await _claim_named(stage, stage.one)] == [hook.id]


async def test_operations_13_a_long_backlog_is_not_read_by_the_claim(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    await stage.emit_many(stage.one, ["{}"] * 11)
    [lease] = await _claim_named(stage, stage.one)
    assert lease.first_batch is None


async def test_operations_13_the_index_finds_the_webhook_of_a_worker_that_crashed(
    stage: Stage, receiver: Receiver
) -> None:
    """Its stream has not changed for long, so only the due time leads to the webhook."""
    hook = await stage.register(receiver.url)
    await stage.emit(stage.one)
    assert len(await _claim_named(stage, stage.one)) == 1
    await stage.execute("UPDATE event_streams SET last_sequence = now() - interval '1 day'")
    assert await _claim(stage) == [], "it is leased"
    await stage.execute(
        "UPDATE webhooks SET lease_until = lease_until - interval '46 s', due_at = due_at - interval '46 s'"
    )
    assert await _claim(stage) == [hook.id]


async def test_operations_13_most_claims_change_no_index_entry(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with stage.working():
        await stage.emit(stage.one)
        await stage.idle()
        first = (await stage.row(hook))["due_at"]
        await stage.emit(stage.one)
        await stage.idle()
        assert first is not None
        assert (await stage.row(hook))["due_at"] == first


async def test_operations_13_webhooks_without_events_leave_the_index(stage: Stage, receiver: Receiver) -> None:
    waiting = await stage.register(receiver.url)
    await stage.emit(stage.one)
    idle = await stage.register(receiver.url)
    leased = await stage.register(receiver.url)
    await stage.execute("UPDATE webhooks SET due_at = now() - interval '1 s'")
    await stage.execute("UPDATE webhooks SET lease_until = now() + interval '1 s' WHERE id = $1", leased.id)
    async with stage.database.transaction() as tx:
        await clear_due(tx)
    assert (await stage.row(idle))["due_at"] is None
    assert (await stage.row(waiting))["due_at"] is not None
    assert (await stage.row(leased))["due_at"] is not None


async def test_operations_13_disabled_and_deleted_webhooks_are_not_looked_at(stage: Stage, receiver: Receiver) -> None:
    """Each has an event, a parked account and a due time in the past."""
    await stage.execute("SET LOCAL session_replication_role = replica; DELETE FROM webhooks")
    await stage.execute(ADD_IDLE, 2000)
    before = await _buffers(stage)
    hooks = [await stage.register(receiver.url) for _ in range(16)]
    await stage.emit(stage.one)
    await stage.execute(
        "INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, "
        "next_attempt_at) SELECT organisation_id, id, $1, 1, 1, now(), now() - interval '1 s' FROM webhooks "
        "WHERE organisation_id = $2",
        stage.one.account_id,
        stage.one.organisation_id,
    )
    assert len(await _claim(stage)) == 16
    for number, hook in enumerate(hooks):
        async with stage.database.transaction() as tx:
            webhook = await registration_store.lock_webhook(tx, stage.one, hook.id)
            if number % 2:
                await remove_webhook(tx, stage.one, hook.id, by=TESTER.now())
            else:
                disabled = replace(webhook, enabled=False)
                await change_webhook(tx, stage.one, webhook, disabled, by=TESTER.now())
    await stage.execute(
        "UPDATE webhooks SET due_at = now() - interval '1 s' WHERE organisation_id = $1", stage.one.organisation_id
    )
    await stage.execute("UPDATE event_streams SET last_sequence = now() - interval '1 day'")
    assert await _buffers(stage) <= before + 10
    async with stage.database.transaction() as tx:
        webhook = await registration_store.lock_webhook(tx, stage.one, hooks[0].id)
        await change_webhook(tx, stage.one, webhook, replace(webhook, enabled=True), by=TESTER.now())
    assert await _claim(stage) == [hooks[0].id]
    assert await stage.fetch("SELECT FROM webhook_parked WHERE NOT suspended AND webhook_id = $1", hooks[0].id)

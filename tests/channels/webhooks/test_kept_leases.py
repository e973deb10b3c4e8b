"""A worker keeps the lease of a webhook for which nothing waits, and sends the next event without a claim."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.channels.webhooks.listening import AT_ONCE_S, POLL_S, deliver, emit, is_kept, is_released, keep, listening
from tests.channels.webhooks.stage import Hook, Stage, verify
from tests.channels.webhooks.test_due_streams import make_lease
from tests.conftest import Server
from tests.support.receivers import Receiver, receiving, reply
from tests.support.tls import Authority
from tests.support.world import TESTER
from tonne.channels.webhooks import register, registration_store
from tonne.channels.webhooks.delivery import kept_leases
from tonne.channels.webhooks.model import Webhook
from tonne.platform.db.database import Connection
from tonne.platform.events.notification import Notification, Notifier, Stream, WorkKind, send
from tonne.platform.jobs.loop import wake_jobs
from tonne.platform.values.context import replace


@pytest.fixture(autouse=True)
def never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a worker would give its leases back."""
    monkeypatch.setattr(kept_leases, "LATE_S", 60.0)


async def test_the_next_events_are_sent_without_a_claim(stage: Stage, server: Server, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        token = await keep(stage, hook, receiver)
        ids: list[str] = []
        for count in (1, 2, 5):
            ids += await deliver(stage, receiver, count)
            await stage.until(lambda: is_kept(stage, hook))
        assert (await stage.row(hook))["lease_token"] == token
    assert [event["event_id"] for event in receiver.events][-8:] == ids
    assert all(verify(delivery, hook.secret, stage.one.organisation_id) for delivery in receiver.deliveries)
    assert len(await stage.attempts(hook)) == len(receiver.deliveries)


async def test_announced_bytes_are_those_that_a_read_gives(stage: Stage, server: Server, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        await stage.emit_types(stage.one, "order.received", "order.placed")
        Notifier(stage.database).notify(WorkKind.EVENTS, scope=stage.one)
        await receiver.count(3)
    # The same events, read by a worker that hears nothing.
    async with stage.database.transaction() as tx:
        await registration_store.rewind(tx, await _find(stage, tx, hook), 2)
    await stage.deliver()
    assert receiver.deliveries[-1].body == receiver.deliveries[2].body


async def _find(stage: Stage, connection: Connection, hook: Hook) -> Webhook:
    return await registration_store.find_webhook(connection, stage.one, hook.id)


Change = Callable[[Stage, Connection, Webhook], Awaitable[object]]


async def disable(stage: Stage, tx: Connection, webhook: Webhook) -> None:
    await register.change_webhook(tx, stage.one, webhook, replace(webhook, enabled=False), by=TESTER.now())


async def delete(stage: Stage, tx: Connection, webhook: Webhook) -> None:
    await register.remove_webhook(tx, stage.one, webhook.id, by=TESTER.now())


@pytest.mark.parametrize("change", [disable, delete])
async def test_nothing_is_sent_after_a_webhook_is_disabled_or_deleted(
    stage: Stage, server: Server, receiver: Receiver, change: Change
) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        async with stage.database.transaction() as tx:
            await change(stage, tx, await _find(stage, tx, hook))
        await emit(stage)
        await asyncio.sleep(0.3)
        assert len(receiver.deliveries) == 2


async def test_a_new_secret_signs_the_next_event(stage: Stage, server: Server, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        async with stage.database.transaction() as tx:
            webhook = await _find(stage, tx, hook)
            _, secret = await register.rotate_secret(tx, webhook, 0, box=stage.services.box, by=TESTER.now())
        await deliver(stage, receiver)
    assert verify(receiver.deliveries[-1], secret, stage.one.organisation_id)
    assert not verify(receiver.deliveries[-1], hook.secret, stage.one.organisation_id)


async def test_a_replaced_secret_stops_signing_at_its_time(stage: Stage, server: Server, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        async with stage.database.transaction() as tx:
            webhook = await _find(stage, tx, hook)
            _, secret = await register.rotate_secret(tx, webhook, 2, box=stage.services.box, by=TESTER.now())
        rotated_at = time.monotonic()
        await deliver(stage, receiver, 1)
        assert verify(receiver.deliveries[-1], hook.secret, stage.one.organisation_id)
        await asyncio.sleep(rotated_at + 2.1 - time.monotonic())
        await deliver(stage, receiver, 1)
        assert verify(receiver.deliveries[-1], secret, stage.one.organisation_id)
        assert not verify(receiver.deliveries[-1], hook.secret, stage.one.organisation_id)


async def test_a_rewound_webhook_gets_its_events_again_in_order(
    stage: Stage, server: Server, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        first = [event["event_id"] for event in receiver.events]
        async with stage.database.transaction() as tx:
            await register.rewind(tx, await _find(stage, tx, hook), 0, by=TESTER.now())
        [last] = await emit(stage)
        await receiver.arrived(lambda: len(receiver.events) == 5, AT_ONCE_S)
    assert [event["event_id"] for event in receiver.events] == [*first, *first, last]


async def test_a_second_webhook_of_the_stream_is_served_too(
    stage: Stage, server: Server, receiver: Receiver, authority: Authority
) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server), receiving(authority.context()) as second:
        await keep(stage, hook, receiver)
        await stage.register(second.url)
        for number in range(1, 4):
            await deliver(stage, receiver)
            await second.arrived(lambda n=number: len(second.events) == n, AT_ONCE_S)  # type: ignore[misc]


async def test_after_the_end_of_the_holder_another_worker_takes_over_at_once(
    stage: Stage, server: Server, receiver: Receiver
) -> None:
    """Its session ends with it, however it ends."""
    hook = await stage.register(receiver.url)
    async with listening(stage, server, webhook_lease_s=600.0) as holder:
        await keep(stage, hook, receiver)
        session = (await stage.row(hook))["lease_keeper"]
        async with listening(stage, server):
            await holder.stop()
            await stage.until(lambda: _is_gone(stage, session))
            await deliver(stage, receiver)
    assert len({event["event_id"] for event in receiver.events}) == 3


async def _is_gone(stage: Stage, session: int) -> bool:
    return not await stage.fetch("SELECT FROM pg_stat_get_activity($1)", session)


async def test_a_frozen_holder_delays_others_until_its_lease_ends(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with stage.database.connection() as frozen:
        await stage.execute(
            "UPDATE webhooks SET lease_token = 7, lease_until = clock_timestamp() + interval '1.5 s', "
            "lease_keeper = $2 WHERE id = $1",
            hook.id,
            frozen.get_server_pid(),
        )
        started = time.monotonic()
        async with stage.working():
            await emit(stage)
            await receiver.count(1)
        assert 1.3 < time.monotonic() - started < AT_ONCE_S + 1.5
    assert (await stage.row(hook))["lease_token"] == 8


async def test_a_holder_that_was_frozen_for_long_claims_again(stage: Stage, server: Server, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server, webhook_lease_s=3.0) as worker:
        token = await keep(stage, hook, receiver)
        [lease] = worker.kept.leases
        # A request that starts now must end before the lease does.
        assert lease.covers(2.0)
        await asyncio.sleep(1.1)
        await deliver(stage, receiver)
        await stage.until(lambda: is_kept(stage, hook))
        assert (await stage.row(hook))["lease_token"] == token + 1


async def test_a_lost_notification_delays_an_event_until_the_poll(
    stage: Stage, server: Server, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server, worker_poll_s=0.5):
        await keep(stage, hook, receiver)
        await stage.emit()
        await receiver.arrived(lambda: len(receiver.events) == 3, AT_ONCE_S)


async def test_repeated_old_and_partial_announcements_neither_repeat_nor_skip_events(
    stage: Stage, server: Server, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server) as worker:
        await keep(stage, hook, receiver)
        heard: list[Notification] = []
        hear = worker.kept.hear

        def record(notification: Notification) -> None:
            heard.append(notification)
            hear(notification)

        worker.kept.hear = record  # type: ignore[method-assign]
        await deliver(stage, receiver)
        # Five events, of which the announcement has the last two.
        await stage.emit_many(stage.one, ['{"status":"received"}'] * 4)
        await deliver(stage, receiver, 1)
        await stage.until(lambda: is_kept(stage, hook))
        for notification in [*heard, *reversed(heard)]:
            wake_jobs([worker.worker.job], notification)
            await asyncio.sleep(0.02)
        await deliver(stage, receiver)
    events = [event["event_id"] for event in receiver.events]
    stored = [row["id"] for row in await stage.fetch("SELECT id FROM events ORDER BY position")]
    assert events == stored[-len(events) :]
    assert len(events) == 9


async def test_a_refusal_ends_the_keeping(stage: Stage, server: Server, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        receiver.next(reply(500))
        await emit(stage)
        await receiver.arrived(lambda: len(receiver.deliveries) == 4, POLL_S * 3)
        await stage.until(lambda: is_released(stage, hook))
        await deliver(stage, receiver)
        await stage.until(lambda: is_kept(stage, hook))
    assert receiver.deliveries[3].event_ids == receiver.deliveries[2].event_ids


async def test_a_worker_that_reacts_late_gives_its_leases_back(
    stage: Stage, server: Server, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = await stage.register(receiver.url)
    async with listening(stage, server) as worker:
        await keep(stage, hook, receiver)
        monkeypatch.setattr(kept_leases, "LATE_S", -1.0)
        await stage.execute("SELECT pg_notify('tonne_events', $1)", '{"kinds":["events"],"streams":[["org_x","test"]]}')
        await stage.until(lambda: is_released(stage, hook))
        assert worker.kept.leases == []
        await deliver(stage, receiver)


async def test_large_events_are_announced_without_their_documents(
    stage: Stage, server: Server, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    noise = random.Random(1).randbytes(20_000).hex()  # noqa: S311 - a test
    async with listening(stage, server):
        await keep(stage, hook, receiver)
        await stage.emit(stage.one, document=f'{{"status":"{noise}"}}')
        async with stage.database.connection() as connection:
            named = Notification.parse(
                f'{{"kinds":["events"],"streams":[["{stage.one.organisation_id}","{stage.one.mode}"]]}}'
            )
            await send(connection, named)
        await receiver.arrived(lambda: len(receiver.events) == 3, AT_ONCE_S)
    assert receiver.events[-1]["data"]["order"]["status"] == noise


async def test_the_registration_is_read_again_after_a_while(
    stage: Stage, server: Server, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often events come."""
    hook = await stage.register(receiver.url)
    async with listening(stage, server):
        token = await keep(stage, hook, receiver)
        monkeypatch.setattr(kept_leases, "KEEP_AT_MOST_S", 0.0)
        await deliver(stage, receiver)
        await stage.until(lambda: is_released(stage, hook))
        await deliver(stage, receiver)
        assert (await stage.row(hook))["lease_token"] == token + 1


def test_a_lease_is_not_kept_if_its_webhook_was_changed_after_the_renewal() -> None:
    """The response to the acknowledgement may be read after the notification of a later change."""
    kept = kept_leases.KeptLeases(lease_s=45.0, request_s=30.0)
    kept.hear(Notification(None, session=7))
    lease = replace(make_lease(Stream("org_1", "test"), 1), expires_at=time.monotonic() + 45.0, keeper=7)
    kept.keep(lease)
    assert kept.leases == [lease]
    kept.hear(Notification(frozenset({WorkKind.EVENTS}), changed=frozenset({lease.stream}), session=7))
    assert kept.leases == []
    kept.keep(lease)
    assert kept.leases == []
    assert kept.dropped == [lease, lease]
    renewed = replace(lease, expires_at=time.monotonic() + 45.0)
    kept.keep(renewed)
    assert kept.leases == [renewed]
    kept.keep(replace(renewed, id="other", keeper=6))
    assert kept.leases == [renewed], "it is kept for a session that is gone"


def test_leases_that_no_request_can_use_are_given_back() -> None:
    kept = kept_leases.KeptLeases(lease_s=45.0, request_s=30.0)
    kept.hear(Notification(None, session=7))
    lease = replace(make_lease(Stream("org_1", "test"), 1), expires_at=time.monotonic() + 31.0, keeper=7)
    stale = replace(lease, id="wh_2", expires_at=time.monotonic() + 29.0)
    kept.keep(lease)
    kept.keep(stale)
    kept.review(is_full=False)
    assert (kept.leases, kept.dropped) == ([lease], [stale])
    kept.review(is_full=True)
    assert (kept.leases, kept.dropped) == ([], [stale, lease])

"""Where a worker searches for due webhooks: notifications name the streams."""

import pytest

from tests.channels.webhooks.stage import Stage
from tests.support.receivers import Receiver
from tonne.channels.webhooks.delivery.due_streams import DueStreams
from tonne.channels.webhooks.delivery.turn import SLOW_TURN_S, Slots
from tonne.channels.webhooks.model import Lease
from tonne.platform.events.notification import Notification, Stream, WorkKind
from tonne.platform.values.context import Mode

ONE, TWO = Stream("org_1", Mode.TEST), Stream("org_2", Mode.LIVE)
POLL_S = 60.0


def make_lease(stream: Stream, number: int = 1) -> Lease:
    return Lease(
        organisation_id=stream.organisation_id,
        mode=Mode(stream.mode),
        id=f"wh_{number}",
        url="https://receiver.test/",
        account_ids=(),
        event_types=(),
        sealed_secret=b"",
        old_sealed_secrets=(),
        standard_webhooks=False,
        cursor_position=0,
        batch_limit=1,
        failures=0,
        head_refusals=0,
        probe_after=None,
        accepted_probe=None,
        token=1,
        version=1,
        main_due=True,
        last_position=1,
        has_parked=False,
        expires_at=0.0,
    )


@pytest.fixture
def due_streams() -> DueStreams:
    """The state of a worker that has searched everywhere and found nothing."""
    due_streams = DueStreams(POLL_S)
    first = due_streams.next_search(may_be_narrow=True)
    assert first is not None
    assert first.streams is None
    assert first.full_scan, "nothing is known yet"
    due_streams.claimed([], all_due=True)
    return due_streams


def test_a_poll_searches_everywhere(due_streams: DueStreams) -> None:
    search = due_streams.next_search(may_be_narrow=True)
    assert search is not None
    assert search.streams is None
    assert not search.full_scan


def test_a_notification_leads_to_the_streams_that_it_names(due_streams: DueStreams) -> None:
    due_streams.expect({ONE})
    due_streams.expect({TWO})
    search = due_streams.next_search(may_be_narrow=True)
    assert search is not None
    assert search.streams == frozenset({ONE, TWO})
    due_streams.expect({ONE})
    due_streams.expect(())
    search = due_streams.next_search(may_be_narrow=True)
    assert search is not None
    assert search.streams is None, "any stream"


def test_without_a_slot_for_healthy_webhooks_the_search_includes_failing_ones(due_streams: DueStreams) -> None:
    due_streams.expect({ONE})
    search = due_streams.next_search(may_be_narrow=False)
    assert search is not None
    assert search.streams is None


def test_steady_notifications_do_not_replace_the_poll() -> None:
    due_streams = DueStreams(poll_s=0.0)
    due_streams.next_search(may_be_narrow=True)
    due_streams.expect({ONE})
    search = due_streams.next_search(may_be_narrow=True)
    assert search is not None
    assert search.streams is None


def test_after_finding_everything_the_worker_does_not_search_again_at_once(due_streams: DueStreams) -> None:
    due_streams.expect({ONE})
    due_streams.next_search(may_be_narrow=True)
    due_streams.claimed([make_lease(ONE)], all_due=True)
    assert due_streams.next_search(may_be_narrow=True) is None
    assert due_streams.next_search(may_be_narrow=True) is not None, "the next poll"


def test_after_a_failure_everything_is_read(due_streams: DueStreams) -> None:
    due_streams.expect({ONE})
    due_streams.next_search(may_be_narrow=True)
    due_streams.search_failed()
    search = due_streams.next_search(may_be_narrow=True)
    assert search is not None
    assert search.streams is None
    assert search.full_scan


def test_events_during_a_turn_lead_to_a_search_after_it(due_streams: DueStreams) -> None:
    """The release may have read the stream just before they were committed, and the search finds the webhook leased."""
    first, second = make_lease(ONE, 1), make_lease(ONE, 2)
    due_streams.claimed([first, second], all_due=True)
    due_streams.expect({ONE})
    assert due_streams.next_search(may_be_narrow=True) is not None
    due_streams.claimed([], all_due=True)
    for lease in (first, second):
        assert due_streams.end_turn(lease)
        search = due_streams.next_search(may_be_narrow=True)
        assert search is not None
        assert search.streams == frozenset({ONE})
    due_streams.claimed([first], all_due=True)
    due_streams.expect({TWO})
    assert not due_streams.end_turn(first)


@pytest.mark.parametrize("named", [True, False])
async def test_an_event_is_delivered_without_waiting_for_the_poll(
    stage: Stage, receiver: Receiver, named: bool
) -> None:
    """Also one that is committed while its webhook is leased."""
    await stage.register(receiver.url)
    async with stage.working(stage.change(worker_poll_s=POLL_S)) as worker:
        deliverer = worker.services.deliverer
        streams = frozenset({Stream(stage.one.organisation_id, stage.one.mode)} if named else ())
        notification = Notification(frozenset({WorkKind.EVENTS}), streams)
        for n in range(1, 21):
            await stage.emit(stage.one)
            deliverer.expect(notification)
            deliverer.more_due.set()
            if n % 2:
                await receiver.arrived(lambda n=n: len(receiver.events) >= n)  # type: ignore[misc]
        await receiver.arrived(lambda: len(receiver.events) == 20)
        await stage.idle()


def test_a_turn_may_stay_while_most_slots_are_free() -> None:
    slots = Slots(4)
    first, *others = (make_lease(ONE, number) for number in range(4))
    slots.acquire(first)
    slots.acquire(others[0])
    assert slots.may_stay(first)
    slots.acquire(others[1])
    assert not slots.may_stay(first), "others may need the slot"
    slots.release(others[1])
    assert slots.may_stay(first)
    slots._occupied[first.id, first.token].since -= SLOW_TURN_S
    assert not slots.may_stay(first), "a slow turn would count as a failing one"


async def test_a_backlog_is_delivered_in_one_turn_while_slots_are_free(stage: Stage, receiver: Receiver) -> None:
    """A claim waits for the disk. With one slot, the webhook is released after its share of batches."""
    hook = await stage.register(receiver.url)
    for _ in range(6):
        await stage.emit_many(stage.one, ["{}"] * 500)
    claims = []
    for slots in (256, 1):
        before = (await stage.row(hook))["lease_token"]
        await stage.execute("UPDATE webhooks SET cursor_position = 0, due_at = now()")
        await stage.deliver(stage.change(webhook_concurrency=slots))
        claims.append((await stage.row(hook))["lease_token"] - before)
    assert len(receiver.events) == 6000
    assert claims[0] < claims[1]

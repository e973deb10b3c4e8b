"""Where a worker looks for due webhooks: notifications make it look in the streams that they name."""

import pytest

from tests.channels.webhooks.stage import Stage
from tests.support.receivers import Receiver
from tonne.channels.webhooks.delivery.due_streams import Looks
from tonne.channels.webhooks.delivery.slots import SLOW_TURN_S, Places
from tonne.channels.webhooks.model import Lease
from tonne.platform.events.notification import Stream
from tonne.platform.values.scope import Mode

ONE, TWO = Stream("org_1", Mode.TEST), Stream("org_2", Mode.LIVE)
POLL_S = 60.0


def _lease(stream: Stream, number: int = 1) -> Lease:
    return Lease(
        organisation_id=stream.organisation_id,
        mode=Mode(stream.mode),
        id=f"wh_{number}",
        url="https://receiver.test/",
        account_ids=(),
        event_types=(),
        sealed_secret=b"",
        old_sealed_secret=None,
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
def looks() -> Looks:
    """Of a worker that has looked everywhere, and found nothing."""
    looks = Looks(POLL_S)
    first = looks.next(may_be_narrow=True)
    assert first is not None
    assert first.streams is None
    assert first.full_scan, "nothing is known yet"
    looks.found([], all_due=True)
    return looks


def test_a_poll_looks_everywhere(looks: Looks) -> None:
    look = looks.next(may_be_narrow=True)
    assert look is not None
    assert look.streams is None
    assert not look.full_scan


def test_a_notification_leads_to_the_streams_that_it_names(looks: Looks) -> None:
    looks.expect({ONE})
    looks.expect({TWO})
    look = looks.next(may_be_narrow=True)
    assert look is not None
    assert look.streams == frozenset({ONE, TWO})
    looks.expect({ONE})
    looks.expect(())
    look = looks.next(may_be_narrow=True)
    assert look is not None
    assert look.streams is None, "any stream"


def test_without_a_place_for_new_webhooks_the_look_is_for_failing_ones_too(looks: Looks) -> None:
    looks.expect({ONE})
    look = looks.next(may_be_narrow=False)
    assert look is not None
    assert look.streams is None


def test_steady_notifications_do_not_replace_the_poll() -> None:
    looks = Looks(poll_s=0.0)
    looks.next(may_be_narrow=True)
    looks.expect({ONE})
    look = looks.next(may_be_narrow=True)
    assert look is not None
    assert look.streams is None


def test_after_finding_everything_the_worker_does_not_look_again_at_once(looks: Looks) -> None:
    looks.expect({ONE})
    looks.next(may_be_narrow=True)
    looks.found([_lease(ONE)], all_due=True)
    assert looks.next(may_be_narrow=True) is None
    assert looks.next(may_be_narrow=True) is not None, "the next poll"


def test_after_a_failure_everything_is_read(looks: Looks) -> None:
    looks.expect({ONE})
    looks.next(may_be_narrow=True)
    looks.failed()
    look = looks.next(may_be_narrow=True)
    assert look is not None
    assert look.streams is None
    assert look.full_scan


def test_events_during_a_turn_lead_to_a_look_after_it(looks: Looks) -> None:
    """The release may have read the stream just before they were committed, and the look finds the webhook leased."""
    first, second = _lease(ONE, 1), _lease(ONE, 2)
    looks.found([first, second], all_due=True)
    looks.expect({ONE})
    assert looks.next(may_be_narrow=True) is not None
    looks.found([], all_due=True)
    for lease in (first, second):
        assert looks.leave(lease)
        look = looks.next(may_be_narrow=True)
        assert look is not None
        assert look.streams == frozenset({ONE})
    looks.found([first], all_due=True)
    looks.expect({TWO})
    assert not looks.leave(first)


@pytest.mark.parametrize("named", [True, False])
async def test_an_event_is_delivered_without_waiting_for_the_poll(
    stage: Stage, receiver: Receiver, named: bool
) -> None:
    """Also one that is committed while its webhook is leased."""
    await stage.register(receiver.url)
    async with stage.working(stage.change(worker_poll_s=POLL_S)) as worker:
        deliverer = worker.services.deliverer
        streams = frozenset({Stream(stage.one.organisation_id, stage.one.mode)} if named else ())
        for n in range(1, 21):
            await stage.emit(stage.one)
            deliverer.expect(streams)
            deliverer.more_due.set()
            if n % 2:
                await receiver.arrived(lambda n=n: len(receiver.events) >= n)  # type: ignore[misc]
        await receiver.arrived(lambda: len(receiver.events) == 20)
        await stage.idle()


def test_a_turn_may_stay_while_most_places_are_free() -> None:
    places = Places(4)
    first, *others = (_lease(ONE, number) for number in range(4))
    places.take(first)
    places.take(others[0])
    assert places.may_stay(first)
    places.take(others[1])
    assert not places.may_stay(first), "others may need the place"
    places.leave(others[1])
    assert places.may_stay(first)
    places._turns[first.id, first.token].started -= SLOW_TURN_S
    assert not places.may_stay(first), "a slow turn would count as a failing one"


async def test_a_backlog_is_delivered_in_one_turn_while_places_are_free(stage: Stage, receiver: Receiver) -> None:
    """A claim waits for the disk. With one place, the webhook is released after its share of batches."""
    hook = await stage.register(receiver.url)
    for _ in range(6):
        await stage.emit_many(stage.one, ["{}"] * 500)
    claims = []
    for places in (256, 1):
        before = (await stage.row(hook))["lease_token"]
        await stage.execute("UPDATE webhooks SET cursor_position = 0, due_at = now()")
        await stage.deliver(stage.change(webhook_concurrency=places))
        claims.append((await stage.row(hook))["lease_token"] - before)
    assert len(receiver.events) == 6000
    assert claims[0] < claims[1]

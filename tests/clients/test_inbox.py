"""The webhook inbox with each of its stores: no duplicates, order per account, retries, leases, crashes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tonne_client import InboxStore, MemoryStore, SqliteStore, WebhookInbox
from tonne_client.models import OrderPlacedEvent, WebhookEvent


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InboxStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    made = SqliteStore(tmp_path / "inbox.db")
    yield made
    made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inbox(store: InboxStore, clock: Clock) -> WebhookInbox:
    return WebhookInbox(store, clock=clock)


def event(number: int, account: str = "acc_1") -> WebhookEvent:
    return OrderPlacedEvent(
        {
            "event_type": "order.placed",
            "event_id": f"evt_{account}_{number}",
            "account_id": account,
            "sequence": f"2026-11-15T10:00:00.{number:03d}Z",
            "data": {"order": {"id": f"ord_{number}"}},
        }
    )


def numbers(events: list[WebhookEvent], account: str = "acc_1") -> list[int]:
    return [int(each.event_id.rpartition("_")[2]) for each in events if each.account_id == account]


def test_duplicates_are_ignored_before_and_after_handling(inbox: WebhookInbox) -> None:
    handled: list[WebhookEvent] = []
    assert inbox.receive([event(1), event(2), event(1)]) == 2
    assert inbox.receive([event(2), event(3)]) == 1
    assert inbox.process(handled.append) == 3
    assert numbers(handled) == [1, 2, 3]
    assert inbox.receive([event(1), event(3)]) == 0
    assert inbox.process(handled.append) == 0
    assert type(handled[0]) is OrderPlacedEvent
    assert handled[0].data.order.id == "ord_1"


def test_the_order_is_that_of_the_sequences(inbox: WebhookInbox) -> None:
    handled: list[WebhookEvent] = []
    inbox.receive([event(3), event(1), event(2, "acc_2")])
    inbox.receive([event(2), event(1, "acc_2")])
    inbox.process(handled.append)
    assert (numbers(handled), numbers(handled, "acc_2")) == ([1, 2, 3], [1, 2])


def test_a_failed_event_holds_up_its_account_only(inbox: WebhookInbox, clock: Clock) -> None:
    handled: list[WebhookEvent] = []
    failing = True

    def handle(each: WebhookEvent) -> None:
        if failing and each.event_id == "evt_acc_1_2":
            raise ValueError("no")
        handled.append(each)

    inbox.receive([event(1), event(2), event(3), event(1, "acc_2"), event(2, "acc_2")])
    with pytest.raises(ValueError, match="no") as raised:
        inbox.process(handle)
    assert raised.value.__notes__ == ["Event evt_acc_1_2 will be tried again in 1 s."]
    assert (numbers(handled), numbers(handled, "acc_2")) == ([1], [1, 2])
    assert inbox.process(handle) == 0
    clock.now += 1
    with pytest.raises(ValueError, match="no") as raised:
        inbox.process(handle)
    assert "in 2 s" in raised.value.__notes__[0]
    failing = False
    clock.now += 2
    assert inbox.process(handle) == 2
    assert numbers(handled) == [1, 2, 3]


def test_several_failures_are_raised_together(inbox: WebhookInbox) -> None:
    def handle(each: WebhookEvent) -> None:
        raise ValueError(each.event_id)

    inbox.receive([event(1), event(1, "acc_2")])
    with pytest.raises(ExceptionGroup) as raised:
        inbox.process(handle)
    assert len(raised.value.exceptions) == 2


def test_a_claimed_event_comes_back_when_its_process_died(store: InboxStore, inbox: WebhookInbox, clock: Clock) -> None:
    inbox.receive([event(1), event(2)])
    claimed = store.claim(clock.now, 60)
    assert claimed is not None
    handled: list[WebhookEvent] = []
    assert inbox.process(handled.append) == 0
    clock.now += 60
    assert inbox.process(handled.append, limit=1) == 1
    assert numbers(handled) == [1]


def test_forgotten_events_are_still_duplicates(inbox: WebhookInbox, clock: Clock) -> None:
    inbox.receive([event(1), event(2)])
    inbox.process(lambda _: None, limit=1)
    clock.now += 100
    assert inbox.forget(older_than_s=200) == 0
    assert inbox.forget(older_than_s=50) == 1
    assert inbox.receive([event(1)]) == 0
    assert inbox.receive([event(3)]) == 1
    handled: list[WebhookEvent] = []
    inbox.process(handled.append)
    assert numbers(handled) == [2, 3]


async def test_async_functions_can_handle_events(inbox: WebhookInbox) -> None:
    handled: list[WebhookEvent] = []

    async def handle(each: WebhookEvent) -> None:
        if each.account_id == "acc_2":
            raise ValueError("no")
        handled.append(each)

    inbox.receive([event(1), event(2), event(1, "acc_2")])
    with pytest.raises(ValueError, match="no"):
        await inbox.process_async(handle)
    assert numbers(handled) == [1, 2]


def test_threads_share_an_inbox_and_keep_the_order(store: InboxStore) -> None:
    """Each thread delivers all events in order, with duplicates, and handles what is due."""
    inbox = WebhookInbox(store)
    accounts, count = [f"acc_{number}" for number in range(3)], 8
    handled: list[WebhookEvent] = []
    busy: set[str] = set()
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def handle(each: WebhookEvent) -> None:
        assert each.account_id not in busy
        busy.add(each.account_id)
        handled.append(each)
        busy.remove(each.account_id)

    def work(seed: int) -> None:
        try:
            start.wait()
            mixed = accounts[seed % 3 :] + accounts[: seed % 3]
            for number in range(count):
                inbox.receive([event(number, account) for account in mixed])
                inbox.process(handle, limit=2)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            if isinstance(store, SqliteStore):
                store.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    inbox.process(handle)
    assert not failures
    for account in accounts:
        assert numbers(handled, account) == list(range(count))


def test_events_survive_the_end_of_the_process(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "inbox.db")
    WebhookInbox(first).receive([event(1)])
    first.close()
    handled: list[WebhookEvent] = []
    second = SqliteStore(tmp_path / "inbox.db")
    assert WebhookInbox(second).receive([event(1), event(2)]) == 1
    WebhookInbox(second).process(handled.append)
    second.close()
    assert numbers(handled) == [1, 2]

"""Section 6.4: order and back-off."""

import itertools
from collections import defaultdict

from tonne_conformance.checks import check
from tonne_conformance.expect import expect, fail
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Delivery, Event, Inbox, Receiver, Reply, is_acknowledged, order_of
from tonne_conformance.scenes import cancelled, client_order, completed, healthy, refusing, register

ORDERING = "Events of the same Account or Client Account arrive in the order they occurred."
BACKOFF = "A backoff policy applies after several failed attempts."
# How many receivers are tried for the back-off, and how often each refuses.
RECEIVERS = 3
REFUSED_TIMES = 3
CLEARLY = 2.0


def _expect_in_order(events: list[Event]) -> None:
    by_account: defaultdict[str, list[str]] = defaultdict(list)
    for event in events:
        by_account[str(event.get("account_id"))].append(str(event.get("sequence")))
    for sequences in by_account.values():
        for earlier, later in itertools.pairwise(sequences):
            expect(earlier < later, f"a sequence after {earlier}", later)


@check("6.4", ORDERING)
def events_of_an_account_arrive_in_order(service: Service, receiver: Receiver) -> None:
    for make in (completed, cancelled, client_order):
        make(service, receiver)
    _expect_in_order(healthy(service, receiver).new_events)


@check("6.4", ORDERING)
def events_of_an_order_arrive_in_the_order_of_its_life(service: Service, receiver: Receiver) -> None:
    life = ["received", "placed", "paid", "retiring", "complete"]
    for make in (completed, client_order):
        statuses = [str(order_of(event).get("status")) for event in make(service, receiver).events]
        expect(statuses == life, f"{life}", statuses)


@check("6.4", ORDERING)
def events_arrive_in_order_at_a_receiver_that_refuses(service: Service, receiver: Receiver) -> None:
    for inbox in refusing(service, receiver):
        first: dict[str, Event] = {}
        for event in inbox.acknowledged_events():
            first.setdefault(str(event.get("event_id")), event)
        _expect_in_order(list(first.values()))


@check("6.4", ORDERING)
def no_later_event_of_an_account_overtakes_a_refused_one(service: Service, receiver: Receiver) -> None:
    """After a refusal, the next event of the account is the one that was refused first."""
    for inbox in refusing(service, receiver):
        deliveries = inbox.deliveries
        for number, refused in enumerate(deliveries):
            if is_acknowledged(refused):
                continue
            following = [event for delivery in deliveries[number + 1 :] for event in delivery.events]
            for account_id in {event.get("account_id") for event in refused.events}:
                first, again = _first_of(account_id, refused.events), _first_of(account_id, following)
                expect(again == first, f"first the event {first}", again, refused)


def _first_of(account_id: object, events: list[Event]) -> object:
    return next((event.get("event_id") for event in events if event.get("account_id") == account_id), None)


def _backing_off(service: Service, receiver: Receiver, name: str) -> Inbox:
    """A receiver that refuses its first requests."""
    inbox = receiver.inbox(name)

    def rule(_: Delivery) -> Reply:
        return Reply(500) if len(inbox.deliveries) < REFUSED_TIMES else Reply()

    inbox.rule = rule
    return register(service, receiver, name)


def _pauses(inbox: Inbox) -> list[float]:
    """After each of the refused requests."""
    inbox.wait(lambda: len(inbox.deliveries) > REFUSED_TIMES, f"{REFUSED_TIMES + 1} attempts")
    times = [delivery.at_s for delivery in inbox.deliveries[: REFUSED_TIMES + 1]]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@check("6.4", BACKOFF)
def the_pause_grows_with_the_failed_attempts(service: Service, receiver: Receiver) -> None:
    """The shortest ones are compared: chance changes a pause a little, and a busy machine only makes it longer."""
    inboxes = [_backing_off(service, receiver, f"backing-off-{number}") for number in range(RECEIVERS)]
    service.place("backing-off")
    pauses = [_pauses(inbox) for inbox in inboxes]
    firsts, lasts = [each[0] for each in pauses], [each[-1] for each in pauses]
    if min(lasts) <= min(firsts) * CLEARLY:
        came = [f"{last:.1f} s after {first:.1f} s" for first, last in zip(firsts, lasts, strict=True)]
        fail("clearly longer pauses after the last failures than after the first", came)

"""Sections 4.6, 6.4, 7 and 8: the real limit of 30 seconds."""

from tonne_conformance.checks import check
from tonne_conformance.expect import expect
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Delivery, Inbox, Receiver, Reply
from tonne_conformance.scenes import register, scene

WITHIN_30_S = "Expected response: any 2xx status within 30 seconds, which acknowledges the events."
TIMEOUT = (
    "Timeout: A request to the receiver times out after 30 seconds. A timed-out request counts as unacknowledged and "
    "is redelivered."
)
CONDITION = "Webhook receiver … times out (30 s): Events stay unacknowledged and are redelivered."
LIMIT = "Webhook acknowledgement and request timeout: 30 seconds (Receiver)."
JUST_IN_TIME_S, TOO_LATE_S = 29.0, 31.0
# For the slow reply, the first pause after a failure, and an order.
WITHIN_S = 75.0


def _slow(service: Service, receiver: Receiver, name: str, after_s: float) -> Inbox:
    """A receiver whose first reply takes that long. It got the events of a later order, too."""
    inbox = receiver.inbox(name)

    def rule(_: Delivery) -> Reply:
        return Reply() if inbox.deliveries else Reply(after_s=after_s)

    inbox.rule = rule
    register(service, receiver, name)
    service.place(name)
    inbox.wait(lambda: len(inbox.deliveries) >= 1, "a first request")
    later = service.place(f"{name}-later")
    inbox.wait_for_event(str(later["id"]), "order.completed", WITHIN_S)
    return inbox


@scene
def in_time(service: Service, receiver: Receiver) -> Inbox:
    return _slow(service, receiver, "in-time", JUST_IN_TIME_S)


@scene
def too_late(service: Service, receiver: Receiver) -> Inbox:
    return _slow(service, receiver, "too-late", TOO_LATE_S)


def _again(inbox: Inbox) -> set[str]:
    """The events of the first request that came again."""
    first, *rest = inbox.deliveries
    return set(first.event_ids) & {event_id for delivery in rest for event_id in delivery.event_ids}


@check("4.6", WITHIN_30_S, slow=True)
def a_reply_after_29_seconds_acknowledges(service: Service, receiver: Receiver) -> None:
    inbox = in_time(service, receiver)
    expect(not _again(inbox), "no redelivery", sorted(_again(inbox)), inbox.deliveries[0])


@check("8", LIMIT, slow=True)
def the_service_waits_for_29_seconds(service: Service, receiver: Receiver) -> None:
    first, following = in_time(service, receiver).deliveries[:2]
    pause = following.at_s - first.at_s
    expect(pause >= JUST_IN_TIME_S, "the next request after the reply", f"after {pause:.1f} s", following)


@check("6.4", TIMEOUT, slow=True)
def a_reply_after_31_seconds_is_too_late(service: Service, receiver: Receiver) -> None:
    inbox = too_late(service, receiver)
    first = inbox.deliveries[0]
    expect(_again(inbox) == set(first.event_ids), "all events again", sorted(_again(inbox)), first)


@check("7", CONDITION, slow=True)
def events_of_a_timed_out_request_are_acknowledged_later(service: Service, receiver: Receiver) -> None:
    first, *rest = too_late(service, receiver).deliveries
    accepted = {event_id for delivery in rest for event_id in delivery.event_ids}
    missing = set(first.event_ids) - accepted
    expect(not missing, "all events again", sorted(missing), first)


@check("8", LIMIT, slow=True)
def the_service_gives_up_after_30_seconds(service: Service, receiver: Receiver) -> None:
    first, following = too_late(service, receiver).deliveries[:2]
    pause = following.at_s - first.at_s
    expect(pause >= 30.0, "the next request not before 30 s", f"after {pause:.1f} s", following)

"""Sections 1, 4.5, 5.1 and 6.6: test and live mode are apart. With a live key, the suite only reads."""

from typing import Any

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect
from tonne_conformance.installation import Reader, Service
from tonne_conformance.receiver import Receiver, order_of
from tonne_conformance.scenes import by_value, cancelled, completed, failed, healthy, linked, payment, registration

SEPARATE = "Live mode and test mode are separate, and webhooks never mix them."
SEES = "Test-mode and live-mode keys exist. The mode of the key decides the mode of what it creates and sees."
JOURNEYS = {"completed": completed, "cancelled": cancelled, "failed": failed, "by-value": by_value, "linked": linked}


def _live_orders(live: Reader) -> list[dict[str, Any]]:
    page = live.get("/orders", {"limit": "100"}).object()
    return list(page["data"])


@check("5.1", SEES)
def a_live_key_is_accepted(live: Reader) -> None:
    answer = live.get("/orders")
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check_each("5.1", dict.fromkeys(JOURNEYS, SEES))
def a_live_key_does_not_find_a_test_order(name: str, service: Service, receiver: Receiver, live: Reader) -> None:
    order = JOURNEYS[name](service, receiver).last
    live.get(f"/orders/by-idempotency-key/{order['idempotency_key']}").refused()


@check_each("1", dict.fromkeys(JOURNEYS, SEPARATE))
def a_test_order_is_not_in_the_live_list(name: str, service: Service, receiver: Receiver, live: Reader) -> None:
    order = JOURNEYS[name](service, receiver).last
    ids = [found.get("id") for found in _live_orders(live)]
    expect(order["id"] not in ids, f"no order {order['id']}", ids, order)


@check("1", SEPARATE)
def the_two_lists_have_no_order_in_common(service: Service, receiver: Receiver, live: Reader) -> None:
    completed(service, receiver)
    ours = {order.get("id") for order in service.get("/orders", {"limit": "100"}).object()["data"]}
    both = ours & {order.get("id") for order in _live_orders(live)}
    equal(sorted(map(str, both)), [])


@check("5.1", SEES)
def a_live_key_does_not_get_a_test_certificate(service: Service, receiver: Receiver, live: Reader) -> None:
    live.get(str(completed(service, receiver).last["certificate"])).refused()


@check("5.1", SEES)
def a_live_key_does_not_find_a_test_payment(service: Service, live: Reader) -> None:
    live.get(f"/payments/by-temporary-id/{payment(service).temporary_id}").refused()


@check("5.1", SEES)
def a_live_key_does_not_list_the_orders_of_a_test_link(service: Service, receiver: Receiver, live: Reader) -> None:
    link_id = str(linked(service, receiver).last["offset_link_id"])
    answer = live.get("/orders", {"offset_link_id": link_id})
    orders = answer.document.get("data") if answer.ok else []
    equal(orders, [], answer)


@check("6.6", "Registration must be done separately for live and test modes.")
def a_webhook_of_test_mode_is_not_one_of_live_mode(service: Service, receiver: Receiver, live: Reader) -> None:
    webhook = registration(service, receiver).object()
    live.get(f"/webhooks/{webhook['id']}").refused()


@check("4.5", "Test keys give test events, live keys give live events.")
def a_test_webhook_gets_no_live_order(service: Service, receiver: Receiver, live: Reader) -> None:
    completed(service, receiver)
    ids = {order.get("id") for order in _live_orders(live)}
    got = {order_of(event).get("id") for event in healthy(service, receiver).events}
    equal(sorted(map(str, ids & got)), [])


@check("1", SEPARATE)
def the_accounts_of_the_events_are_not_those_of_live_mode(service: Service, receiver: Receiver, live: Reader) -> None:
    completed(service, receiver)
    account_id = live.get("/accounts/me").object()["id"]
    got = {event.get("account_id") for event in healthy(service, receiver).events}
    expect(account_id not in got, "no event of the live account", account_id)

"""Sections 8 and 9: limits that have no other place, versions, and what cannot be proven from outside."""

from urllib.parse import urlsplit

from tonne_conformance.checks import Unproven, check
from tonne_conformance.expect import equal, expect
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import completed

LIMIT = "limit query parameter: 1 to 100 (GET /orders)."


@check("8", LIMIT)
def a_limit_of_1_is_accepted(service: Service, receiver: Receiver) -> None:
    completed(service, receiver)
    page = service.get("/orders", {"limit": "1"}).object()
    equal(len(page["data"]), 1, page)


@check("8", LIMIT)
def a_limit_of_100_is_accepted(service: Service) -> None:
    answer = service.get("/orders", {"limit": "100"})
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check("8", LIMIT)
def a_limit_of_101_is_refused(service: Service) -> None:
    service.get("/orders", {"limit": "101"}).refused()


@check("8", LIMIT)
def a_limit_of_0_is_refused(service: Service) -> None:
    service.get("/orders", {"limit": "0"}).refused()


@check("9", "Request paths sit under a base address that the samples show ending in the segment `v1`.")
def the_certificate_sits_below_the_version(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    path = urlsplit(str(order.get("certificate"))).path
    expect(path.startswith("/v1/") or "/v1/" in path, "a path with the segment v1", path, order)


UNPROVEN = (
    Unproven(
        "1",
        "With `invoice`, the service e-mails an invoice with payment instructions.",
        "The mail goes to the organisation, whose mailbox the suite cannot read.",
    ),
    Unproven(
        "1",
        "Webhooks registered in the dashboard cover all Accounts and Client Accounts of the organisation.",
        "It needs a person who is signed in to the dashboard.",
    ),
    Unproven(
        "2.1",
        "The projects within a bundle may change with supply.",
        "It needs an operator who changes the supply.",
    ),
    Unproven(
        "4.5",
        "Live keys give live events.",
        "It needs an order in live mode, and the suite never places one.",
    ),
    Unproven(
        "6.4",
        "Events of different accounts may arrive out of order.",
        "It permits something and promises nothing.",
    ),
    Unproven(
        "6.4",
        "Head-of-line blocking: An unacknowledged event can hold up later events in the same queue.",
        "It permits something and promises nothing.",
    ),
    Unproven(
        "6.6",
        "Receivers registered in the dashboard get test or live events according to whether test mode was on.",
        "It needs a person who is signed in to the dashboard.",
    ),
    Unproven(
        "6.6",
        "They get events for all Accounts and Client Accounts of the organisation.",
        "It needs a person who is signed in to the dashboard.",
    ),
    Unproven(
        "7",
        "Webhook signature does not match: The receiver discards the request.",
        "What a receiver does is up to its owner; the suite proves that a changed body does not match.",
    ),
    Unproven(
        "8",
        "Webhook URL scheme: HTTPS only (dashboard registration).",
        "It needs a person who is signed in to the dashboard.",
    ),
)

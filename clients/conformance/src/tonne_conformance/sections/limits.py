"""Sections 8 and 9: limits and versions that have no other place."""

from urllib.parse import urlsplit

from tonne_conformance.checks import check
from tonne_conformance.expect import equal, expect
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import completed

LIMIT = "limit query parameter: 1 to 100 (GET /orders)."


@check("8", LIMIT)
def a_limit_of_1_is_accepted(service: Service) -> None:
    for number in range(2):
        service.place(f"limit-of-1-{number}")
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

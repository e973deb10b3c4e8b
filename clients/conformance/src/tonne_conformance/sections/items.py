"""Sections 2.2 and 2.3: the bundles and projects of an order."""

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import decimal_string, equal, expect, has, text
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver, order_of
from tonne_conformance.scenes import completed

BUNDLE_FIELDS = (
    "bundle_id",
    "bundle_name",
    "primary_image",
    "quantity",
    "unit_price",
    "gross_unit_price",
    "offset_cost",
    "insufficient_available_quantity",
)
PROJECT_FIELDS = (
    "quantity",
    "unit_price",
    "offset_cost",
    "project_id",
    "project_name",
    "project_type",
    "project_slug",
)
BUNDLE_ROW = "Bundle item (element of `bundles`), fields: `{}`."
PROJECT_ROW = "Project item (element of `projects`), fields: `{}`."
DECIMALS = "Quantities and prices are decimal strings in the samples."
AMOUNTS = ("quantity", "unit_price", "gross_unit_price", "offset_cost")


@check_each("2.2", {name: BUNDLE_ROW.format(name) for name in BUNDLE_FIELDS})
def each_bundle_has_the_field(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for bundle in order["bundles"]:
        has(bundle, name, order)


@check_each("2.2", {name: BUNDLE_ROW.format(name) for name in BUNDLE_FIELDS if name != "primary_image"})
def each_bundle_of_an_event_has_the_field(name: str, service: Service, receiver: Receiver) -> None:
    for bundle in order_of(completed(service, receiver).event("order.completed"))["bundles"]:
        has(bundle, name)


@check_each("2.2", dict.fromkeys(AMOUNTS, DECIMALS))
def each_amount_of_a_bundle_is_a_decimal_string(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for bundle in order["bundles"]:
        decimal_string(bundle.get(name), order)


@check_each("2.2", {name: BUNDLE_ROW.format(name) for name in ("bundle_id", "bundle_name")})
def each_bundle_is_named(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for bundle in order["bundles"]:
        text(bundle.get(name), order)


@check("2.2", "`insufficient_available_quantity` (boolean in the samples).")
def the_shortage_is_a_boolean(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for bundle in order["bundles"]:
        came = bundle.get("insufficient_available_quantity")
        expect(isinstance(came, bool), "true or false", came, order)


@check("2.2", "`primary_image` (image URL).")
def the_image_of_a_bundle_can_be_loaded(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for bundle in order["bundles"]:
        url = bundle.get("primary_image")
        if url is not None:
            answer = service.send_without_key("GET", str(url))
            kind = answer.headers.get("content-type", "")
            expect(answer.ok and kind.startswith("image/"), "an image", f"{answer.status} {kind}", answer)


@check_each("2.3", {name: PROJECT_ROW.format(name) for name in PROJECT_FIELDS})
def each_project_has_the_field(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for project in order["projects"]:
        has(project, name, order)


@check_each("2.3", {name: PROJECT_ROW.format(name) for name in PROJECT_FIELDS})
def each_field_of_a_project_is_a_string(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for project in order["projects"]:
        text(project.get(name), order)


@check_each("2.3", {name: PROJECT_ROW.format(name) for name in PROJECT_FIELDS})
def each_project_of_an_event_is_the_same(name: str, service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    in_event = [project.get(name) for project in order_of(journey.event("order.completed"))["projects"]]
    equal(in_event, [project.get(name) for project in journey.last["projects"]], journey.last)

"""Sections 4.3 and 8: the selection of bundles."""

from decimal import Decimal
from typing import Any

from tonne_conformance.checks import Skip, check, check_each
from tonne_conformance.expect import equal, expect
from tonne_conformance.installation import Answer, Document, Service

SUM = "The percentages must sum to 100."
OMITTED = "When omitted, the preconfigured allocation ratios apply."
EQUAL = "When the selections carry no percentage, the split between bundles is equal on a best-effort basis."
ALL_OR_NONE = "A percentage must be given for all selections or for none."
LIMIT = "bundle_selection percentages must sum to 100 (POST /orders/by-estimate)."
GOOD: dict[str, tuple[str, ...]] = {
    "one-bundle": ("100",),
    "halves": ("50", "50"),
    "unequal": ("75", "25"),
    "decimals": ("33.5", "66.5"),
    "thirds": ("33.333", "33.333", "33.334"),
    "small-part": ("99.99", "0.01"),
    "trailing-zeros": ("60.00", "40.0"),
}
BAD: dict[str, tuple[Any, ...]] = {
    "99": ("50", "49"),
    "101": ("50", "51"),
    "100.01": ("50.01", "50"),
    "99.99": ("49.99", "50"),
    "one-alone": ("40",),
    "200": ("100", "100"),
    "0": ("0", "0"),
    "thirds-that-miss": ("33.33", "33.33", "33.33"),
}


def _bundle_ids(service: Service, count: int) -> list[str]:
    """Bundles that are for sale."""
    page = service.shared("bundles", lambda: service.get("/bundles", {"limit": "100"}).object())
    ids = [str(bundle["id"]) for bundle in page["data"] if not bundle.get("disabled")]
    if len(ids) < count:
        raise Skip(f"The catalogue has fewer than {count} bundles.")
    return ids[:count]


def _selection(service: Service, percentages: tuple[Any, ...]) -> list[dict[str, Any]]:
    ids = _bundle_ids(service, len(percentages))
    chosen = []
    for bundle_id, percentage in zip(ids, percentages, strict=True):
        chosen.append({"bundle_id": bundle_id} | ({} if percentage is None else {"percentage": percentage}))
    return chosen


def _place(service: Service, name: str, selection: object) -> Answer:
    body = {
        "estimate_id": service.estimate("100000"),
        "idempotency_key": service.key(f"bundles-{name}"),
        "bundle_selection": selection,
    }
    return service.post("/orders/by-estimate", body)


def _quantities(order: Document) -> dict[str, Decimal]:
    return {str(bundle["bundle_id"]): Decimal(bundle["quantity"]) for bundle in order["bundles"]}


@check_each("4.3", dict.fromkeys(GOOD, SUM))
def percentages_of_100_are_accepted(name: str, service: Service) -> None:
    order = _place(service, f"good-{name}", _selection(service, GOOD[name])).object()
    equal(len(order["bundles"]), len(GOOD[name]), order)


@check_each("4.3", dict.fromkeys(("halves", "unequal", "decimals"), SUM))
def the_quantity_is_split_by_the_percentages(name: str, service: Service) -> None:
    selection = _selection(service, GOOD[name])
    order = _place(service, f"split-{name}", selection).object()
    came = _quantities(order)
    for chosen in selection:
        expected = Decimal(100) * Decimal(chosen["percentage"]) / 100
        quantity = came.get(chosen["bundle_id"])
        expect(quantity == expected, f"{expected} t of {chosen['bundle_id']}", quantity, order)


@check("4.3", SUM)
def percentages_may_be_numbers(service: Service) -> None:
    order = _place(service, "numbers", _selection(service, (70, 30))).object()
    equal(sorted(int(quantity) for quantity in _quantities(order).values()), [30, 70], order)


@check_each("4.3", dict.fromkeys(BAD, SUM))
def another_sum_is_refused(name: str, service: Service) -> None:
    _place(service, f"bad-{name}", _selection(service, BAD[name])).refused()


@check_each("8", dict.fromkeys(("99.99", "100.01"), LIMIT))
def a_refused_sum_places_no_order(name: str, service: Service) -> None:
    _place(service, f"none-{name}", _selection(service, BAD[name])).refused()
    service.find(service.key(f"bundles-none-{name}")).refused()


@check("4.3", OMITTED)
def without_a_selection_the_preconfigured_ratios_apply(service: Service) -> None:
    answer = service.get("/bundle-selections")
    ratios = answer.document if answer.ok and isinstance(answer.document, list) else []
    if not ratios or any(ratio.get("percentage") is None for ratio in ratios):
        raise Skip("The account has no preconfigured ratios that can be read.")
    order = service.place("omitted", estimate_id=service.estimate("100000"))
    came = _quantities(order)
    for ratio in ratios:
        expected = Decimal(str(ratio["percentage"]))
        expect(came.get(ratio["bundle_id"]) == expected, f"{expected} t of {ratio['bundle_id']}", str(came), order)
    equal(len(came), len(ratios), order)


@check_each("4.3", dict.fromkeys(("two", "three"), EQUAL))
def without_percentages_the_split_is_equal(name: str, service: Service) -> None:
    count = {"two": 2, "three": 3}[name]
    order = _place(service, f"equal-{name}", _selection(service, (None,) * count)).object()
    quantities = _quantities(order).values()
    equal(len(quantities), count, order)
    close = max(quantities) - min(quantities) <= Decimal("0.001")
    expect(close, "equal quantities", [str(quantity) for quantity in quantities], order)


@check("4.3", EQUAL)
def one_bundle_without_percentage_gets_everything(service: Service) -> None:
    order = _place(service, "single", _selection(service, (None,))).object()
    equal([int(quantity) for quantity in _quantities(order).values()], [100], order)


@check_each("4.3", dict.fromkeys(("first-only", "second-only"), ALL_OR_NONE))
def a_percentage_for_some_is_refused(name: str, service: Service) -> None:
    percentages = ("100", None) if name == "first-only" else (None, "100")
    _place(service, f"some-{name}", _selection(service, percentages)).refused()


@check("4.3", "bundle_selection (array of objects, not required): Bundle percentages.")
def an_unknown_bundle_is_refused(service: Service) -> None:
    _place(service, "unknown", [{"bundle_id": "bun_00000000000000000000000000", "percentage": "100"}]).refused()


@check("4.3", "bundle_selection (array of objects, not required): Bundle percentages.")
def a_selection_that_is_no_array_is_refused(service: Service) -> None:
    bundle_id = _bundle_ids(service, 1)[0]
    _place(service, "no-array", {"bundle_id": bundle_id, "percentage": "100"}).refused()


@check("4.3", "bundle_selection (array of objects, not required): Bundle percentages.")
def exactly_the_selected_bundles_are_ordered(service: Service) -> None:
    selection = _selection(service, ("75", "25"))
    order = _place(service, "exactly", selection).object()
    equal(sorted(_quantities(order)), sorted(chosen["bundle_id"] for chosen in selection), order)

"""Valid and invalid values of `bundle_selection`."""

from decimal import Decimal
from typing import Any

import pytest

from tests.platform.http.writes import ORDERS, QUOTES, count_rows, valid_bodies
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

RATIOS = "bundle_selection_ratios_invalid"
FORMAT = "bundle_selection_ratios_invalid_format"
BUNDLE = "bundle_selection_bundle_invalid"
WHOLE = "bundle_selection"


async def assert_refused(api: ApiClient, database: Database, selection: Any, faults: list[tuple[str, str]]) -> None:
    """Every order and quote endpoint refuses it with these errors, and writes nothing."""
    bodies = await valid_bodies(api)
    before = await count_rows(database)
    for path in (*ORDERS, *QUOTES):
        answer = await api.post(path, bodies[path] | {"bundle_selection": selection})
        found = list(zip(codes(answer), fields(answer), strict=True))
        assert (answer.status_code, found) == (400, faults), path
    assert await count_rows(database) == before


def _bundles(world: World) -> list[str]:
    return list(world.bundles_test.values())


@pytest.mark.parametrize(
    "percentages", [[33.33, 33.33, 33.33], ["33.33", "33.33", "33.34", "0.01"], [99.99], [50, 50, 0.01], [100, 100]]
)
async def test_percentages_must_sum_to_exactly_100(
    percentages: list[Any], api: ApiClient, world: World, populated_db: Database
) -> None:
    selection = [
        {"bundle_id": bundle, "percentage": part}
        for bundle, part in zip(_bundles(world)[: len(percentages)], percentages, strict=True)
    ]
    await assert_refused(api, populated_db, selection, [(RATIOS, WHOLE)])


@pytest.mark.parametrize("percentage", [0, "0.00", -1, "-1", "abc", "", "33.3333333333333", 100.01, "1e1", True, []])
async def test_a_percentage_must_be_a_number_above_0_with_twelve_decimals(
    percentage: Any, api: ApiClient, world: World, populated_db: Database
) -> None:
    first, second, *_ = _bundles(world)
    selection = [{"bundle_id": first, "percentage": percentage}, {"bundle_id": second, "percentage": 100}]
    await assert_refused(api, populated_db, selection, [(FORMAT, "bundle_selection[0].percentage")])


async def test_a_percentage_is_read_digit_by_digit(api: ApiClient, world: World) -> None:
    for number in ("1e999", "1e1", "-0", "1" * 40, "50.0000000000001", "0.000"):
        choice = f'{{"bundle_id":"{_bundles(world)[0]}","percentage":{number}}}'
        raw = f'{{"mass":{{"amount":"1","unit":"t"}},"bundle_selection":[{choice}]}}'
        for path in ("/v1/orders/by-mass", "/v1/orders/by-mass/quote"):
            answer = await api.post_raw(path, raw.encode())
            assert (answer.status_code, codes(answer)) == (400, [FORMAT]), number


@pytest.mark.parametrize(
    "percentages", [["33.333", "33.333", "33.334"], [33.3, 33.3, 33.4], ["33.333333333333"] * 2 + ["33.333333333334"]]
)
async def test_thirds_are_taken_and_returned_as_orders(percentages: list[Any], api: ApiClient, world: World) -> None:
    bundles = _bundles(world)[:3]
    selection = [{"bundle_id": bundle, "percentage": part} for bundle, part in zip(bundles, percentages, strict=True)]
    order = await api.order(bundle_selection=selection)
    assert [each["bundle_id"] for each in order["bundles"]] == bundles
    assert sum(Decimal(each["quantity"]) for each in order["bundles"]) == 1


async def test_some_but_not_all_percentages_are_refused(api: ApiClient, world: World, populated_db: Database) -> None:
    first, second, *_ = _bundles(world)
    selection = [{"bundle_id": first, "percentage": 100}, {"bundle_id": second}]
    await assert_refused(api, populated_db, selection, [(RATIOS, WHOLE)])


async def test_an_empty_selection_is_refused(api: ApiClient, populated_db: Database) -> None:
    await assert_refused(api, populated_db, [], [(RATIOS, WHOLE)])


async def test_a_bundle_twice_is_refused(api: ApiClient, world: World, populated_db: Database) -> None:
    bundle = _bundles(world)[0]
    twice = [{"bundle_id": bundle, "percentage": 50}, {"bundle_id": bundle, "percentage": 50}]
    await assert_refused(api, populated_db, twice, [(BUNDLE, "bundle_selection[1].bundle_id")])


async def test_an_unknown_a_disabled_and_the_other_modes_bundle_are_refused_alike(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    live = next(iter(world.bundles_live.values()))
    unknown = "bun_" + "0" * 26
    for bundle in (unknown, world.disabled_bundle_test, live, "", "x", "🌍", _bundles(world)[0].upper()):
        selection = [{"bundle_id": bundle}]
        await assert_refused(api, populated_db, selection, [(BUNDLE, "bundle_selection[0].bundle_id")])
    texts = set()
    for bundle in (unknown, world.disabled_bundle_test, live):
        answer = await api.post("/v1/orders/by-value", {"value": "5", "bundle_selection": [{"bundle_id": bundle}]})
        texts.add(answer.text.replace(answer.headers["x-request-id"], ""))
    assert len(texts) == 1


async def test_every_error_of_a_selection_is_reported_at_once(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    good = _bundles(world)[0]
    selection = [
        {"bundle_id": good, "percentage": "33.3333333333333"},
        {"bundle_id": "bun_unknown", "percentage": "abc"},
        {"bundle_id": good},
    ]
    await assert_refused(
        api,
        populated_db,
        selection,
        [
            (FORMAT, "bundle_selection[0].percentage"),
            (BUNDLE, "bundle_selection[1].bundle_id"),
            (FORMAT, "bundle_selection[1].percentage"),
            (BUNDLE, "bundle_selection[2].bundle_id"),
            (RATIOS, WHOLE),
        ],
    )


async def test_a_selection_that_is_no_array_is_refused(api: ApiClient, populated_db: Database) -> None:
    for selection in ({}, "all", 1, True, {"bundle_id": "x"}):
        await assert_refused(api, populated_db, selection, [("validation_error", WHOLE)])


async def test_unknown_members_of_a_choice_are_refused(api: ApiClient, world: World, populated_db: Database) -> None:
    selection = [{"bundle_id": _bundles(world)[0], "percent": 100}]
    await assert_refused(api, populated_db, selection, [("validation_error", "bundle_selection[0].percent")])


@pytest.mark.parametrize(
    ("percentages", "quantities"),
    [
        ([60, 40], ["0.6", "0.4"]),
        (["60", "40.00"], ["0.6", "0.4"]),
        ([33.33, "33.33", 33.34], ["0.3333", "0.3333", "0.3334"]),
        ([100], ["1"]),
        ([99.99, 0.01], ["0.9999", "0.0001"]),
        ([None, None, None], ["0.333334", "0.333333", "0.333333"]),
    ],
)
async def test_a_tonne_is_split_by_the_percentages(
    percentages: list[Any], quantities: list[str], api: ApiClient, world: World
) -> None:
    bundles = _bundles(world)[: len(percentages)]
    choices = [{"bundle_id": b, "percentage": p} for b, p in zip(bundles, percentages, strict=True)]
    order = await api.order(bundle_selection=choices)
    assert [line["bundle_id"] for line in order["bundles"]] == bundles
    assert [line["quantity"] for line in order["bundles"]] == quantities


async def test_without_any_percentage_the_split_is_equal(api: ApiClient, world: World) -> None:
    order = await api.order(bundle_selection=[{"bundle_id": bundle} for bundle in _bundles(world)[:4]])
    assert [line["quantity"] for line in order["bundles"]] == ["0.25"] * 4


async def test_a_bundle_whose_part_is_below_a_gram_has_no_line(api: ApiClient, world: World) -> None:
    first, second, *_ = _bundles(world)
    choices = [{"bundle_id": first, "percentage": 99.99}, {"bundle_id": second, "percentage": 0.01}]
    order = await api.order(mass={"amount": "1", "unit": "g"}, bundle_selection=choices)
    assert [line["bundle_id"] for line in order["bundles"]] == [first]
    assert order["quantity"] == "0.000001"

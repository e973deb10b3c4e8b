"""GET and PUT /v1/bundle-selections: the default selection of an account."""

from typing import Any

import httpx
import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.values.errors import TonneError
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.catalogue.selection_endpoints import shown_selection, with_percentages

PATH = "/v1/bundle-selections"


async def put(api: ApiClient, body: Any, **headers: str) -> httpx.Response:
    return await api.http.put(PATH, json=body, headers=api._headers(headers))


def percentages(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {each["bundle_id"]: each["percentage"] for each in answer.json()}


async def test_orders_follow_the_selection(api: ApiClient, world: World) -> None:
    bundles = world.bundles_test
    forest, cooking, wind = bundles["forest-mix"], bundles["clean-cooking"], bundles["wind-power"]
    catalogues = {forest: "60", cooking: "40"}
    assert percentages(await api.get(PATH)) == catalogues
    changed = await put(api, [{"bundle_id": wind, "percentage": 50}, {"bundle_id": forest, "percentage": "50.00"}])
    assert percentages(changed) == percentages(await api.get(PATH)) == {wind: "50", forest: "50.00"}
    order = await api.order()
    assert {line["bundle_id"]: line["quantity"] for line in order["bundles"]} == {wind: "0.5", forest: "0.5"}
    rest = await put(api, [{"bundle_id": wind, "percentage": "50"}, {"bundle_id": forest}, {"bundle_id": cooking}])
    assert percentages(rest) == {wind: "50", forest: "25", cooking: "25"}
    equal = await put(api, [{"bundle_id": wind}, {"bundle_id": forest}, {"bundle_id": cooking, "percentage": None}])
    assert sorted(percentages(equal).values()) == ["33.33", "33.33", "33.34"]
    # The selection of this account only.
    client = world.ours_test.client_account_id
    assert percentages(await api.get(PATH, Service_Account=client)) == catalogues
    assert percentages(await api.as_key(world.theirs_test.key).get(PATH)) == catalogues
    assert percentages(await put(api, [])) == catalogues


async def test_a_bad_selection_changes_nothing_and_says_why(api: ApiClient, world: World) -> None:
    wind, forest = world.bundles_test["wind-power"], world.bundles_test["forest-mix"]
    live = next(iter(world.bundles_live.values()))
    before = (await api.get(PATH)).json()
    bad: list[tuple[Any, list[str], list[str | None]]] = [
        ([{"bundle_id": live}], ["bundle_selection_bundle_invalid"], ["[0].bundle_id"]),
        ([{"bundle_id": world.disabled_bundle_test}], ["bundle_selection_bundle_invalid"], ["[0].bundle_id"]),
        ([{"bundle_id": wind}, {"bundle_id": wind}], ["bundle_selection_bundle_invalid"], ["[1].bundle_id"]),
        ([{"bundle_id": wind, "percentage": "99"}], ["bundle_selection_ratios_invalid"], [None]),
        ([{"bundle_id": wind, "percentage": 100}, {"bundle_id": forest}], ["bundle_selection_ratios_invalid"], [None]),
        (
            [{"bundle_id": wind, "percentage": "1e1"}, {"bundle_id": forest}],
            ["bundle_selection_ratios_invalid_format"],
            ["[0].percentage"],
        ),
        ([{"bundle_id": wind, "percentage": -1}], ["bundle_selection_ratios_invalid_format"], ["[0].percentage"]),
        ([{}, 1], ["validation_error", "validation_error"], ["[0].bundle_id", "[1]"]),
        ([{"bundle": wind}], ["validation_error", "validation_error"], ["[0].bundle", "[0].bundle_id"]),
        ({"bundle_id": wind}, ["validation_error"], [None]),
        ([{"bundle_id": wind}] * 101, ["validation_error"], [None]),
    ]
    for body, expected, where in bad:
        answer = await put(api, body)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, expected, where), body
    plain = await api.http.put(PATH, content=b"[]", headers=api._headers({"Content-Type": "text/plain"}))
    assert (plain.status_code, codes(plain)) == (415, ["media_type_invalid"])
    assert (await api.get(PATH)).json() == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([None, None, None], [None, None, None]),
        (["40", None, None, None], ["40", "20", "20", "20"]),
        (["0.01", None, None], ["0.01", "50", "49.99"]),
        (["99.98", None, None], ["99.98", "0.01", "0.01"]),
        (["99.99", None, None], ["99.99", "0.005", "0.005"]),
        (["33.333333333333", None], ["33.333333333333", "66.666666666667"]),
        (["99.999999999999", None, None], "nothing is left"),
    ],
)
def test_bundles_without_a_percentage_share_the_rest(given: list[str | None], expected: Any) -> None:
    choices = [BundleChoiceIn(str(i), percentage) for i, percentage in enumerate(given)]
    if isinstance(expected, str):
        with pytest.raises(TonneError, match=expected):
            with_percentages(choices)
    else:
        assert [choice.percentage for choice in with_percentages(choices)] == expected


def test_an_equal_split_is_shown_with_percentages_that_sum_to_100() -> None:
    shown = shown_selection([{"bundle_id": str(i)} for i in range(7)])
    assert sum(int(each.percentage.replace(".", "")) for each in shown) == 10_000
    assert shown_selection([]) == []

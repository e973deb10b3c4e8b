"""Invalid settings of offset links."""

from typing import Any

import pytest

from tests.channels.checkout.links import LINKS, allow_shops, create, put
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World, open_tenant
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode

AMOUNT = "offset_link_amount_invalid"


@pytest.fixture
async def allowed(populated_db: Database, world: World) -> None:
    await allow_shops(populated_db, world)


MISFITS: list[tuple[dict[str, Any], str, str]] = [
    ({"preset_quantity": "0"}, AMOUNT, "preset_quantity"),
    ({"preset_quantity": "0.0000001"}, AMOUNT, "preset_quantity"),
    ({"preset_quantity": "100000000.000001"}, AMOUNT, "preset_quantity"),
    ({"min_quantity": "0.0000015"}, AMOUNT, "min_quantity"),
    ({"max_quantity": "999999999999999"}, AMOUNT, "max_quantity"),
    ({"preset_value": "0.00"}, AMOUNT, "preset_value"),
    ({"min_value": "1.001"}, AMOUNT, "min_value"),
    ({"max_value": "0.001"}, AMOUNT, "max_value"),
    ({"min_quantity": "2", "max_quantity": "1.999999"}, AMOUNT, "min_quantity"),
    ({"min_value": "2", "max_value": "1.99"}, AMOUNT, "min_value"),
    ({"preset_quantity": "1", "min_quantity": "1.000001"}, AMOUNT, "preset_quantity"),
    ({"preset_quantity": "1", "max_quantity": "0.999999"}, AMOUNT, "preset_quantity"),
    ({"preset_value": "1", "min_value": "1.01"}, AMOUNT, "preset_value"),
    ({"preset_value": "1", "max_value": "0.99"}, AMOUNT, "preset_value"),
    ({"preset_quantity": "1", "preset_value": "1"}, AMOUNT, "preset_value"),
    ({"amount_editable": False}, AMOUNT, "amount_editable"),
    ({"amount_editable": False, "min_quantity": "1"}, AMOUNT, "amount_editable"),
    ({"expires_at": "2020-01-01T00:00:00Z"}, "offset_link_expiry_invalid", "expires_at"),
    ({"redirect_url": "https://evil.example/"}, "redirect_url_refused", "redirect_url"),
    ({"redirect_url": "http://shop.example.com/"}, "redirect_url_refused", "redirect_url"),
    ({"redirect_url": ""}, "redirect_url_refused", "redirect_url"),
    ({"bundle_selection": []}, "bundle_selection_ratios_invalid", "bundle_selection"),
    (
        {"bundle_selection": [{"bundle_id": "bun_gone"}]},
        "bundle_selection_bundle_invalid",
        "bundle_selection[0].bundle_id",
    ),
]


@pytest.mark.usefixtures("allowed")
async def test_invalid_settings_are_rejected_with_their_field(api: ApiClient) -> None:
    for given, code, field in MISFITS:
        refused = await api.post(LINKS, {"title": "x", **given})
        assert (refused.status_code, codes(refused), fields(refused)) == (400, [code], [field]), given
    assert (await api.get(LINKS)).json()["data"] == []


@pytest.mark.usefixtures("allowed")
async def test_a_link_cannot_be_changed_to_invalid_settings(api: ApiClient) -> None:
    link = await create(api)
    for given, code, field in MISFITS:
        if field != "expires_at":
            refused = await put(api, link["id"], {"title": "x", **given})
            assert (refused.status_code, codes(refused), fields(refused)) == (400, [code], [field]), given
    assert (await api.get(f"{LINKS}/{link['id']}")).json() == link
    over = await put(api, link["id"], {"title": "x", "expires_at": "2020-01-01T00:00:00Z"})
    assert over.status_code == 200, "a link may be made to have expired"


MALFORMED: list[tuple[str, object]] = [
    ("title", None),
    ("title", ""),
    ("title", " \n"),
    ("title", "x" * 201),
    ("title", 5),
    ("message", "x" * 2001),
    ("message", ["x"]),
    ("bundle_selection", "bun_1"),
    ("preset_quantity", 1),
    ("preset_quantity", "1e3"),
    ("preset_quantity", "-1"),
    ("preset_value", 1.5),
    ("min_quantity", "１"),
    ("max_quantity", ""),
    ("min_value", "1,5"),
    ("max_value", "1" * 16),
    ("amount_editable", "true"),
    ("enabled", 1),
    ("redirect_url", 5),
    ("redirect_label", ""),
    ("redirect_label", "x" * 101),
    ("expires_at", "2099-12-31"),
    ("expires_at", "2099-12-31T23:59:59"),
    ("expires_at", "9999-12-31T23:59:59-12:00"),
    ("expires_at", "0001-01-01T00:00:00+12:00"),
    ("expires_at", 4102444800),
    ("id", "lnk_00000000000000000000000000"),
    ("currency", "EUR"),
]


async def test_a_setting_of_the_wrong_type_is_rejected(api: ApiClient) -> None:
    for name, value in MALFORMED:
        refused = await api.post(LINKS, {"title": "x", name: value})
        seen = (refused.status_code, codes(refused), fields(refused))
        assert seen == (400, ["validation_error"], [name]), (name, value)


@pytest.mark.usefixtures("allowed")
async def test_all_errors_are_reported_at_once(api: ApiClient, world: World) -> None:
    refused = await api.post(
        LINKS,
        {
            "title": "x",
            "min_quantity": "2",
            "max_quantity": "1",
            "preset_value": "5",
            "max_value": "4",
            "expires_at": "2020-01-01T00:00:00Z",
            "redirect_url": "https://evil.example/",
            "bundle_selection": [
                {"bundle_id": world.disabled_bundle_test, "percentage": 0},
                {"bundle_id": next(iter(world.bundles_live.values()))},
            ],
        },
    )
    assert fields(refused) == [
        "min_quantity",
        "preset_value",
        "expires_at",
        "bundle_selection[0].bundle_id",
        "bundle_selection[0].percentage",
        "bundle_selection[1].bundle_id",
        "bundle_selection",
        "redirect_url",
    ]


async def test_a_label_without_a_url_and_limits_of_the_other_kind_are_valid(api: ApiClient) -> None:
    await create(api, redirect_label="Nowhere")
    await create(api, preset_quantity="2", max_value="1")


async def test_values_have_the_decimals_of_the_accounts_currency(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    async with populated_db.transaction() as tx:
        yen = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "JPY")
        kwd = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "KWD")
    in_yen, in_kwd = api.as_key(yen.key), api.as_key(kwd.key)
    assert (await create(in_yen, preset_value="500.00"))["preset_value"] == "500"
    refused = await in_yen.post(LINKS, {"title": "x", "preset_value": "500.5"})
    assert (codes(refused), fields(refused)) == ([AMOUNT], ["preset_value"])
    assert (await create(in_kwd, max_value="1.001"))["max_value"] == "1.001"
    refused = await in_kwd.post(LINKS, {"title": "x", "max_value": "999999999999999"})
    assert (codes(refused), fields(refused)) == ([AMOUNT], ["max_value"])

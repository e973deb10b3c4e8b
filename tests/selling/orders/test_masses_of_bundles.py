"""A mass for each bundle, quantities in whole units, and orders that do not wait for supply."""

from typing import Any

import pytest

from tests.selling.orders.test_waiting_for_a_price import import_rate
from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START, ManualClock
from tests.support.world import World, open_tenant
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Clock, Mode


@pytest.fixture
def clock() -> Clock:
    return ManualClock(START)


def t(amount: str, unit: str = "t") -> dict[str, str]:
    return {"amount": amount, "unit": unit}


async def test_each_bundle_gets_its_mass(api: ApiClient, world: World) -> None:
    first, second, third, *_ = world.bundles_test.values()
    body: dict[str, Any] = {
        "bundle_masses": [
            {"bundle_id": first, "mass": t("1.5")},
            {"bundle_id": second, "mass": t("250.7", "kg")},
            {"bundle_id": third, "mass": t("1", "g")},
        ]
    }
    quote = (await api.post("/v1/orders/by-mass/quote", body)).json()
    order = (await api.post("/v1/orders/by-mass", body)).json()
    assert [(line["bundle_id"], line["quantity"]) for line in order["bundles"]] == [
        (first, "1.5"),
        (second, "0.2507"),
        (third, "0.000001"),
    ]
    assert (order["requested_quantity"], order["requested_value"], order["quantity"]) == ("1.750701", None, "1.750701")
    assert (quote["bundles"], quote["total_cost"]) == (order["bundles"], order["total_cost"])
    cut = await api.post("/v1/orders/by-mass", {"bundle_masses": body["bundle_masses"][:2], "quantity_trunc": "kg"})
    assert [line["quantity"] for line in cut.json()["bundles"]] == ["1.5", "0.25"]

    wrong: dict[str, tuple[Any, str, str | None]] = {
        "both": ({**body, "mass": t("1")}, "validation_error", "bundle_masses"),
        "with a selection": (
            {**body, "bundle_selection": [{"bundle_id": first}]},
            "validation_error",
            "bundle_masses",
        ),
        "neither": ({}, "validation_error", "mass"),
        "empty": ({"bundle_masses": []}, "validation_error", "bundle_masses"),
        "twice": (
            {"bundle_masses": [body["bundle_masses"][0]] * 2},
            "bundle_selection_bundle_invalid",
            "bundle_masses[1].bundle_id",
        ),
        "unknown": (
            {"bundle_masses": [{"bundle_id": "bun_x", "mass": t("1")}]},
            "bundle_selection_bundle_invalid",
            "bundle_masses[0].bundle_id",
        ),
        "not on sale": (
            {"bundle_masses": [{"bundle_id": world.disabled_bundle_test, "mass": t("1")}]},
            "bundle_selection_bundle_invalid",
            "bundle_masses[0].bundle_id",
        ),
        "nothing": (
            {"bundle_masses": [{"bundle_id": first, "mass": t("0.1", "g")}]},
            "order_quantity_invalid",
            "bundle_masses[0].mass.amount",
        ),
        "less than a unit": (
            {**body, "quantity_trunc": "kg"},
            "order_quantity_invalid",
            "bundle_masses[2].mass.amount",
        ),
        "too much": (
            {"bundle_masses": [{"bundle_id": each, "mass": t("99000000")} for each in (first, second)]},
            "order_quantity_invalid",
            "bundle_masses",
        ),
    }
    for name, (refused, code, field) in wrong.items():
        answer = await api.post("/v1/orders/by-mass", refused)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), name


async def test_quantities_are_cut_before_they_are_split(api: ApiClient) -> None:
    estimate = (await api.post("/v1/estimates", {"mass": t("2.9995"), "quantity_trunc": "kg"})).json()
    assert (estimate["quantity"], estimate["quote"]["quantity"]) == ("2.9995", "2.999")
    again = (await api.get(f"/v1/estimates/{estimate['id']}")).json()
    assert again["quote"] == estimate["quote"]
    by_estimate = {"estimate_id": estimate["id"], "quantity_trunc": "t"}
    placed = (await api.post("/v1/orders/by-estimate", by_estimate)).json()
    assert (placed["requested_quantity"], placed["quantity"]) == ("2.9995", "2")
    by_mass = (await api.post("/v1/orders/by-mass", {"mass": t("1.2345678"), "quantity_trunc": "kg"})).json()
    assert (by_mass["requested_quantity"], by_mass["quantity"]) == ("1.234567", "1.234")
    by_value = (await api.post("/v1/orders/by-value", {"value": "100.00", "quantity_trunc": "t"})).json()
    assert (by_value["requested_value"], by_value["requested_quantity"], by_value["quantity"]) == ("100.00", None, "7")

    for path, body, code in (
        ("/v1/orders/by-mass", {"mass": t("999", "kg")}, "order_quantity_invalid"),
        ("/v1/orders/by-value", {"value": "1.00"}, "order_value_invalid"),
        ("/v1/estimates", {"mass": t("999", "kg")}, "estimate_mass_invalid"),
    ):
        answer = await api.post(path, {**body, "quantity_trunc": "t"})
        assert (answer.status_code, codes(answer)) == (400, [code]), path
    wrong = await api.post("/v1/orders/by-mass", {"mass": t("1"), "quantity_trunc": "mg"})
    assert (wrong.status_code, fields(wrong)) == (400, ["quantity_trunc"])


async def test_an_order_that_waits_for_a_price_keeps_masses_and_unit(
    api: ApiClient, services: Services, world: World, clock: ManualClock
) -> None:
    async with services.database.transaction() as tx:
        tenant = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "NOK")
    norwegian = api.as_key(tenant.key)
    first, second, *_ = world.bundles_test.values()
    masses = [{"bundle_id": first, "mass": t("1.2345")}, {"bundle_id": second, "mass": t("2")}]
    body = {"bundle_masses": masses, "quantity_trunc": "kg"}
    refused = await norwegian.post("/v1/orders/by-mass", {**body, "reject_if_short": True})
    assert (refused.status_code, codes(refused)) == (409, ["price_unavailable"])
    received = (await norwegian.post("/v1/orders/by-mass", body)).json()
    assert (received["status"], received["quantity"]) == ("received", None)
    await import_rate(services.database)
    clock.advance(days=2)
    await services.price_waiting.run_once()
    placed = (await norwegian.get(f"/v1/orders/{received['id']}")).json()
    assert [line["quantity"] for line in placed["bundles"]] == ["1.234", "2"]


async def test_an_order_is_refused_instead_of_waiting_for_supply(api: ApiClient) -> None:
    """A test account simulates that 5 t are available."""
    await api.http.put("/v1/test-helpers/supply", json={"available_quantity": "5"}, headers=api._headers({}))
    short = {"mass": t("6"), "reject_if_short": True, "idempotency_key": "short"}
    refused = await api.post("/v1/orders/by-mass", short)
    assert (refused.status_code, codes(refused)) == (409, ["insufficient_available_quantity"])
    assert (await api.by_key("short")).status_code == 404
    accepted = await api.post("/v1/orders/by-mass", {**short, "reject_if_short": False})
    assert (accepted.status_code, accepted.json()["bundles"][0]["insufficient_available_quantity"]) == (201, True)
    replayed = await api.post("/v1/orders/by-mass", short)
    assert (replayed.status_code, replayed.json()["id"]) == (200, accepted.json()["id"]), "a used key is replayed"
    assert (await api.post("/v1/orders/by-mass", {"mass": t("5"), "reject_if_short": True})).status_code == 201

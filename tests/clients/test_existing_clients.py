"""Requests and responses of clients that were written for comparable services."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.clients.shapes import MASS, TRANSACTION, WEBHOOK, WEBHOOKS, check
from tests.selling.estimates.purchases.factor_set import import_transaction_factors
from tests.support.api_client import ApiClient, codes, fields
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database

RECEIVER = "https://1.1.1.1/hook"
KILOGRAM = {"mg": Decimal(1_000_000), "g": Decimal(1000), "kg": Decimal(1), "t": Decimal("0.001")}
_FREIGHT = {"shipment": {"mass": {"amount": "2", "unit": "t"}}}
_BY_RAIL = {"route": {"amount": "500", "unit": "km"}, "method": "rail"}
_PAID = {"value": {"value": "42.50", "currency": "EUR"}, "merchant": {"country_code": "DEU", "category_code": "5411"}}
ESTIMATES: dict[str, dict[str, Any]] = {
    "/v1/estimates": {"mass": {"amount": "1.5", "unit": "kg"}},
    "/v1/estimates/flight": {"route": {"amount": "1000", "unit": "km"}},
    "/v1/estimates/electricity": {"consumption": {"amount": "10", "unit": "kWh"}, "country_code": "DEU"},
    "/v1/estimates/passenger-transportation": {
        "legs": [{"route": {"amount": "10", "unit": "km"}, "rail_type": "national_rail"}]
    },
    "/v1/estimates/shipping": _FREIGHT | _BY_RAIL,
    "/v1/estimates/shipping/multi-leg": _FREIGHT | {"legs": [_BY_RAIL, _BY_RAIL]},
    "/v1/estimates/transactions": _PAID,
}


async def test_webhooks_are_a_plain_array(api: ApiClient) -> None:
    registered = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    check(registered, WEBHOOK)
    for query in ("", "?limit=100", "?limit=1&after=some-cursor"):
        listed = (await api.get(f"/v1/webhooks{query}")).json()
        check(listed, WEBHOOKS)
        assert [item["id"] for item in listed] == [registered["id"]], query


async def test_a_rotation_without_a_body_keeps_the_old_secret_for_a_day(api: ApiClient, services: Services) -> None:
    webhook = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    path = f"/v1/webhooks/{webhook['id']}/rotate-secret"
    rotated = await api.http.put(path, headers=api._headers({}))
    check(rotated.json(), WEBHOOK)
    async with services.database.connection() as connection:
        ends = await connection.fetchval("SELECT old_secret_until FROM webhooks")
    assert abs(ends - datetime.now(UTC) - timedelta(hours=24)) < timedelta(minutes=5)
    assert (await api.http.post(path, headers=api._headers({}))).status_code == 200
    refused = await api.http.put(path, headers=api._headers({}))
    assert (refused.status_code, codes(refused)) == (409, ["webhook_overlap_promised"])
    check((await api.post(path, {"overlap_s": 0})).json(), WEBHOOK)


def _masses(value: Any, path: str = "") -> dict[str, dict[str, str]]:
    """Every mass of a response by its path, without the explanation and what was sent."""
    if isinstance(value, list):
        return {name: mass for n, each in enumerate(value) for name, mass in _masses(each, f"{path}[{n}]").items()}
    if not isinstance(value, dict):
        return {}
    found = {path: value} if value.get("unit") in KILOGRAM and "amount" in value else {}
    for name, each in value.items():
        if name not in {"request", "explain", "quote"}:
            found |= _masses(each, f"{path}.{name}")
    return found


@pytest.mark.parametrize("path", ESTIMATES)
async def test_masses_are_in_the_unit_that_the_request_names(api: ApiClient, populated_db: Database, path: str) -> None:
    await import_transaction_factors(populated_db)
    plain = _masses((await api.post(path, ESTIMATES[path])).json())
    assert ".mass" in plain
    for unit, factor in KILOGRAM.items():
        made = await api.post(path, ESTIMATES[path] | {"estimate_mass_unit": unit})
        assert made.status_code == 201, made.text
        check(made.json()["mass"], MASS)
        found = _masses(made.json())
        assert {mass["unit"] for mass in found.values()} == {unit}
        assert {name: Decimal(mass["amount"]) for name, mass in found.items()} == {
            name: Decimal(mass["amount"]) * factor for name, mass in plain.items()
        }
        assert (await api.get(f"{path}/{made.json()['id']}")).json()["mass"] == made.json()["mass"]
    refused = await api.post(path, ESTIMATES[path] | {"estimate_mass_unit": "lb"})
    assert (codes(refused), fields(refused)) == (["validation_error"], ["estimate_mass_unit"])


async def test_transactions_have_the_fields_of_existing_clients(api: ApiClient, populated_db: Database) -> None:
    await import_transaction_factors(populated_db)
    path = "/v1/estimates/transactions"
    made = (await api.post(path, _PAID)).json()
    check(made, TRANSACTION)
    assert (made["is_transaction"], made["transaction_processed_at"], made["methodology_notes"]) == (False, None, [])
    sent = {"is_transaction": True, "transaction_processed_at": "2026-11-15T10:00:00Z", "diet": "fish_eater"}
    by_term = {"merchant": {"country_code": "DEU", "search_term": "grocery"}}
    full = (await api.post(path, _PAID | by_term | sent | {"region_fallback": "never"})).json()
    check(full, TRANSACTION)
    assert (full["is_transaction"], full["transaction_processed_at"]) == (True, "2026-11-15T10:00:00.000Z")
    assert "grocery" in full["search_term_match"].casefold()
    assert full["methodology_notes"] == ["The diet was not used: no emission factor depends on it."]
    assert (await api.get(f"{path}/{full['id']}")).json() == full
    refused = await api.post(path, _PAID | {"diet": "cake"})
    assert (codes(refused), fields(refused)) == (["validation_error"], ["diet"])

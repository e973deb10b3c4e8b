"""Estimates of purchases. The operator has to import factors for merchant categories first."""

from typing import Any

from tests.selling.estimates.purchases.factor_set import import_transaction_factors
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

PATH = "/v1/estimates/transactions"


def paid(value: str, currency: str, country_code: str = "DEU", category: str | None = "5411", **more: Any) -> Any:
    merchant = {"country_code": country_code} | ({} if category is None else {"category_code": category})
    merchant |= more.pop("merchant", {})
    return {"value": {"value": value, "currency": currency}, "merchant": merchant, **more}


async def test_without_imported_factors_nothing_is_calculated(api: ApiClient) -> None:
    refused = await api.post(PATH, paid("10", "EUR"))
    assert (refused.status_code, codes(refused)) == (400, ["transaction_factor_not_found"])
    assert "import" in refused.json()["error"]["message"]


async def test_a_purchase_is_its_value_times_the_factor_of_its_category(api: ApiClient, populated_db: Database) -> None:
    await import_transaction_factors(populated_db)
    # 42.50 EUR x 0.35, the factor of the latest year, = 14.875 kg.
    made = await api.post(PATH, paid("42.50", "EUR", idempotency_key="card 1", merchant={"name": "Corner shop"}))
    assert made.status_code == 201, made.text
    first = made.json()
    assert (first["mass"]["amount"], first["emission_factor"]["id"]) == ("14.875", "spend-2024/mcc-5411/deu")
    assert (first["exchange_rate"], first["exchange_rate_date"]) == (None, None)
    assert (await api.get(f"{PATH}/{first['id']}")).json() == first
    assert (await api.get(f"{PATH}/by-idempotency-key/card%201")).json() == first
    assert codes(await api.get(f"{PATH}/by-idempotency-key/card%202")) == ["estimate_not_found"]
    flight = {"route": {"amount": "1000", "unit": "km"}, "idempotency_key": "flight 1"}
    assert (await api.post("/v1/estimates/flight", flight)).status_code == 201
    assert codes(await api.get(f"{PATH}/by-idempotency-key/flight%201")) == ["estimate_not_found"]

    for body, mass, rate in (
        # The rates are EUR/USD 1.08 and EUR/GBP 0.85: 85 GBP / 0.85 = 100 EUR x 0.35 = 35 kg; 1 / 0.85 = 1.17647059.
        (paid("85", "GBP"), "35", "1.17647059"),
        # No factor for France, but one for the world: 100 EUR x 1.08 = 108 USD x 0.4 = 43.2 kg.
        (paid("100", "EUR", "FRA", region_fallback="always"), "43.2", "1.08"),
        # With well-to-tank: 20 USD x (1.2 + 0.3) = 30 kg.
        (paid("20", "USD", "DE", "5541", region_fallback="always"), "30", None),
        (paid("20", "EUR", category=None, merchant={"search_term": "GROCERY stores"}), "7", None),
    ):
        found = await api.post(PATH, body)
        assert found.status_code == 201, found.text
        assert (found.json()["mass"]["amount"], found.json()["exchange_rate"]) == (mass, rate)
    dated = (await api.post(PATH, paid("100", "USD"))).json()
    assert dated["exchange_rate_date"] == "2025-01-02"
    assert dated["explain"][1]["formula"] == "100 USD × 0.92592593 = 92.592593 EUR"

    again = await api.http.put(f"{PATH}/{first['id']}", json=paid("85", "EUR"), headers=api._headers({}))
    assert (again.json()["version"], again.json()["mass"]["amount"]) == (2, "29.75")

    for body, code, field in (
        (paid("10", "EUR", "FRA"), "transaction_factor_not_found", "merchant.country_code"),
        (paid("10", "EUR", "XX"), "transaction_factor_not_found", "merchant.country_code"),
        (paid("10", "EUR", category="0000"), "transaction_factor_not_found", "merchant.category_code"),
        (
            paid("10", "EUR", category=None, merchant={"search_term": "rockets"}),
            "transaction_factor_not_found",
            "merchant.search_term",
        ),
        (paid("10", "XPF"), "exchange_rate_not_found", "value.currency"),
        (paid("10", "EUR", category="7512"), "exchange_rate_not_found", "value.currency"),
        (paid("10", "XXX"), "validation_error", "value.currency"),
        (paid("10", "EUR", category=None), "validation_error", "merchant"),
        (paid("10", "EUR", category="54"), "validation_error", "merchant.category_code"),
        (paid("0", "EUR"), "estimate_mass_invalid", "value.value"),
    ):
        refused = await api.post(PATH, body)
        assert (codes(refused), fields(refused)) == ([code], [field]), refused.text


async def test_a_batch_has_a_result_for_each_transaction(api: ApiClient, populated_db: Database, world: World) -> None:
    await import_transaction_factors(populated_db)
    batch = [paid("1", "EUR", idempotency_key="a"), paid("1", "EUR", "FRA"), 7, paid("2", "EUR")]
    done = await api.post(f"{PATH}/batch", batch)
    assert done.status_code == 200, done.text
    results = done.json()
    assert [each.get("mass", {}).get("amount") for each in results] == ["0.35", None, None, "0.7"]
    assert [each.get("error", {}).get("error_code") for each in results] == [
        *(None, "transaction_factor_not_found", "validation_error", None)
    ]
    # The key finds the first one again.
    assert (await api.post(f"{PATH}/batch", batch)).json()[0] == results[0]
    assert (await api.get(f"{PATH}/by-idempotency-key/a")).json() == results[0]
    theirs = api.as_key(world.theirs_test.key)
    assert codes(await theirs.get(f"{PATH}/by-idempotency-key/a")) == ["estimate_not_found"]
    for wrong in ([], [paid("1", "EUR")] * 101, paid("1", "EUR")):
        assert codes(await api.post(f"{PATH}/batch", wrong)) == ["validation_error"]

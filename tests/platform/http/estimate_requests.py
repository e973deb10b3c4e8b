"""A request of every kind of calculated estimate, for tests of all routes."""

from typing import Any

from tests.support.api_client import ApiClient

SHIPMENT = {"shipment": {"mass": {"amount": "1", "unit": "t"}}}
FREIGHT = {"route": {"amount": "100", "unit": "km"}, "method": "rail"}
# A request of every kind of calculated estimate. Its id in paths is the kind and `_estimate_id`.
ESTIMATES: dict[str, dict[str, Any]] = {
    "flight": {"route": {"amount": "1000", "unit": "km"}},
    "electricity": {"consumption": {"amount": "1", "unit": "MWh"}},
    "passenger_transportation": {"legs": [{"route": {"amount": "9", "unit": "km"}, "rail_type": "national_rail"}]},
    "hotel": {"country_code": "PRT", "nights": 2},
    "emission_factor": {
        "emission_factor_id": "desnz-2025/taxis-black-cab/passenger-km",
        "activity": {"value": "10", "unit": "person*km"},
    },
    "shipping": SHIPMENT | FREIGHT,
    "multi_leg": SHIPMENT | {"legs": [FREIGHT]},
    "transaction": {
        "value": {"value": "10", "currency": "EUR"},
        "merchant": {"country_code": "DEU", "category_code": "5411"},
        "idempotency_key": "shared card",
    },
}
# The others have the name of the kind.
ESTIMATE_PATHS = {"multi_leg": "shipping/multi-leg", "transaction": "transactions"}


async def create_estimate(api: ApiClient, kind: str) -> str:
    made = await api.post(f"/v1/estimates/{ESTIMATE_PATHS.get(kind, kind.replace('_', '-'))}", ESTIMATES[kind])
    assert made.status_code == 201, made.text
    found: str = made.json()["id"]
    return found

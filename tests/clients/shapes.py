"""JSON schemas of what clients of comparable services expect, written from their description and not from our code."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

Schema = Mapping[str, Any]


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def an_object(**required: Schema) -> Schema:
    """All of these members, and any others."""
    return {"type": "object", "required": list(required), "properties": required}


def check(value: object, schema: Schema) -> None:
    faults = jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=True).iter_errors(value)
    assert [f"{fault.instance_path}: {fault.message}" for fault in faults] == []


STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
DATE_TIME: Schema = {"type": "string", "format": "date-time"}

MASS = an_object(
    amount={"type": "string", "pattern": r"^\d+(\.\d+)?$"},
    unit={"enum": ["mg", "g", "kg", "t"]},
)


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


TRANSACTION = an_object(
    id=STRING,
    mass=MASS,
    is_transaction=BOOLEAN,
    transaction_processed_at=or_null(DATE_TIME),
    external_estimate_url=or_null({"type": "string", "format": "uri"}),
    diet_factor=or_null(STRING),
    search_term_match=or_null(STRING),
    search_term_match_score=or_null({"type": "number"}),
    semantic_matching_model=or_null(STRING),
    methodology_notes=array(STRING),
)
PER_WORK = an_object(
    amount={"type": "string", "pattern": r"^\d+(\.\d+)?$"},
    unit={"enum": [f"{mass}_per_{work}" for work in ("tkm", "t") for mass in ("t", "kg", "g", "mg")]},
)
NOTES = array({"type": "string", "minLength": 1})
LEG = an_object(
    mass=MASS,
    intensity=or_null(an_object(wtt=PER_WORK, ttw=PER_WORK, wtw=PER_WORK, unknown=PER_WORK)),
    converted_shipment=or_null(
        an_object(amount={"type": "string"}, unit={"enum": ["mg", "g", "kg", "t", "TEU"]}),
    ),
    shipment_conversion_method={"enum": ["user_provided_cargo_type", "average_cargo_type", None]},
    methodology=array(
        {
            "enum": [
                "imo_unavailable_container_ship_fallback",
                "imo_unavailable_container_ship_trade_lane_fallback",
                "flight_number_unavailable_fallback",
                "invalid_flight_route_fallback",
            ]
        }
    ),
    methodology_notes=NOTES,
    distance_calculation_details=an_object(
        vessel_tracking=or_null({"type": "object"}), carrier_schedule_stops=or_null({"type": "array"})
    ),
)
_SHIPPED: dict[str, Schema] = {
    "id": STRING,
    "is_shipment": BOOLEAN,
    "shipped_at": or_null(DATE_TIME),
    "external_estimate_url": or_null({"type": "string", "format": "uri"}),
}
SHIPMENT: Schema = {"allOf": [LEG, an_object(**_SHIPPED)]}
MULTI_LEG_SHIPMENT = an_object(mass=MASS, legs=array(LEG), **_SHIPPED)
URL: Schema = {"type": "string", "format": "uri"}
PROJECT = an_object(
    impact_summary=or_null(
        array(an_object(icon=STRING, label=STRING, title=STRING, description=STRING, image_url=URL))
    ),
    datasets=or_null(array(an_object(dataset=STRING, description=STRING, thumbnail_url=URL))),
    links_and_news=or_null(
        an_object(
            links=array(an_object(destination_url=URL, title=STRING, favicon_url=URL)),
            news=array(an_object(title=STRING, article_url=URL)),
        )
    ),
)
WEBHOOK = an_object(
    id=STRING,
    url={"type": "string", "format": "uri"},
    enabled=BOOLEAN,
    account_type={"enum": ["live", "test"]},
    account_ids=array(STRING),
    created_at=DATE_TIME,
    secret={"type": "string", "pattern": "^whsec_"},
)
WEBHOOKS = array(WEBHOOK)

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

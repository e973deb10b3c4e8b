"""What both generators ask about a schema."""

import re
from collections.abc import Mapping
from typing import Any

from clients.generate.document import REF, Schema

NULL = {"type": "null"}


def ref_name(schema: Schema) -> str | None:
    """The name of the schema that this one refers to, also as `allOf` with one member."""
    whole = schema["allOf"][0] if len(schema.get("allOf", ())) == 1 else schema
    return str(whole["$ref"]).removeprefix(REF) if "$ref" in whole else None


def members(schema: Schema) -> list[Schema]:
    """The alternatives of a union without null."""
    return [member for member in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if member != NULL]


def is_nullable(schema: Schema) -> bool:
    kinds = schema.get("type")
    return NULL in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) or (isinstance(kinds, list) and "null" in kinds)


def kind(schema: Schema) -> str | None:
    """The JSON type; of several, the first that is not null."""
    kinds = schema.get("type")
    return next(name for name in kinds if name != "null") if isinstance(kinds, list) else kinds


def is_decimal(schema: Schema) -> bool:
    """Whether it is a string with a decimal number, or a union of that with numbers."""
    parts = members(schema)
    if parts:
        return any(is_decimal(part) for part in parts) and all(
            is_decimal(part) or kind(part) in {"number", "integer"} for part in parts
        )
    pattern = schema.get("pattern", "")
    return (
        kind(schema) == "string" and r"\." in pattern and bool(re.match(pattern, "1.5")) and not re.match(pattern, "a")
    )


def literals(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def is_object(schema: Schema) -> bool:
    """Whether it has fields of its own; other objects are maps."""
    return kind(schema) == "object" and "properties" in schema


def map_value(schema: Schema) -> Schema | None:
    """The schema of the values of a map; None for values of any type."""
    value = schema.get("additionalProperties", True)
    return value if isinstance(value, Mapping) and value else None


def clean(text: str) -> str:
    return " ".join(text.split())

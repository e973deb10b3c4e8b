"""JSON Schema in words and tables."""

import json
import re
from collections.abc import Callable
from typing import Any

JsonObject = dict[str, Any]
Link = Callable[[str], str]
# The smallest and the largest value, and what is counted.
_LIMITS = (
    ("minLength", "maxLength", " characters"),
    ("minimum", "maximum", ""),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " fields"),
)
_DECIMAL = r"^[0-9]+(\.[0-9]+)?$"
_LONGEST_EXAMPLE = 60


def references(node: Any) -> list[str]:
    """Names of the schemas that a schema refers to directly, in their order."""
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        found = own + [f"/schemas/{name}" for value in node.values() for name in references(value)]
    elif isinstance(node, list):
        found = [f"/schemas/{name}" for value in node for name in references(value)]
    else:
        found = []
    return list(dict.fromkeys(name.rpartition("/")[2] for name in found if "/schemas/" in name))


def type_text(schema: JsonObject, link: Link) -> str:
    """The type with its limits, for a table."""
    limits = [text for limit in _LIMITS if (text := _limit_text(schema, *limit))]
    if "default" in schema:
        limits.append(f"default `{json.dumps(schema['default'])}`")
    return _shape(schema, link) + (f" ({', '.join(limits)})" if limits else "")


def _limit_text(schema: JsonObject, least: str, most: str, counted: str) -> str:
    if least in schema and most in schema:
        return f"{schema[least]:,} to {schema[most]:,}{counted}"
    if least in schema:
        return f"at least {schema[least]:,}{counted}"
    return f"at most {schema[most]:,}{counted}" if most in schema else ""


def _shape(schema: JsonObject, link: Link) -> str:
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    for name, joint in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if name in schema:
            return joint.join(dict.fromkeys(type_text(part, link) for part in schema[name]))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        return " or ".join(f"`{json.dumps(value)}`" for value in values)
    return _plain_shape(schema, link)


def _plain_shape(schema: JsonObject, link: Link) -> str:
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"array of {type_text(schema.get('items', {}), link)}"
    if kind == "string":
        return _string_shape(schema)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_text(schema['additionalProperties'], link)}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def _string_shape(schema: JsonObject) -> str:
    if schema.get("pattern") == _DECIMAL:
        return "decimal string"
    return {"date-time": "time", "date": "date", "uri": "URL", "email": "e-mail address"}.get(
        schema.get("format", ""), "string"
    )


def field_rows(schema: JsonObject, link: Link) -> list[str]:
    required = set(schema.get("required", ()))
    rows = []
    for name, found in schema["properties"].items():
        marked = f"`{name}`" + ("" if name in required else " (optional)")
        rows.append(
            f"| {marked} | {type_text(found, link)} | {cell(found.get('description', ''))} | {_example(found)} |"
        )
    return rows


def _example(schema: JsonObject) -> str:
    for example in schema.get("examples", ()):
        if example is None or example in ([], {}):
            continue
        text = json.dumps(example, ensure_ascii=False)
        if len(text) <= _LONGEST_EXAMPLE:
            return f"`{text.replace('|', '¦')}`"
    return ""


def cell(text: str) -> str:
    """Text for a cell of a table: on one line, and without the character that ends a cell."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")

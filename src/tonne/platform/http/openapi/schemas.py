"""JSON schemas of the OpenAPI document: msgspec's schemas, changed so that code generators produce good types."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

import msgspec

from tonne.platform.http.lists import ListOut
from tonne.platform.http.openapi.components import SCHEMAS as _REF
from tonne.platform.values.amounts import DECIMAL_PATTERN

_NULL = {"type": "null"}
# What belongs to a field, not only to the alternative that is not null.
_OF_THE_FIELD = ("description", "examples")


class Schemas:
    """The schema of every shape, and the named schemas that they refer to.

    `unions` names unions of structs, which then are schemas of their own.
    """

    def __init__(self, shapes: Iterable[Any], unions: Mapping[str, Any]) -> None:
        all_shapes = [*shapes, *unions.values()]
        found, components = msgspec.json.schema_components(all_shapes, ref_template=f"{_REF}{{name}}")
        names = _public_names(components)
        for shape, schema in zip(all_shapes, found, strict=True):
            if get_origin(shape) is ListOut:
                names[schema["$ref"].removeprefix(_REF)] = f"{_item_name(shape, unions)}List"
        _check_unique(names)
        renamed = {names[name]: _renamed(schema, names) for name, schema in components.items()}
        named_unions = {
            name: _completed(_renamed(schema, names))
            for name, schema in zip(unions, found[len(all_shapes) - len(unions) :], strict=True)
        }
        self._unions = named_unions
        self.components: dict[str, Any] = {
            name: self._with_named_unions(_documented(_completed(schema))) for name, schema in renamed.items()
        }
        for name, union in named_unions.items():
            self._add_union(name, union)
        self._by_shape = {
            repr(shape): self._with_named_unions(_completed(_renamed(schema, names)))
            for shape, schema in zip(all_shapes, found, strict=True)
        }

    def _add_union(self, name: str, union: dict[str, Any]) -> None:
        tag = union["discriminator"]["propertyName"]
        self.components[name] = {"description": f"One of these, by `{tag}`.", **union}
        for reference in union["discriminator"]["mapping"].values():
            member = self.components[reference.removeprefix(_REF)]
            member["properties"][tag]["description"] = "Says which member it is."

    def of(self, shape: Any) -> dict[str, Any]:
        schema: dict[str, Any] = self._by_shape[repr(shape)]
        return schema

    def add_member(self, shape: Any, name: str, member: Any, description: str) -> None:
        """An optional member that is not a field of the struct."""
        component = self.components[self.of(shape)["$ref"].removeprefix(_REF)]
        component["properties"][name] = {"description": description, "anyOf": [self.of(member), _NULL]}

    def _with_named_unions(self, node: Any) -> Any:
        for name, union in self._unions.items():
            if isinstance(node, dict) and "discriminator" in node and node["discriminator"] == union["discriminator"]:
                rest = {key: value for key, value in node.items() if key not in union}
                return {"$ref": f"{_REF}{name}", **rest}
        if isinstance(node, dict):
            return {key: self._with_named_unions(value) for key, value in node.items()}
        if isinstance(node, list):
            return [self._with_named_unions(value) for value in node]
        return node


def example_of(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    """A value that is valid by the schema, made of the examples of its parts.

    Of a response without the fields that are present only sometimes: they would contradict each other.
    """
    for given in (schema.get("examples"), schema.get("enum")):
        if given:
            return given[0]
    if "$ref" in schema:
        return example_of(components[schema["$ref"].removeprefix(_REF)], components)
    parts = schema.get("anyOf", schema.get("oneOf"))
    if parts:
        return example_of(parts[0], components)
    if schema["type"] == "array":
        return [example_of(schema["items"], components)]
    if schema["type"] == "object":
        properties = schema.get("properties", {})
        shown = properties if "additionalProperties" in schema else schema.get("required") or properties
        return {name: example_of(properties[name], components) for name in shown}
    return schema.get("const", True)


def public_name(name: str) -> str:
    """The name of a struct for clients: `Order` for OrderOut, `OrderByMassInput` for OrderByMassIn."""
    if name.endswith("Out"):
        return name.removesuffix("Out")
    return f"{name.removesuffix('In')}Input" if re.search("[a-z]In$", name) else name


def _public_names(components: Iterable[str]) -> dict[str, str]:
    return {name: public_name(name) for name in components}


def _item_name(shape: Any, unions: Mapping[str, Any]) -> str:
    (item,) = get_args(shape)
    named = [name for name, union in unions.items() if union == item]
    return named[0] if named else public_name(item.__name__)


def _check_unique(names: Mapping[str, str]) -> None:
    by_public: dict[str, str] = {}
    for name, public in names.items():
        other = by_public.setdefault(public, name)
        if other != name:
            raise ValueError(f"{name} and {other} would both be named {public} in the OpenAPI document: rename one.")


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _renamed(value, names) for key, value in node.items()}
    if isinstance(node, list):
        return [_renamed(value, names) for value in node]
    if isinstance(node, str) and node.startswith(_REF):
        return f"{_REF}{names[node.removeprefix(_REF)]}"
    return node


def paragraphs(text: str) -> str:
    """A docstring without the line breaks and the indentation of the source file, which some viewers would show."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _documented(schema: dict[str, Any]) -> dict[str, Any]:
    # msgspec's title is the name of the struct.
    rest = {key: value for key, value in schema.items() if key != "title"}
    return {**rest, "description": paragraphs(schema["description"])} if "description" in schema else rest


def _completed(node: Any) -> Any:
    """The schema with what generators need.

    - objects without fields are open: otherwise some generators allow no key in them
    - no defaults: generators then require the field, or demand null where a value is optional
    - descriptions and examples beside `anyOf`, where generators look for them; formats in it
    - `const` for a single value, `oneOf` for a union with a discriminator, a type for every enum
    """
    if isinstance(node, list):
        return [_completed(value) for value in node]
    if not isinstance(node, dict):
        return node
    # The keys of `properties` are names of fields, not keywords.
    schema = {
        key: {name: _completed(field) for name, field in value.items()} if key == "properties" else _completed(value)
        for key, value in node.items()
        if key not in {"examples", "default"}
    }
    schema |= {"examples": node["examples"]} if "examples" in node else {}
    if node.get("default") is not None:
        default = msgspec.json.encode(node["default"]).decode()
        schema["description"] = f"{schema.get('description', '')} Default: `{default}`.".strip()
    if _NULL in schema.get("anyOf", ()):
        _move_to_field(schema)
    if schema.get("type") == "object" and "properties" not in schema:
        schema.setdefault("additionalProperties", True)
    if "discriminator" in schema:
        schema["oneOf"] = schema.pop("anyOf")
    if schema.get("format") == "decimal":
        del schema["format"]
        schema["pattern"] = DECIMAL_PATTERN
    if "enum" in schema:
        schema["type"] = "string"
        if len(schema["enum"]) == 1:
            (schema["const"],) = schema.pop("enum")
    return schema


def _move_to_field(schema: dict[str, Any]) -> None:
    for part in schema["anyOf"]:
        for key in _OF_THE_FIELD:
            if key in part:
                value = part.pop(key)
                schema.setdefault(key, value)
    if "format" in schema:
        schema["anyOf"][0]["format"] = schema.pop("format")

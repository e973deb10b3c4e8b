"""The OpenAPI document as a contract: requests and responses on the wire, and values of the client's types."""

import json
import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import jsonschema_rs

from tonne_client.base_model import Model, UnknownModel, fields_of, wire_name

SCHEMAS = "#/components/schemas/"


class Contract:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.seen: set[str] = set()
        self._validators: dict[int, jsonschema_rs.Draft202012Validator] = {}
        self._paths = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))), methods)
            for path, methods in document["paths"].items()
        ]

    def operation(self, method: str, url: str) -> Mapping[str, Any]:
        path = urlsplit(url).path
        # A path without parameters goes first: /v1/orders/batch is also /v1/orders/{order_id}.
        found = [methods for pattern, methods in self._paths if pattern.fullmatch(path) and method.lower() in methods]
        assert found, f"{method} {path} is not in the document"
        literal = [self.document["paths"][path]] if path in self.document["paths"] else found
        operation: Mapping[str, Any] = literal[0][method.lower()]
        return operation

    def check_request(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
        operation = self.operation(method, url)
        self.seen.add(operation["operationId"])
        declared = {item["name"]: item for item in operation["parameters"] if item["in"] == "query"}
        for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True):
            known = (
                declared.get(name)
                or declared.get(re.sub(r"\[.*\]$", "[key]", name))
                or declared[name.partition("[")[0]]
            )
            self._check(_query_value(value, known["schema"]), known["schema"], f"{method} {url}: {name}")
        if body:
            content = operation["requestBody"]["content"]
            media_type = headers["content-type"].partition(";")[0]
            assert media_type in content, f"{method} {url}: {media_type}"
            if media_type == "application/json":
                self._check(json.loads(body), content[media_type]["schema"], f"{method} {url}")
        else:
            assert not operation.get("requestBody", {}).get("required"), f"{method} {url} has no body"

    def check_response(self, method: str, url: str, status: int, content_type: str, body: bytes) -> None:
        answers = self.operation(method, url)["responses"]
        assert str(status) in answers, f"{method} {url}: status {status}"
        content = answers[str(status)].get("content", {})
        if not content:
            assert body == b""
            return
        media_type = content_type.partition(";")[0]
        assert media_type in content, f"{method} {url}: {media_type}"
        if media_type == "application/json":
            self._check(json.loads(body), content[media_type]["schema"], f"{method} {url}: {status}")

    def _check(self, value: Any, schema: Mapping[str, Any], what: str) -> None:
        if id(schema) not in self._validators:
            # Compiling all schemas of the document would take most of the time.
            needed: dict[str, Any] = {}
            self._add_components(schema, needed)
            whole = {**schema, "components": {"schemas": needed}}
            self._validators[id(schema)] = jsonschema_rs.Draft202012Validator(whole)
        found = self._validators[id(schema)].iter_errors(value)
        faults = [f"{fault.instance_path}: {fault.message}" for fault in found]
        assert not faults, f"{what}: {faults}"

    def _add_components(self, node: Any, needed: dict[str, Any]) -> None:
        if isinstance(node, str) and node.startswith(SCHEMAS) and node.removeprefix(SCHEMAS) not in needed:
            name = node.removeprefix(SCHEMAS)
            needed[name] = self.document["components"]["schemas"][name]
            self._add_components(needed[name], needed)
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self._add_components(part, needed)


def _query_value(text: str, schema: Mapping[str, Any]) -> Any:
    """A value of the query as the type that its schema says."""
    kind = schema.get("type")
    if kind == "array":
        return [_query_value(text, schema["items"])]
    if kind in {"integer", "number", "boolean"}:
        return json.loads(text)
    return {"key": unquote(text)} if kind == "object" else text


class CheckedTransport(httpx.HTTPTransport):
    """Sends real requests, and checks both directions."""

    def __init__(self, contract: Contract) -> None:
        super().__init__()
        self._contract = contract

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        method, url = request.method, str(request.url)
        self._contract.check_request(method, url, request.headers, request.read())
        response = super().handle_request(request)
        content_type = response.headers.get("content-type", "")
        self._contract.check_response(method, url, response.status_code, content_type, response.read())
        return response


def check_value(value: Any, hint: Any, where: str = "") -> None:
    """Fails unless the value, with everything in it, has this type, and its types know every field that was sent."""
    origin = get_origin(hint)
    if hint is Any:
        return
    if origin in {Union, UnionType}:
        assert any(_fits(value, member) for member in get_args(hint)), f"{where}: {value!r} is not {hint}"
        return
    if origin is Literal:
        assert value in get_args(hint), f"{where}: {value!r} is not {hint}"
    elif origin is list:
        assert type(value) is list, where
        for index, item in enumerate(value):
            check_value(item, get_args(hint)[0], f"{where}[{index}]")
    elif origin is dict:
        for key, item in value.items():
            check_value(item, get_args(hint)[1], f"{where}.{key}")
    elif is_typeddict(hint):
        # A request as it was sent.
        assert type(value) is dict, f"{where}: {value!r} is not {hint}"
    elif isinstance(hint, type) and issubclass(hint, Model):
        assert type(value) is hint, f"{where}: {value!r} is not {hint}"
        check_model(value, where)
    elif hint is float:
        assert type(value) in {int, float}, f"{where}: {value!r} is not a number"
    else:
        assert type(value) is hint, f"{where}: {value!r} is not {hint}"


def _fits(value: Any, hint: Any) -> bool:
    if hint is NoneType or value is None:
        return value is None and hint is NoneType
    try:
        check_value(value, hint)
    except AssertionError as error:
        # A fault inside the right member must be reported, not taken for another member.
        if isinstance(value, Model) and type(value) is hint:
            raise AssertionError(f"{hint.__name__}: {error}") from error
        return False
    return True


def check_model(model: Model, where: str = "") -> None:
    assert type(model) is not UnknownModel, f"{where}: {model!r} is of no known type"
    hints = get_type_hints(type(model))
    unknown = set(model.to_dict()) - {wire_name(name) for name in fields_of(type(model))}
    assert not unknown, f"{where}: {type(model).__name__} lacks {unknown}"
    for name in fields_of(type(model)):
        check_value(getattr(model, name), hints[name], f"{where}.{name}")


def sample(schema: Mapping[str, Any], document: Mapping[str, Any], name: str = "") -> Any:  # noqa: PLR0911 - one for each kind of schema
    """A value that is valid by the schema, made of its examples."""
    if examples := schema.get("examples"):
        return examples[0]
    if "$ref" in schema:
        return sample(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if values := schema.get("enum", [schema["const"]] if "const" in schema else None):
        return values[0]
    if parts := schema.get("anyOf", schema.get("oneOf")):
        return sample(parts[0], document)
    if schema.get("type") == "object":
        return {key: sample(part, document) for key, part in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [sample(schema["items"], document)]
    if "pattern" in schema:
        return next(text for text in (name, "1", "1.5", "2025", "EUR", "DEU") if re.search(schema["pattern"], text))
    plain = {"integer": schema.get("minimum", 1), "number": schema.get("minimum", 1), "boolean": True}
    text = {"date-time": "2026-11-15T10:00:00Z", "date": "2026-11-15"}.get(schema.get("format", ""), name or "x")
    return plain.get(schema.get("type", ""), text)

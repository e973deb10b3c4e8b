"""The OpenAPI document is valid and complete, and its page loads nothing from other hosts."""

import json
import re
from typing import Any

import httpx
import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from tests.platform.http.schema_validators import validators_of
from tests.support.api_client import ApiClient, codes
from tonne.apps.wiring.app import Services
from tools.docs.openapi import inlined

UNDOCUMENTED_TAGS = {"Documentation", "Operation"}
OUTSIDE = re.compile(rb"(?:https?:)?//[a-zA-Z0-9]")


@pytest.fixture
def document(openapi_json: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(openapi_json)
    return found


@pytest.fixture
def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By method and path, with their shared parts."""
    paths = inlined(document)["paths"].items()
    return {f"{method.upper()} {path}": found for path, methods in paths for method, found in methods.items()}


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    faults = list(jsonschema_rs.validator_for(OPENAPI_31).iter_errors(document))
    assert not faults, [f"{fault.instance_path}: {fault.message}" for fault in faults]


def test_every_schema_in_the_document_is_valid_json_schema(document: dict[str, Any]) -> None:
    validator = validators_of(document)
    for name, schema in document["components"]["schemas"].items():
        validator(schema)
        assert jsonschema_rs.meta.is_valid(schema), name


def test_every_reference_resolves_and_every_schema_is_used(document: dict[str, Any]) -> None:
    references = set(_references(document))
    components = document["components"]
    kinds = components.keys() - {"securitySchemes"}
    assert references == {f"#/components/{kind}/{name}" for kind in kinds for name in components[kind]}


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in _references(value)]
    if isinstance(node, list):
        return [found for value in node for found in _references(value)]
    return []


def test_every_route_is_in_the_document(document: dict[str, Any], services: Services) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = {
        (route.method, re.sub(r"\{(\w+)(?::path)?\}", r"{\1}", route.path))
        for route in services.routes()
        if route.tag not in UNDOCUMENTED_TAGS and route.path.startswith("/v1/")
    }
    assert described == routes
    assert ("POST", "/v1/orders/by-estimate") in described


def test_every_operation_has_a_unique_id_and_documents_its_errors(operations: dict[str, dict[str, Any]]) -> None:
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))
    for operation in operations.values():
        assert operation["summary"]
        # Public operations have no key, and none of its limits.
        of_key = set() if operation.get("security") == [] else {"401", "429"}
        assert {"404", "500", "503", *of_key} <= set(operation["responses"]), operation["operationId"]
        if "requestBody" in operation:
            assert {"400", "413", "415"} <= set(operation["responses"]), operation["operationId"]


def test_every_operation_and_parameter_has_a_description(operations: dict[str, dict[str, Any]]) -> None:
    missing = [name for name, operation in operations.items() if not operation["description"]]
    missing += [
        f"{name}: {parameter['name']}"
        for name, operation in operations.items()
        for parameter in operation["parameters"]
        if not parameter.get("description")
    ]
    assert missing == []


def test_every_property_of_every_schema_has_a_description_and_an_example(document: dict[str, Any]) -> None:
    """An enum, or a reference to another schema, shows as much as an example."""
    missing = []
    for schema_name, schema in document["components"]["schemas"].items():
        for name, found in schema.get("properties", {}).items():
            if not found.get("description"):
                missing.append(f"{schema_name}.{name}: description")
            if not _shows_a_value(found):
                missing.append(f"{schema_name}.{name}: example")
    assert missing == []


def _shows_a_value(schema: dict[str, Any]) -> bool:
    """Whether the schema, or each of its parts, shows what a value looks like."""
    if {"examples", "enum", "const", "$ref"} & schema.keys() or schema.get("type") in {"boolean", "null"}:
        return True
    parts = [*schema.get("anyOf", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else ())]
    return bool(parts) and all(_shows_a_value(part) for part in parts)


def test_the_examples_are_valid_by_their_schemas(
    document: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    seen, validator = 0, validators_of(document)
    for operation in operations.values():
        contents = [operation["requestBody"]["content"]] if "requestBody" in operation else []
        contents += [answer["content"] for answer in operation["responses"].values() if "content" in answer]
        for content in contents:
            media = content.get("application/json", {})
            if "example" in media:
                validator(media["schema"]).validate(media["example"])
                seen += 1
    assert seen > 0, "the document has no examples"


async def test_the_document_is_small(api: ApiClient, document: dict[str, Any]) -> None:
    answer = await api.http.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert len(answer.content) < 660_000
    assert int(answer.headers["content-length"]) <= 100_000
    # What makes it small is not that something is left out.
    assert len(json.dumps(inlined(document))) > 1_200_000


async def test_the_page_and_its_files_are_served_from_here(api: ApiClient) -> None:
    page = await api.http.get("/docs/try/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert not OUTSIDE.search(page.content)
    references = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert len(references) >= 4
    for reference in references:
        assert reference.startswith("/")
        # The documentation has tests of its own, which build it.
        if reference.startswith("/docs/") and not reference.startswith("/docs/try/"):
            continue
        asset = await api.http.get(reference)
        assert asset.status_code == 200, reference
        assert asset.content
    script = (await api.http.get("/docs/try/assets/try.js")).content
    assert not OUTSIDE.search(script)
    assert b"validatorUrl: null" in script, "Swagger UI would send the document to an outside validator"
    style = (await api.http.get("/docs/try/assets/swagger-ui.css")).text
    assert "@import" not in style
    assert all(url.startswith(("data:", '"data:', "'data:", "#")) for url in re.findall(r"url\(\s*([^)]{1,12})", style))


async def test_the_content_security_policy_forbids_other_hosts(api: ApiClient) -> None:
    policy = (await api.http.get("/docs/try/")).headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert not OUTSIDE.search(policy.encode())


async def test_only_the_files_of_the_documentation_are_served(api: ApiClient) -> None:
    for name in ("unknown.js", "..%2Ftry.html", "%2e%2e%2f%2e%2e%2fpyproject.toml", "try.html", "%00", "LICENSE"):
        answer: httpx.Response = await api.http.get(f"/docs/try/assets/{name}")
        assert (answer.status_code, codes(answer)) in ((404, ["asset_not_found"]), (404, ["route_not_found"])), name


async def test_allow_lists_exactly_the_methods_of_a_path(api: ApiClient, services: Services) -> None:
    methods: dict[str, set[str]] = {}
    for route in services.routes():
        methods.setdefault(re.sub(r"\{(\w+)(?::path)?\}", "x", route.path), {"OPTIONS"}).add(route.method)
    for allowed in methods.values():
        if "GET" in allowed:
            allowed.add("HEAD")
    for path, allowed in methods.items():
        for method, status in (("OPTIONS", 204), ("TRACE", 405)):
            answer = await api.http.request(method, path)
            assert answer.status_code == status, path
            assert set(answer.headers["allow"].split(", ")) == allowed, (method, path)

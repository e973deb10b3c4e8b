"""Rules that keep the OpenAPI document good for code generators. A new route must follow them; messages say how."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.platform.http.operations import OPERATIONS
from tests.platform.http.schema_validators import validators_of
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.model import EventType
from tonne.money.invoices.invoice_events import CANCELLED, CREDITED, ISSUED, OVERDUE, PAID
from tonne.money.refunds import refund_events
from tonne.selling.orders.model import EVENT_TYPES, STATUS_KEPT
from tonne.supply.certificates.reissue_certificate import REPLACED
from tonne.supply.retirements import allocation_events
from tools.docs.generated import explanations
from tools.docs.openapi import inlined

OPEN_OBJECTS = {"metadata"}
METADATA = re.compile(r".*/properties/metadata(/anyOf/[0-9])?")
# Coordinates are measured, not exact.
COORDINATE = re.compile(r".*/properties/(lat|lon)(/anyOf/[0-9])?")
# Responses have these as numbers because existing clients read them so. Nobody computes prices with them.
SHOWN = re.compile(
    r".*/(PageBundle/properties/percent_of_total|Inventory/properties/quantity|CarbonStorageYear/properties/\w+"
    r"|(BundleProject|Project)/properties/(latitude|longitude)(/anyOf/[0-9])?)"
)
AMOUNT = re.compile(r"amount|cost|price|value|quantity|commission|percentage|rate")


@pytest.fixture
def document(openapi_json: bytes) -> dict[str, Any]:
    return inlined(json.loads(openapi_json))


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def nodes(node: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the document with its place, without examples, which may contain anything."""
    if isinstance(node, dict):
        yield place, node
        for key, value in node.items():
            if key not in {"example", "examples"}:
                yield from nodes(value, f"{place}/{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from nodes(value, f"{place}/{i}")


def properties(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for schema_name, schema in document["components"]["schemas"].items():
        for name, found in schema.get("properties", {}).items():
            yield schema_name, name, found


def test_interface_1_no_field_has_a_default(document: dict[str, Any]) -> None:
    """openapi-typescript requires fields with a default, and models get null where no null is valid."""
    assert [place for place, node in nodes(document) if node.get("default", 0) is None] == []
    assert [f"{schema}.{name}" for schema, name, found in properties(document) if "default" in found] == []


def test_interface_2_metadata_is_open(document: dict[str, Any]) -> None:
    found = [found for _, name, found in properties(document) if name in OPEN_OBJECTS]
    assert len(found) >= 5
    for each in found:
        objects = [each, *each.get("anyOf", ())]
        assert any(part.get("additionalProperties") is True for part in objects), each
    closed = [
        f"{schema}.{name}: add additionalProperties"
        for schema, name, found in properties(document)
        if found.get("type") == "object" and not {"additionalProperties", "properties"} & found.keys()
    ]
    assert closed == []


def test_every_object_but_metadata_is_typed(document: dict[str, Any]) -> None:
    """Otherwise generated clients cannot say what it contains."""
    untyped = [
        place
        for place, node in nodes(document)
        if node.get("type") == "object"
        and "properties" not in node
        and node.get("additionalProperties") in (None, True, {})
    ]
    assert [place for place in untyped if not METADATA.fullmatch(place)] == []
    schemas = document["components"]["schemas"]
    for kind in ("Flight", "Electricity", "Hotel"):
        members = schemas[f"{kind}Estimate"]["properties"]
        assert [each["$ref"] for each in members["quote"]["anyOf"]] == [
            *("#/components/schemas/Quote", "#/components/schemas/Refusal"),
        ]
        assert members["request"]["$ref"] == f"#/components/schemas/{kind}EstimateInput"


def test_interface_3_files_are_binary_content(document: dict[str, Any]) -> None:
    types = {"downloadCertificate": ("application/pdf",), "downloadInvoice": ("application/pdf", "application/xml")}
    for name, media_types in types.items():
        (operation,) = [each for _, each in operations(document) if each["operationId"] == name]
        content = operation["responses"]["200"]["content"]
        assert content == {name: {"schema": {"type": "string", "format": "binary"}} for name in media_types}


def test_interface_3_every_success_but_204_has_content(document: dict[str, Any]) -> None:
    without = [
        f"{name}: give the route's answer a type, or a FileType, for {status}"
        for name, operation in operations(document)
        for status, response in operation["responses"].items()
        if status.startswith("2") and status != "204" and "content" not in response
    ]
    assert without == []


def test_interface_4_every_event_type_is_described(document: dict[str, Any]) -> None:
    types = {each.value for each in EventType}
    orders = {*EVENT_TYPES.values(), *STATUS_KEPT}
    invoices = {ISSUED, OVERDUE, PAID, CREDITED, CANCELLED}
    further = {allocation_events.NEW, allocation_events.RETIRED, REPLACED, *refund_events.EVENT_TYPES.values()}
    assert types == orders | invoices | further | {"webhook.test"}
    assert set(document["webhooks"]) == types, "describe new event types in channels/webhooks/event_schemas.py"
    schemas = document["components"]["schemas"]
    assert set(schemas["EventType"]["enum"]) == types
    mapping = schemas["WebhookEvent"]["discriminator"]["mapping"]
    assert set(mapping) == types
    for event_type, reference in mapping.items():
        member = schemas[reference.rpartition("/")[2]]
        assert member["properties"]["event_type"]["const"] == event_type
        assert "$ref" in member["properties"]["data"]
    assert schemas["WebhookEventList"]["properties"]["data"]["items"] == {"$ref": "#/components/schemas/WebhookEvent"}


def test_interface_4_the_requests_to_receivers_are_described(document: dict[str, Any]) -> None:
    validator_of = validators_of(document)
    for event_type, item in document["webhooks"].items():
        operation = item["post"]
        headers = {each["name"]: each for each in operation["parameters"]}
        required = {name for name, header in headers.items() if header.get("required")}
        assert required == {"Service-HMAC", "User-Agent"}
        assert headers.keys() - required == {"webhook-id", "webhook-timestamp", "webhook-signature"}
        assert all(header["description"] for header in headers.values())
        media = operation["requestBody"]["content"]["application/json"]
        assert [each["event_type"] for each in media["example"]["events"]] == [event_type]
        validator = validator_of(media["schema"])
        validator.validate(media["example"])
        assert not validator.is_valid({"events": []}), "a request for an event contains the event"


def test_interface_9_operation_ids_are_stated_and_never_change(document: dict[str, Any], services: Services) -> None:
    implied = [f"{r.method} {r.path}" for r in services.routes() if r.path.startswith("/v1/") and not r.operation_id]
    assert implied == [], "give these routes an operation_id, such as getOrder"
    found = {name: operation["operationId"] for name, operation in operations(document)}
    new = {name: found[name] for name in found.keys() - OPERATIONS.keys()}
    assert new == {}, "add these to OPERATIONS in tests/platform/http/operations.py"
    assert found == OPERATIONS, "operation ids are the names of functions in generated clients: keep them"
    bad = [each for each in found.values() if not re.fullmatch("[a-z]+([A-Z][a-z]+)+", each) or each.startswith("test")]
    assert bad == [], "an id is a verb and a noun in camelCase; a module named test_… would look like a test"


def test_interface_9_no_schema_looks_like_a_test(document: dict[str, Any]) -> None:
    assert [name for name in document["components"]["schemas"] if name.startswith("Test")] == []


def test_interface_10_enums_are_named(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    inline = [
        f"{schema}.{name}: use a StrEnum instead of an inline enum"
        for schema, name, found in properties(document)
        if any("enum" in node for _, node in nodes(found))
    ]
    # The formats of a logo are media types.
    assert [each for each in inline if not each.startswith("LogoInput.media_type")] == []
    assert {"OrderStatus", "OrderType", "Mode", "PaymentMethod", "AccountKind", "ErrorCode"} <= schemas.keys()
    assert all(schema["type"] == "string" for schema in schemas.values() if "enum" in schema)
    # Generators make constants of the values, in capitals.
    alike = [
        name
        for name, schema in schemas.items()
        if len({*map(str.upper, schema.get("enum", ()))}) < len(schema.get("enum", ()))
    ]
    assert alike == []


def test_interface_10_names_are_readable(document: dict[str, Any]) -> None:
    bad = [name for name in document["components"]["schemas"] if not re.fullmatch("[A-Z][A-Za-z]+[a-z]", name)]
    assert bad == []
    assert [name for name in document["components"]["schemas"] if name.endswith(("Out", "In"))] == []
    assert {"OrderList", "WebhookEventList", "BundleList"} <= document["components"]["schemas"].keys()
    fields = {field for schema in document["components"]["schemas"].values() for field in schema.get("properties", ())}
    # Seconds are `overlap_s` everywhere.
    assert [field for field in fields if field.endswith("_seconds")] == []


def test_interface_10_error_codes_are_an_enum(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["Fault"]["properties"]["error_code"]["$ref"] == "#/components/schemas/ErrorCode"
    codes = set(schemas["ErrorCode"]["enum"])
    in_text = {
        code
        for _, operation in operations(document)
        for response in operation["responses"].values()
        for code in re.findall(r"^- `(\w+)`:", response["description"], re.MULTILINE)
    }
    assert in_text <= codes
    assert codes - in_text == {"method_not_allowed"}
    assert codes <= explanations().keys()


def test_interface_10_descriptions_are_beside_anyof(document: dict[str, Any]) -> None:
    inside = [
        place
        for place, node in nodes(document)
        for part in (*node.get("anyOf", ()), *node.get("oneOf", ()))
        if {"description", "examples"} & part.keys()
    ]
    assert inside == []


def test_interface_10_amounts_are_strings(document: dict[str, Any]) -> None:
    """A client that sends a float would send 0.30000000000000004."""
    numbers = [place for place, node in nodes(document) if node.get("type") == "number"]
    assert [place for place in numbers if not (COORDINATE.fullmatch(place) or SHOWN.fullmatch(place))] == []
    for schema, name, found in properties(document):
        if SHOWN.fullmatch(f"#/{schema}/properties/{name}"):
            continue
        # The whole number of a fact, such as years or per cent, is no amount.
        if schema.endswith("StatedNumber"):
            continue
        if AMOUNT.fullmatch(name.rpartition("_")[2]) and found.get("type") not in {None, "boolean", "array"}:
            assert found["type"] == "string", f"{schema}.{name}: amounts are decimal strings"


def test_every_tag_is_described(document: dict[str, Any]) -> None:
    missing = [tag["name"] for tag in document["tags"] if not tag["description"]]
    assert missing == [], "describe these tags in TAGS of platform/http/openapi/texts.py"
    assert document["info"]["contact"]["name"]


def test_every_path_parameter_is_described(document: dict[str, Any]) -> None:
    missing = {
        parameter["name"]
        for _, operation in operations(document)
        for parameter in operation["parameters"]
        if parameter["in"] == "path" and not (parameter["description"] and parameter["schema"].get("examples"))
    }
    assert missing == set(), "describe these in PATH_PARAMETERS of platform/http/openapi/texts.py"


def test_every_description_says_more_than_the_summary(document: dict[str, Any]) -> None:
    poor = [
        f"{name}: add a paragraph to the docstring of the endpoint"
        for name, operation in operations(document)
        if operation["description"].rstrip(".") == operation["summary"]
    ]
    assert poor == []


def test_every_success_has_a_valid_example(document: dict[str, Any]) -> None:
    validator = validators_of(document)
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            media = response.get("content", {}).get("application/json")
            if not status.startswith("2") or media is None:
                continue
            assert "example" in media, f"{name}: {status} has no example"
            errors = [
                f"{name} {status} {error.instance_path}: {error.message}"
                for error in validator(media["schema"]).iter_errors(media["example"])
            ]
            assert errors == []


def test_urls_times_and_addresses_have_a_format(document: dict[str, Any]) -> None:
    formats = {"http": "uri", "2026-11-15T": "date-time", "ada@": "email", "ann@": "email"}
    missing = []
    for schema, name, found in properties(document):
        shown = str((found.get("examples") or [""])[-1])
        for start, name_of_format in formats.items():
            declared = {node.get("format") for _, node in nodes(found)}
            if shown.startswith(start) and name_of_format not in declared:
                missing.append(f"{schema}.{name}: {name_of_format}")
    # A webhook's url is shown as it was sent, which may be an international address.
    assert set(missing) <= {"Webhook.url: uri", "RewindInput.sequence: date-time"}

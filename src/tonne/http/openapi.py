"""The OpenAPI document, generated from the table of routes, so that it always describes what is served."""

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tonne import __version__
from tonne.base.decimals import PATTERN
from tonne.base.errors import Invalid, TonneError
from tonne.base.settings import Settings
from tonne.http.errors import (
    STATUS,
    AccountNotFound,
    BodyTooLarge,
    ErrorOut,
    InternalError,
    MediaTypeInvalid,
    RateLimited,
    ServiceUnavailable,
    Unauthorised,
)
from tonne.http.route import Access, Route

_PATH_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_REF = "#/components/schemas/{name}"
_INTRODUCTION = """\
Tonne sells carbon offsets as orders.

- **Authentication**: `Authorization: Bearer <API_KEY>`. Test keys see test data only, live keys live data only.
- **Money** is a decimal string with exactly the currency's decimals; **quantities** are tonnes. There are no floats.
- **Retries** are safe: send an `idempotency_key`, and repeat the request as often as you like.
- **Errors** all have the same format and a stable `error_code`.
- `/v1` only gains fields, endpoints and event types: ignore fields that you do not know.
"""


def openapi_document(routes: Sequence[Route], settings: Settings) -> dict[str, Any]:
    shapes = _shapes(routes)
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    by_shape = dict(zip(map(repr, shapes), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PATH_PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_shape, settings)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Tonne",
            "version": __version__,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "security": [{"api_key": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"api_key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
        },
    }
    _complete_schemas(document)
    return document


def _shapes(routes: Iterable[Route]) -> list[Any]:
    shapes: list[Any] = [ErrorOut]
    for route in routes:
        shapes += [shape for shape in (route.body, *route.answers.values()) if shape is not None]
    return list({repr(shape): shape for shape in shapes}.values())


def _operation(route: Route, schemas: dict[str, Any], settings: Settings) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(route.endpoint) or "").partition("\n")
    operation: dict[str, Any] = {
        "operationId": route.endpoint.__name__,
        "summary": summary.rstrip("."),
        "description": description.strip() or summary,
        "tags": [route.tag],
        "parameters": _parameters(route, settings),
        "responses": {**_responses(route, schemas), **_error_responses(route, schemas)},
    }
    if route.access is Access.PUBLIC:
        operation["security"] = []
    if route.body is not None:
        content = {"schema": schemas[repr(route.body)]}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {"required": route.body_required, "content": {"application/json": content}}
    return operation


def _parameters(route: Route, settings: Settings) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "description": f"The {name.replace('_', ' ')}, URL-encoded.",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _PATH_PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": item.name, "in": "query", "description": item.description, "schema": item.schema}
        for item in route.query
    ]
    if route.access is Access.API_KEY:
        parameters.append(
            {
                "name": f"{settings.brand}-Account",
                "in": "header",
                "description": "Act for another account of the key's organisation and mode.",
                "schema": {"type": "string"},
            }
        )
    return parameters


def _responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    descriptions = {200: "Done.", 201: "Created.", 204: "Done. The response has no body."}
    responses: dict[str, Any] = {}
    for status, shape in route.answers.items():
        response: dict[str, Any] = {"description": descriptions[status]}
        if shape is not None:
            response["content"] = {"application/json": {"schema": schemas[repr(shape)]}}
        responses[str(status)] = response
    return responses


def _error_responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    errors: list[type[TonneError]] = [*route.errors, InternalError, ServiceUnavailable]
    if route.access is Access.API_KEY:
        errors += [Unauthorised, AccountNotFound, RateLimited]
    if route.body is not None:
        errors += [Invalid, BodyTooLarge, MediaTypeInvalid]
    if route.query:
        errors.append(Invalid)
    by_status: dict[int, list[type[TonneError]]] = {}
    for error in errors:
        by_status.setdefault(STATUS[error.kind], []).append(error)
    return {
        str(status): {
            "description": "\n".join(f"- `{error.code}`: {error.message}" for error in group),
            "content": {"application/json": {"schema": schemas[repr(ErrorOut)]}},
        }
        for status, group in sorted(by_status.items())
    }


def _complete_schemas(node: Any) -> None:
    """Adds what msgspec leaves out.

    Decimals may be sent as a string or as a number. The description of an optional field belongs to the field, not only
    to the alternative that is not null.
    """
    if isinstance(node, dict):
        for part in node.get("anyOf", ()):
            if {"type": "null"} in node["anyOf"] and "description" in part:
                node.setdefault("description", part.pop("description"))
        if node.get("format") == "decimal":
            del node["type"], node["format"]
            node["anyOf"] = [{"type": "string", "pattern": PATTERN}, {"type": "number", "minimum": 0}]
        for value in node.values():
            _complete_schemas(value)
    elif isinstance(node, list):
        for value in node:
            _complete_schemas(value)

"""The OpenAPI document, generated from the table of routes, so that it always describes what is served."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tonne import __version__
from tonne.platform.db.errors import ServiceHeld
from tonne.platform.http import errors as http_errors
from tonne.platform.http.client_fields import MAX_ITEMS_KEY
from tonne.platform.http.openapi.components import Components
from tonne.platform.http.openapi.headers import header_components, response_headers
from tonne.platform.http.openapi.schemas import Schemas, example_of, paragraphs
from tonne.platform.http.openapi.texts import INTRODUCTION, PATH_PARAMETERS, TAGS
from tonne.platform.http.route import READING_METHODS, Access, FileType, Parameter, Route
from tonne.platform.settings.settings import Settings
from tonne.platform.values.errors import Invalid, TonneError

_PATH_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_CLIENT_ACCOUNT = "Instead of the account header: found by `idempotency_key`, else by `handle`, or created."
# Invalid: unknown query parameters are refused everywhere.
_ERRORS = (Invalid, http_errors.InternalError, http_errors.ServiceUnavailable)
_KEY_ERRORS = (
    *(http_errors.Unauthorised, http_errors.AccountClosed, http_errors.AccountNotFound, http_errors.RateLimited),
    *(http_errors.KeyPermissionMissing, http_errors.KeyAccountNotAllowed, http_errors.KeyNetworkNotAllowed),
)
_BODY_ERRORS = (http_errors.BodyTooLarge, http_errors.MediaTypeInvalid, http_errors.BodyTimeout)
_COMMON = {*_ERRORS, *_KEY_ERRORS, *_BODY_ERRORS}
_OF_RECEIVERS = {
    "2XX": "Acknowledges all events of the request, within 30 seconds.",
    "default": "The events are sent again later, in the same order.",
}


class EventDescription(msgspec.Struct, frozen=True):
    """An event type. The docstring of `shape` says when the event is sent; `shows` changes its example."""

    event_type: str
    shape: type[msgspec.Struct]
    shows: Mapping[str, Any]


class WebhookDescription(msgspec.Struct, frozen=True):
    """The requests that receivers get: a body of the type `delivery` with events of the type `event`."""

    delivery: type[msgspec.Struct]
    event: Any
    events: Sequence[EventDescription]


def openapi_document(routes: Sequence[Route], settings: Settings, webhooks: WebhookDescription) -> dict[str, Any]:
    shapes = [
        http_errors.ErrorOut,
        http_errors.RefusalOut,
        webhooks.delivery,
        *(event.shape for event in webhooks.events),
        *_shapes(routes),
    ]
    schemas = Schemas(list({repr(shape): shape for shape in shapes}.values()), {"WebhookEvent": webhooks.event})
    shared = Components()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.client_account is not None:
            schemas.add_member(route.body, "client_account", route.client_account, _CLIENT_ACCOUNT)
        path = _PATH_PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas, shared, settings)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tonne",
            "version": __version__,
            "description": INTRODUCTION,
            "contact": _contact(settings),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}, {"url": settings.base_url, "description": "By name"}],
        "security": [{"api_key": []}],
        "tags": [{"name": tag, "description": TAGS.get(tag, "")} for tag in dict.fromkeys(r.tag for r in routes)],
        "paths": paths,
        "webhooks": {
            event.event_type: _webhook(event, webhooks, schemas, shared, _webhook_headers(settings))
            for event in webhooks.events
        },
        "components": {
            "schemas": _with_error_codes(schemas.components, routes),
            **shared.share(),
            "headers": header_components(),
            "securitySchemes": {"api_key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
        },
    }


def operation_id(route: Route) -> str:
    """The name that generated clients use. Routes state it, so that renaming a method does not rename it."""
    first, *rest = route.endpoint.__name__.split("_")
    return route.operation_id or first + "".join(part.capitalize() for part in rest)


def _contact(settings: Settings) -> dict[str, str]:
    email = {"email": settings.seller_email} if settings.seller_email else {}
    return {"name": settings.seller_name, "url": settings.base_url, **email}


def _shapes(routes: Iterable[Route]) -> list[Any]:
    candidates = [shape for route in routes for shape in (route.body, route.client_account, *route.answers.values())]
    return [shape for shape in candidates if shape is not None and not isinstance(shape, FileType)]


def _operation(route: Route, schemas: Schemas, shared: Components, settings: Settings) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(route.endpoint) or "").partition("\n")
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": summary.rstrip("."),
        "description": paragraphs(description) or summary,
        "tags": [route.tag],
        "parameters": _parameters(route, shared, settings),
        "responses": {**_responses(route, schemas, shared), **_error_responses(route, schemas, shared)},
    }
    if route.access is Access.PUBLIC:
        operation["security"] = []
    if route.body is not None:
        content = {"schema": schemas.of(route.body)}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {"required": route.body_required, "content": {"application/json": content}}
    if route.file_field:
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": _form_with_file(route)}}
    return operation


def _form_with_file(route: Route) -> dict[str, Any]:
    file = {"type": "string", "format": "binary", "description": "The file."}
    return {"schema": {"type": "object", "required": [route.file_field], "properties": {route.file_field: file}}}


def _parameters(route: Route, shared: Components, settings: Settings) -> list[dict[str, Any]]:
    names = _PATH_PARAMETER.findall(route.path)
    in_path = [PATH_PARAMETERS.get(name, Parameter(name, "", {"type": "string", "minLength": 1})) for name in names]
    parameters = [{**_parameter(item, "path"), "required": True} for item in in_path]
    parameters += [_parameter(item, "query") for item in route.query]
    if text := _about_key(route):
        schema = {"type": "string", "minLength": 1, "maxLength": MAX_ITEMS_KEY if route.creates_items else 255}
        parameters.append(_parameter(Parameter("Idempotency-Key", text, schema), "header"))
    if 304 in route.answers:
        text = "The `ETag` of a response that you have. While nothing has changed, the answer is 304 without a body."
        parameters.append(_parameter(Parameter("If-None-Match", text, {"type": "string"}), "header"))
    if route.access is Access.API_KEY:
        text = "Act for another account of the key's organisation and mode."
        parameters.append(_parameter(Parameter(f"{settings.brand}-Account", text, {"type": "string"}), "header"))
    return [shared.add("parameters", each["name"], each) for each in parameters]


def _about_key(route: Route) -> str:
    """Empty if the route ignores idempotency keys."""
    if route.creates is not None:
        owner = "organisation" if route.creates.of_organisation else "account"
        return f"Your own key, unique per {owner}, mode and path, with which you can safely repeat the request."
    if route.creates_items:
        return "Items without a key of their own get this one, with a slash and their number from 0."
    if route.takes_idempotency_key:
        return "The `idempotency_key` of the body as a header. If both are sent, they must be equal."
    return ""


def _parameter(item: Parameter, place: str) -> dict[str, Any]:
    shown = {"name": item.name, "in": place, "description": item.description, "schema": item.schema}
    if item.name.endswith("[]"):
        return {**shown, "name": item.name.removesuffix("[]"), "style": "deepObject", "explode": True}
    return shown


def _responses(route: Route, schemas: Schemas, shared: Components) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, shape in route.answers.items():
        response: dict[str, Any] = {"description": _success(route, status), "headers": response_headers(route, status)}
        if isinstance(shape, FileType):
            file = {"schema": {"type": "string", "format": "binary"}}
            response["content"] = dict.fromkeys(shape.media_types, file)
        elif shape is not None:
            schema = schemas.of(shape)
            content = {"schema": schema}
            # Otherwise tools show the examples of the fields, which would make the same example.
            if route.shows:
                content["example"] = _changed(example_of(schema, schemas.components), route.shows)
            response["content"] = {"application/json": content}
        responses[str(status)] = shared.add("responses", f"{status}.{operation_id(route)}", response)
    return responses


def _changed(example: Any, changes: Mapping[str, Any]) -> Any:
    nested = {
        name: _changed(example[name], value) if isinstance(value, Mapping) else value
        for name, value in changes.items()
        if name in example or not isinstance(value, Mapping)
    }
    return {**example, **nested} if nested else example


def _success(route: Route, status: int) -> str:
    if status == 200 and route.is_idempotent_creation:
        first = " For 24 hours: the first response." if route.creates else ""
        return f"The key was used before: the original as it is now.{first}"
    if status == 304:
        return "Unchanged since the response with the tag of `If-None-Match`. No body."
    return "Done. The response has no body." if status == 204 else "Done."


def _errors(route: Route) -> list[type[TonneError]]:
    errors: list[type[TonneError]] = [*route.errors, *_ERRORS]
    if route.method not in READING_METHODS:
        errors.append(ServiceHeld)
    if route.access is Access.API_KEY:
        errors += _KEY_ERRORS
    if route.reads_body:
        errors += _BODY_ERRORS
    return errors


def _error_responses(route: Route, schemas: Schemas, shared: Components) -> dict[str, Any]:
    by_status: dict[int, list[type[TonneError]]] = {}
    for error in _errors(route):
        by_status.setdefault(http_errors.STATUS[error.kind], []).append(error)
    responses = {}
    for status, group in sorted(by_status.items()):
        response = {
            "description": _error_text(group),
            "headers": response_headers(route, status),
            "content": {"application/json": {"schema": schemas.of(http_errors.ErrorOut)}},
        }
        own = [error.code for error in group if error not in _COMMON]
        name = ".".join([str(status), *own[:1]])
        responses[str(status)] = shared.add("responses", name, response)
    return responses


def _error_text(group: Sequence[type[TonneError]]) -> str:
    """The codes with their messages. Other operations have those of common errors beside special ones."""
    has_own = not _COMMON.issuperset(group)
    lines = (
        f"- `{error.code}`" if has_own and error in _COMMON else f"- `{error.code}`: {error.message}" for error in group
    )
    return "\n".join(dict.fromkeys(lines))


def _with_error_codes(components: Mapping[str, Any], routes: Sequence[Route]) -> dict[str, Any]:
    """With the codes of all errors as a schema of its own. `Fault` cannot know them: it is defined before them."""
    errors = {error for route in routes for error in _errors(route)} | {
        http_errors.RouteNotFound,
        http_errors.MethodNotAllowed,
    }
    codes = {
        "description": "Stable. New codes may be added.",
        "type": "string",
        "enum": sorted({error.code for error in errors}),
    }
    fault = components["Fault"]
    code = {"description": fault["properties"]["error_code"]["description"], "$ref": "#/components/schemas/ErrorCode"}
    return {
        **components,
        "Fault": {**fault, "properties": {**fault["properties"], "error_code": code}},
        "ErrorCode": codes,
    }


def _webhook(
    event: EventDescription,
    webhooks: WebhookDescription,
    schemas: Schemas,
    shared: Components,
    headers: list[dict[str, Any]],
) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(event.shape) or "").partition("\n")
    contains = {"type": "object", "properties": {"events": {"contains": schemas.of(event.shape)}}}
    content = {
        "schema": {"allOf": [schemas.of(webhooks.delivery), contains]},
        "example": {"events": [_changed(example_of(schemas.of(event.shape), schemas.components), event.shows)]},
    }
    return {
        "post": {
            "operationId": "on" + "".join(part.capitalize() for part in re.split(r"[._]", event.event_type)),
            "summary": summary.rstrip("."),
            "description": paragraphs(description) or summary,
            "tags": ["Webhooks"],
            "security": [],
            "parameters": [shared.add("parameters", each["name"], each) for each in headers],
            "requestBody": {"required": True, "content": {"application/json": content}},
            "responses": {
                status: shared.add("responses", status, {"description": text}) for status, text in _OF_RECEIVERS.items()
            },
        }
    }


def _webhook_headers(settings: Settings) -> list[dict[str, Any]]:
    signature = {
        "type": "string",
        "pattern": "^timestamp=[0-9]+,organisation=[^,]+(,v1=[0-9a-f]{64})+$",
        "examples": [f"timestamp=1794736800,organisation=org_06gtv1alff3htg9thvlvj59t20,v1={'5f2b8c01' * 8}"],
    }
    text = (
        "When the body was signed (Unix time), your organisation, and one `v1` for each valid secret: the HMAC-SHA256 "
        "with the secret over timestamp, dot and raw body, in lower-case hex. Discard the request if none is right."
    )
    agent = {"type": "string", "examples": [f"Tonne/{__version__}"]}
    headers = [
        Parameter(f"{settings.brand}-HMAC", text, signature),
        Parameter("User-Agent", "Name and version of the sender.", agent),
    ]
    standard = [
        Parameter(
            "webhook-id",
            "Standard Webhooks: a digest of the ids of the events, the same whenever the same events are sent again.",
            {"type": "string", "examples": ["msg_5f2b8c015f2b8c015f2b8c015f2b8c01"]},
        ),
        Parameter(
            "webhook-timestamp",
            "Standard Webhooks: when the request was signed (Unix time).",
            {"type": "string", "pattern": "^[0-9]+$", "examples": ["1794736800"]},
        ),
        Parameter(
            "webhook-signature",
            "Standard Webhooks: one `v1,` and base64 signature for each valid secret, separated by spaces.",
            {"type": "string", "examples": ["v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="]},
        ),
    ]
    return [
        *({**_parameter(header, "header"), "required": True} for header in headers),
        *(_parameter(header, "header") for header in standard),
    ]

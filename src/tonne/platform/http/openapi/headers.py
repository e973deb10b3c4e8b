"""Headers of responses, as the OpenAPI document describes them."""

from typing import Any

from tonne.platform.http.route import Access, FileType, Route

_REF = "#/components/headers/"
_TRUE = {"type": "string", "const": "true"}
_COUNT = {"type": "string", "pattern": "^[0-9]+$"}
# By component: the name on the wire, the description, whether it is always sent, the schema, and an example.
_HEADERS: dict[str, tuple[str, str, bool, dict[str, Any], str]] = {
    "Id": (
        *("X-Request-Id", "Id of the request. Quote it when you ask for help.", True, {"type": "string"}),
        "req_06gtv67pjgdsg50qjnffgu5fio",
    ),
    "Cache": (
        *("Cache-Control", "Responses belong to one account: shared caches must not keep them.", True),
        *({"type": "string"}, "no-store"),
    ),
    "Tag": (
        *("ETag", "Changes with the response. Send it as `If-None-Match` with the next request.", True),
        *({"type": "string"}, 'W/"5f8f0c0f4a7e2d1b9c3a6e5d4f708192"'),
    ),
    "Vary": (
        *("Vary", "The headers of the request that the response depends on.", True, {"type": "string"}),
        "Authorization",
    ),
    "Limit": ("RateLimit-Limit", "Requests that the key may send at once.", False, _COUNT, "200"),
    "Remaining": ("RateLimit-Remaining", "Requests that are left of them now.", False, _COUNT, "199"),
    "Reset": ("RateLimit-Reset", "Seconds until all of them are available again.", False, _COUNT, "1"),
    "RetryAfter": ("Retry-After", "Seconds to wait before the next attempt.", True, _COUNT, "1"),
    "Authenticate": ("WWW-Authenticate", "How to authenticate.", True, {"type": "string"}, "Bearer"),
    "IdempotentReplayed": (
        *("Idempotent-Replayed", "The idempotency key was used before: this is the original.", True, _TRUE, "true"),
    ),
    "IdempotencyMismatch": (
        *("Idempotency-Mismatch", "The request differs from the one that created the original.", False, _TRUE, "true"),
    ),
    "ContentDisposition": (
        *("Content-Disposition", "Suggests a file name.", True, {"type": "string"}),
        'inline; filename="certificate-7XKD-M2QH-9RTV-4WNC.pdf"',
    ),
}
_ALWAYS = ("Id", "Cache")
_RATE_LIMIT = ("Limit", "Remaining", "Reset")


def header_components() -> dict[str, Any]:
    return {
        component: {"description": description, "required": required, "schema": schema, "example": example}
        for component, (_, description, required, schema, example) in _HEADERS.items()
    }


def response_headers(route: Route, status: int) -> dict[str, Any]:
    """References to the headers that a response with this status may have, by name."""
    components = [*_ALWAYS]
    if route.access is Access.API_KEY and status != 401:
        components += _RATE_LIMIT
    if status == 401:
        components.append("Authenticate")
    if status in {429, 503}:
        components.append("RetryAfter")
    if isinstance(route.answers.get(status), FileType):
        components.append("ContentDisposition")
    if 304 in route.answers and status in {200, 304}:
        components += ["Tag", "Vary"]
    if status == 200 and route.is_idempotent_creation:
        components += ["IdempotentReplayed", "IdempotencyMismatch"]
    return {_HEADERS[component][0]: {"$ref": f"{_REF}{component}"} for component in components}

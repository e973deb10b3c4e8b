"""The table of routes as a Litestar application: each row becomes a handler behind its access rule."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import structlog
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from tonne.base.errors import TonneError
from tonne.http.authenticator import Authenticator
from tonne.http.errors import (
    STATUS,
    BodyTooLarge,
    InternalError,
    MethodNotAllowed,
    RouteNotFound,
    ServiceUnavailable,
    error_body,
)
from tonne.http.route import JSON, Access, Route
from tonne.http.route import Request as Call
from tonne.http.route import Response as Answer

MAX_BODY_BYTES = 256 * 1024

Receive = Callable[[], Awaitable[Any]]
Lifecycle = Callable[[Litestar], Awaitable[None]]
_log = structlog.get_logger()


def build_litestar(
    routes: Sequence[Route],
    authenticator: Authenticator,
    *,
    on_startup: Sequence[Lifecycle],
    on_shutdown: Sequence[Lifecycle],
) -> Litestar:
    return Litestar(
        [_handler(path, by_method, authenticator) for path, by_method in _by_path(routes).items()],
        on_startup=on_startup,
        on_shutdown=on_shutdown,
        exception_handlers={Exception: _answer_exception},
        openapi_config=None,  # ours is made from the routes: see openapi.py
        logging_config=None,
    )


def _by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    """One handler for each address, with all its methods: the server is up sooner, and OPTIONS knows all of them."""
    found: dict[str, dict[str, Route]] = {}
    for route in routes:
        found.setdefault(route.path, {})[route.method] = route
    return found


def _handler(path: str, by_method: dict[str, Route], authenticator: Authenticator) -> HTTPRouteHandler:
    methods = sorted([*by_method, "OPTIONS"])
    allow = {"allow": ", ".join(methods)}

    async def handle(request: Request[Any, Any, Any]) -> ASGIResponse:
        asgi = request.scope
        route = by_method.get(asgi["method"])
        if route is None:
            return ASGIResponse(status_code=204, headers=allow)
        seen = asgi["tonne"]  # type: ignore[typeddict-item]  # put there by the edge
        seen["route"] = route.path
        headers = dict(asgi["headers"])
        scope = None
        try:
            peer = authenticator.client_address((asgi["client"] or ("",))[0], headers.get(b"x-forwarded-for"))
            if route.access is Access.API_KEY:
                holder, scope, seen["headers"] = await authenticator.admit(headers, peer)
                seen["key_id"], seen["account_id"] = holder.key_id, scope.account_id
            call = Call(
                scope=scope,
                key_id=seen.get("key_id", ""),
                client=peer,
                headers=headers,
                path_params=asgi["path_params"],
                raw_path=asgi["raw_path"],
                query_string=asgi["query_string"],
                body=await _read_body(request.receive, headers) if route.body else b"",
            )
            response = await route.endpoint(call)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer here, the unknown ones logged
            response = _answer_for(error, seen["request_id"], route)
        return _respond(response)

    return HTTPRouteHandler(path, http_method=methods, status_code=200)(handle)  # type: ignore[arg-type]


async def _read_body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    """The whole body, unless it is too large: then no more of it than shows that."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > MAX_BODY_BYTES:
        raise BodyTooLarge
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body", False))
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge
    return body


def _respond(response: Answer) -> ASGIResponse:
    return ASGIResponse(
        body=response.body,
        status_code=response.status,
        headers={"content-type": response.media_type.decode(), **response.headers},
    )


def _answer_for(error: Exception, request_id: str, route: Route | None = None) -> Answer:
    refusal = _refusal_for(error)
    if isinstance(refusal, (InternalError, ServiceUnavailable)):
        _log.error("request_failed", request_id=request_id, exc_info=error)
    if route is not None and route.show_error is not None:
        return route.show_error(refusal, request_id)
    return Answer(error_body(refusal.faults, request_id), STATUS[refusal.kind], JSON, refusal.headers)


def _refusal_for(error: Exception) -> TonneError:
    if isinstance(error, TonneError):
        return error
    if isinstance(error, HTTPException):
        by_status: dict[int, type[TonneError]] = {404: RouteNotFound, 405: MethodNotAllowed}
        refusal = by_status.get(error.status_code, InternalError)()
        refusal.headers.update(error.headers or {})
        return refusal
    if isinstance(error, (OSError, asyncio.TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError)):
        return ServiceUnavailable()
    if isinstance(error, (asyncpg.CannotConnectNowError, asyncpg.QueryCanceledError, asyncpg.TooManyConnectionsError)):
        return ServiceUnavailable()
    return InternalError()


def _answer_exception(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """For what Litestar refuses before a handler runs: no such address, no such method."""
    response = _answer_for(error, request.scope["tonne"]["request_id"])  # type: ignore[typeddict-item]
    return Response(response.body, status_code=response.status, headers=response.headers, media_type="application/json")

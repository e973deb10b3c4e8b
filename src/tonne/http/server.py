"""The ASGI application: finds the route, applies its access rule, calls the endpoint, turns failures into responses."""

import traceback
from collections.abc import Awaitable, Callable, Iterable

import asyncpg
import structlog

from tonne.base.errors import Fault, Invalid, TonneError
from tonne.db.errors import is_database_unavailable
from tonne.http.asgi import AsgiScope, Receive, Send, send_response
from tonne.http.authenticator import Authenticator
from tonne.http.errors import (
    STATUS,
    BodyTooLarge,
    InternalError,
    MethodNotAllowed,
    ServiceUnavailable,
    error_body,
)
from tonne.http.fair_share import FairShare
from tonne.http.route import JSON, Access, Request, Response, Route
from tonne.http.router import Router

MAX_BODY_BYTES = 256 * 1024

# Signs of load or of a conflict with another request: the client may repeat the request.
_REPEATABLE = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)

Lifecycle = Callable[[], Awaitable[None]]
_log = structlog.get_logger()


class Application:
    def __init__(
        self,
        routes: Iterable[Route],
        authenticator: Authenticator,
        shares: FairShare,
        *,
        start: Lifecycle,
        stop: Lifecycle,
    ) -> None:
        self._router = Router(routes)
        self._authenticator = authenticator
        self._shares = shares
        self._start = start
        self._stop = stop

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await send_response(await self._respond(scope, receive), send, head_only=scope["method"] == "HEAD")
        else:
            raise ValueError(f"the protocol {scope['type']} is not supported")

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        """Start when the server starts, stop when it stops; a failure is reported to the server, which then exits."""
        for phase, run in (("startup", self._start), ("shutdown", self._stop)):
            await receive()
            try:
                await run()
            except BaseException:
                await send({"type": f"lifespan.{phase}.failed", "message": traceback.format_exc()})
                raise
            await send({"type": f"lifespan.{phase}.complete"})

    async def _respond(self, asgi: AsgiScope, receive: Receive) -> Response:
        # Shared with the middleware, which logs it.
        seen = asgi["tonne"]
        route: Route | None = None
        try:
            resource, parameters = self._router.find(asgi["path"])
            route = resource.by_method.get(asgi["method"])
            if route is None:
                return _options(asgi["method"], resource.allow)
            seen["route"] = route.path
            headers = dict(asgi["headers"])
            scope = None
            client = self._authenticator.client_address((asgi["client"] or ("",))[0], headers.get(b"x-forwarded-for"))
            if route.access is Access.API_KEY:
                holder, scope, seen["headers"] = await self._authenticator.admit(headers, client)
                seen["key_id"], seen["account_id"] = holder.key_id, scope.account_id
            request = Request(
                scope=scope,
                key_id=seen.get("key_id", ""),
                client=client,
                headers=headers,
                path_parameters=parameters,
                query_string=asgi["query_string"],
                body=await _read_body(receive, headers) if route.body else b"",
            )
            if scope is None:
                return await route.endpoint(request)
            await self._shares.enter(scope.organisation_id)
            try:
                return await route.endpoint(request)
            finally:
                self._shares.leave(scope.organisation_id)
        except Exception as error:  # noqa: BLE001 - every exception becomes a response; unexpected ones are logged
            return _error_response(error, seen["request_id"], route)


def _options(method: str, allow: str) -> Response:
    if method == "OPTIONS":
        return Response(b"", 204, headers={"Allow": allow})
    refusal = MethodNotAllowed()
    refusal.headers["Allow"] = allow
    raise refusal


async def _read_body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    """The whole body. A body that is too large is read only as far as is needed to know that."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > MAX_BODY_BYTES:
        raise BodyTooLarge
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Otherwise the part that arrived would be processed as if it were the whole body.
            raise Invalid([Fault("validation_error", "The body ended early: send the whole request again.")])
        body += message.get("body", b"")
        more = bool(message.get("more_body", False))
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge
    return body


def _error_response(error: Exception, request_id: str, route: Route | None) -> Response:
    refusal = _refusal_for(error)
    if isinstance(refusal, (InternalError, ServiceUnavailable)):
        _log.error("request_failed", request_id=request_id, exc_info=error)
    if route is not None and route.show_error is not None:
        return route.show_error(refusal, request_id)
    return Response(error_body(refusal.faults, request_id), STATUS[refusal.kind], JSON, refusal.headers)


def _refusal_for(error: Exception) -> TonneError:
    if isinstance(error, TonneError):
        return error
    if is_database_unavailable(error) or isinstance(error, _REPEATABLE):
        return ServiceUnavailable()
    return InternalError()

"""The ASGI application: finds the route, applies its access rule, calls the endpoint, turns failures into responses."""

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import asyncpg
import structlog

from tonne.base.errors import Fault, Invalid, TonneError
from tonne.db.errors import ServiceHeld, is_database_unavailable, is_service_held
from tonne.db.hold import HoldWatch
from tonne.http.asgi import AsgiScope, Message, Receive, Send, send_response
from tonne.http.authenticator import Authenticator
from tonne.http.client_address import limit_name
from tonne.http.errors import (
    STATUS,
    BodyTimeout,
    BodyTooLarge,
    InternalError,
    MethodNotAllowed,
    ServiceUnavailable,
    error_body,
)
from tonne.http.fair_share import FairShare
from tonne.http.rate_limit import Quota, rate_limited
from tonne.http.route import JSON, READING_METHODS, Access, Request, Response, Route
from tonne.http.router import Resource, Router

MAX_BODY_BYTES = 256 * 1024
BODY_WITHIN_S = 10.0
MAX_HALF_READ = 100

# Signs of load or of a conflict with another request: the client may repeat the request.
_REPEATABLE = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)

_TOO_MANY_INCOMPLETE = "Too many requests with an incomplete body from this address. Send whole requests."

Lifecycle = Callable[[], Awaitable[None]]
_log = structlog.get_logger()


class Application:
    def __init__(
        self,
        routes: Iterable[Route],
        authenticator: Authenticator,
        shares: FairShare,
        *,
        hold: HoldWatch,
        start: Lifecycle,
        stop: Lifecycle,
    ) -> None:
        self._router = Router(routes)
        self._authenticator = authenticator
        self._shares = shares
        self._hold = hold
        # Bodies that are being received, by client.
        self._half_read: Counter[str] = Counter()
        self._start = start
        self._stop = stop

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            response = await self._respond(scope, receive)
            if scope["path"].startswith("/v1/"):
                # A shared cache must not keep what belongs to one account.
                response.headers.setdefault("Cache-Control", "no-store")
            await send_response(response, send, head_only=scope["method"] == "HEAD")
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
                return _answer_other_method(asgi["method"], resource)
            seen["route"] = route.path
            headers = dict(asgi["headers"])
            scope = None
            forwarded_for = _forwarded_for(asgi) if b"x-forwarded-for" in headers else None
            client = self._authenticator.client_address((asgi["client"] or ("",))[0], forwarded_for)
            seen["client"] = client
            if route.access is Access.API_KEY:
                holder, scope, seen["headers"] = await self._authenticator.admit(headers, limit_name(client))
                seen["key_id"], seen["account_id"] = holder.key_id, scope.account_id
            if asgi["method"] not in READING_METHODS:
                self._hold.require_not_held()
            request = Request(
                scope=scope,
                key_id=seen.get("key_id", ""),
                client=client,
                headers=headers,
                path_parameters=parameters,
                query_string=asgi["query_string"],
                body=await self._read_body(receive, headers, client) if route.body else b"",
                idempotency_key=_idempotency_key(route, headers),
            )
            if asgi["query_string"] and route.path.startswith("/v1/"):
                request.check_query({parameter.name for parameter in route.query})
            if scope is None or not route.takes_fair_share:
                return await route.endpoint(request)
            await self._shares.enter(scope.organisation_id)
            try:
                return await route.endpoint(request)
            finally:
                self._shares.leave(scope.organisation_id)
        except Exception as error:  # noqa: BLE001 - every exception becomes a response; unexpected ones are logged
            return _error_response(error, seen["request_id"], route)

    async def _read_body(self, receive: Receive, headers: dict[bytes, bytes], client: str) -> bytes:
        """The whole body. A body that is too large is read only as far as is needed to know that.

        One client may have only so many bodies half sent: each costs a connection and memory until the time limit.
        """
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > MAX_BODY_BYTES:
            raise BodyTooLarge
        message = await _receive_within(BODY_WITHIN_S, receive)
        body, more = message.get("body", b""), bool(message.get("more_body", False))
        if not more and message["type"] != "http.disconnect":
            return _checked(body)
        name = limit_name(client)
        if self._half_read[name] >= MAX_HALF_READ:
            raise rate_limited(Quota(allowed=False, remaining=0, retry_after_s=BODY_WITHIN_S), _TOO_MANY_INCOMPLETE)
        self._half_read[name] += 1
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                return await _read_rest(receive, message)
        except TimeoutError as error:
            raise BodyTimeout from error
        finally:
            self._half_read[name] -= 1
            if not self._half_read[name]:
                del self._half_read[name]


def _forwarded_for(asgi: AsgiScope) -> bytes:
    """All lines of the header: some proxies add a line instead of extending the one that is there."""
    return b",".join([value for name, value in asgi["headers"] if name == b"x-forwarded-for"])


async def _receive_within(seconds: float, receive: Receive) -> Message:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError as error:
        raise BodyTimeout from error


async def _read_rest(receive: Receive, message: Message) -> bytes:
    parts = [message.get("body", b"")]
    size = len(parts[0])
    while True:
        if message["type"] == "http.disconnect":
            # Otherwise the part that arrived would be processed as if it were the whole body.
            raise Invalid([Fault("validation_error", "The body ended early: send the whole request again.")])
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])


def _checked(body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise BodyTooLarge
    return body


def _idempotency_key(route: Route, headers: dict[bytes, bytes]) -> str | None:
    """The Idempotency-Key header, for routes whose body has such a field. Other routes ignore it."""
    value = headers.get(b"idempotency-key")
    return value.decode("utf-8", "replace") if value is not None and route.takes_idempotency_key else None


def _answer_other_method(method: str, resource: Resource) -> Response:
    """OPTIONS works for every path. Raises MethodNotAllowed for any other method without a route."""
    if method == "OPTIONS":
        return Response(b"", 204, headers={"Allow": resource.allow})
    refusal = MethodNotAllowed()
    if below := resource.below.get(method):
        refusal = MethodNotAllowed(f"This path does not support {method}. Use {method} with {', '.join(below)}.")
    refusal.headers["Allow"] = resource.allow
    raise refusal


def _error_response(error: Exception, request_id: str, route: Route | None) -> Response:
    refusal = _refusal_for(error)
    # A load balancer that asks a draining server whether it is ready is no error.
    is_planned = isinstance(refusal, ServiceUnavailable) and refusal.is_draining
    if isinstance(refusal, (InternalError, ServiceUnavailable)) and not is_planned:
        _log.error("request_failed", request_id=request_id, exc_info=error)
    if route is not None and route.show_error is not None:
        return route.show_error(refusal, request_id)
    return Response(error_body(refusal.faults, request_id), STATUS[refusal.kind], JSON, refusal.headers)


def _refusal_for(error: Exception) -> TonneError:
    if isinstance(error, TonneError):
        return error
    if is_service_held(error):
        return ServiceHeld()
    if is_database_unavailable(error) or isinstance(error, _REPEATABLE):
        return ServiceUnavailable()
    return InternalError()

"""The ASGI application: finds the route, applies its access rule, calls the endpoint, turns failures into responses."""

import asyncio
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar, cast

import structlog

from tonne.platform.db.errors import log_outage
from tonne.platform.db.queues import HoldWatch
from tonne.platform.http import errors
from tonne.platform.http.asgi import AsgiScope, Message, Receive, Send, put_together, send_response
from tonne.platform.http.authenticator import Authenticator
from tonne.platform.http.client_address import forwarded_for, limit_name, site_name
from tonne.platform.http.limits.admission import ANONYMOUS_FACTOR, BUSY, Admission, RequestPayer
from tonne.platform.http.limits.rate_limit import Quota, rate_limited
from tonne.platform.http.permissions import FULL_ACCESS
from tonne.platform.http.refusals import refusal_for
from tonne.platform.http.request_log.log import RequestNotes
from tonne.platform.http.route import JSON, MAX_BODY_BYTES, READING_METHODS, Access, Request, Response, Route, ShowError
from tonne.platform.http.router import Resource, Router
from tonne.platform.process.cost import COST, Cost, Metered
from tonne.platform.process.shared_timer import SharedTimer
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import Fault, Invalid, TonneError

BODY_WITHIN_S = 10.0
# Counted in units of `MAX_BODY_BYTES`: a larger body counts as several.
MAX_HALF_READ = 100
# The limits of bodies above that number. A burst of honest requests also has many bodies on their way, for a moment.
CROWDED_WITHIN_S = 3.0
CROWDED_BYTES = 16 * 1024
# A larger body, such as that of a batch, is work for many steps: it takes a place on every route.
SMALL_BYTES = 8 * 1024

# Until the next part of a file tries again to get a turn.
_PART_RETRY_S = 1.0

_TOO_MANY_INCOMPLETE = "Too many requests with an incomplete body from this address. Send whole requests."

# Errors below these paths are always JSON.
_API_PATHS = ("/v1/", "/gateways/", "/metrics", "/health/", "/openapi.json")

# They are answered however busy the process is, and are not charged to anybody.
_OPERATOR_PATHS = frozenset({"/health/live", "/health/ready", "/metrics"})

T = TypeVar("T")
Lifecycle = Callable[[], Awaitable[None]]
# Calls the endpoint, unless the Idempotency-Key was used before.
RespondOnce = Callable[[Route, Request, str], Awaitable[Response]]
# The request for the client account that its body names.
ActForClient = Callable[[Request], Awaitable[Request]]
_log = structlog.get_logger()


class Application:
    def __init__(
        self,
        routes: Iterable[Route],
        authenticator: Authenticator,
        admission: Admission,
        *,
        hold: HoldWatch,
        respond_once: RespondOnce,
        act_for_client: ActForClient,
        start: Lifecycle,
        stop: Lifecycle,
        show_error: ShowError | None = None,
    ) -> None:
        """`show_error` renders errors for browsers where no route does, for example at unknown paths."""
        self._router = Router(routes)
        self._authenticator = authenticator
        self._admission = admission
        self._hold = hold
        self._respond_once = respond_once
        self._act_for_client = act_for_client
        self._show_error = show_error
        # Bodies that are being received, by client.
        self._half_read: Counter[str] = Counter()
        # Requests that wait for the first part of their body, by client.
        self._not_begun: Counter[str] = Counter()
        self._first_parts: SharedTimer[asyncio.Task[Any]] = SharedTimer(BODY_WITHIN_S, asyncio.Task.cancel)
        self._crowded_first_parts: SharedTimer[asyncio.Task[Any]] = SharedTimer(CROWDED_WITHIN_S, asyncio.Task.cancel)
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
        request: Request | None = None
        headers = dict(asgi["headers"])
        forwarded = forwarded_for(asgi["headers"]) if b"x-forwarded-for" in headers else None
        seen["client"] = client = self._authenticator.client_address((asgi["client"] or ("",))[0], forwarded)
        payer: RequestPayer | None = None
        try:
            _check_host(asgi)
            resource, parameters = self._router.find(asgi["path"])
            route = resource.by_method.get(asgi["method"])
            if route is None:
                return _answer_other_method(asgi["method"], resource)
            seen["route"] = route.path
            scope, accounts, permissions = None, None, FULL_ACCESS
            if route.access is Access.API_KEY:
                holder = await self._authenticator.identify(headers, client)
                seen["key_id"], seen["notes"] = holder.key_id, RequestNotes(holder)
                scope, seen["headers"] = await self._authenticator.admit(holder, headers, client, route.permission)
                seen["account_id"], accounts, permissions = scope.account_id, holder.accounts, holder.permissions
            if asgi["method"] not in READING_METHODS:
                self._hold.require_not_held()
            request = Request(
                scope=scope,
                key_id=seen.get("key_id", ""),
                client=client,
                headers=headers,
                path_parameters=parameters,
                query_string=asgi["query_string"],
                body=await self._read_body(receive, headers, client, route.max_body_bytes) if route.reads_body else b"",
                idempotency_key=_idempotency_key(route, headers),
                whole_path=asgi["path"],
                accounts=accounts,
                permissions=permissions,
                method=asgi["method"],
            )
            if asgi["query_string"] and route.path.startswith("/v1/"):
                request.check_query({parameter.name for parameter in route.query})
            if route.path in _OPERATOR_PATHS:
                return await self._call(route, request, seen)
            payer = _payer_of(route, request, scope)
            return await self._call_admitted(route, request, seen, payer)
        except Exception as error:  # noqa: BLE001 - every exception becomes a response; unexpected ones are logged
            refusal = refusal_for(error)
            notes: RequestNotes | None = seen.get("notes")
            if notes is not None:
                notes.faults = refusal.faults
                if request is not None and asgi["method"] not in READING_METHODS:
                    notes.body = request.body
            show_error = self._show_error if _expects_page(asgi) else None
            if route is not None and route.show_error is not None:
                show_error = route.show_error
            response = _error_response(error, refusal, asgi)
            if show_error is not None and str(refusal) != BUSY:
                page = partial(show_error, refusal, seen["request_id"], _without_body(asgi))
                response = await self._show(page, payer or _network(client), response)
                del page
            # The error's traceback refers to this frame. Until the next garbage collection, this cycle would keep the
            # rest of an unread body, and with it the connection.
            del refusal
            return response

    async def _call_admitted(
        self, route: Route, request: Request, seen: dict[str, Any], payer: RequestPayer
    ) -> Response:
        takes_place = route.takes_fair_share or len(request.body) > SMALL_BYTES
        expected = await self._admission.enter(payer.name, takes_place=takes_place)
        work = self._call(route, request, seen)
        response = await self._charge(payer, expected, work, has_place=takes_place)
        if response.stream is not None:
            expected = await self._admission.enter(payer.name)
            first = await self._charge(payer, expected, _next(response.stream))
            response.stream = self._send_parts(payer, first, response.stream)
        return response

    async def _show(self, render: Callable[[], Response], payer: RequestPayer, otherwise: Response) -> Response:
        """The page of an error, or its JSON for who has used their share of a busy process: a page costs more."""
        try:
            expected = await self._admission.enter(payer.name)
        except errors.RateLimited:
            return otherwise
        return await self._charge(payer, expected, _rendered(render))

    async def _charge(
        self, payer: RequestPayer, expected: int, work: Coroutine[Any, Any, T], *, has_place: bool = True
    ) -> T:
        """What has been admitted."""
        name, factor = payer
        cost = Cost(name, partial(self._admission.give_back, name) if has_place else None)
        token = COST.set(cost)
        try:
            return await Metered(work, cost)
        finally:
            COST.reset(token)
            self._admission.leave(name, cost.ns * factor, expected, has_place=cost.give_back is not None)

    async def _send_parts(
        self, payer: RequestPayer, part: bytes | None, others: AsyncGenerator[bytes]
    ) -> AsyncGenerator[bytes]:
        """Each part waits for its turn; the time in which a slow client reads it is free."""
        async with aclosing(others):
            while part is not None:
                yield part
                expected = await self._enter_again(payer)
                part = await self._charge(payer, expected, _next(others))

    async def _enter_again(self, payer: RequestPayer) -> int:
        """A file that has begun is not cut off because others wait."""
        while True:
            try:
                return await self._admission.enter(payer.name)
            except errors.RateLimited:
                await asyncio.sleep(_PART_RETRY_S)

    async def _call(self, route: Route, request: Request, seen: dict[str, Any]) -> Response:
        # With an escape the name may be spelt differently.
        if route.client_account is not None and (b"client_account" in request.body or rb"\u" in request.body):
            request = await self._act_for_client(request)
            seen["account_id"] = request.scope.account_id
        key = request.headers.get(b"idempotency-key")
        if key is None or route.creates is None:
            response = await route.endpoint(request)
            await put_together(response)
            return response
        return await self._respond_once(route, request, key.decode("utf-8", "replace"))

    async def _read_body(self, receive: Receive, headers: dict[bytes, bytes], client: str, max_bytes: int) -> bytes:
        """The whole body. A body that is too large is read only as far as is needed to know that.

        One client may have only so many bodies half sent: each costs a connection and memory until the time limit. More
        than that have stricter limits. A client whose body does not come is not waited for after the response.
        """
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > max_bytes:
            raise errors.too_large(max_bytes)
        name = limit_name(client)
        message = await self._receive_first(receive, name)
        body, more = message.get("body", b""), bool(message.get("more_body", False))
        if not more and message["type"] != "http.disconnect":
            return _checked(body, max_bytes)
        size = max_bytes // MAX_BODY_BYTES
        is_crowded = self._half_read[name] + size > MAX_HALF_READ
        self._half_read[name] += size
        try:
            async with asyncio.timeout(CROWDED_WITHIN_S if is_crowded else BODY_WITHIN_S):
                return await _read_rest(receive, message, min(max_bytes, CROWDED_BYTES) if is_crowded else max_bytes)
        except TimeoutError as error:
            raise _given_up(is_crowded=is_crowded) from error
        except errors.BodyTooLarge as error:
            if is_crowded:
                raise _too_many_incomplete() from error
            raise
        finally:
            _subtract(self._half_read, name, size)

    async def _receive_first(self, receive: Receive, name: str) -> Message:
        """Like `asyncio.timeout`, but with a shared timer."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        cancellations = task.cancelling()
        self._not_begun[name] += 1
        is_crowded = self._not_begun[name] > MAX_HALF_READ
        limit = (self._crowded_first_parts if is_crowded else self._first_parts).start(task)
        try:
            return await receive()
        except asyncio.CancelledError as error:
            if limit.is_over and task.uncancel() <= cancellations:
                raise _given_up(is_crowded=is_crowded) from error
            raise
        finally:
            limit.end()
            _subtract(self._not_begun, name, 1)


def _payer_of(route: Route, request: Request, scope: Scope | None) -> RequestPayer:
    if scope is not None:
        return RequestPayer(scope.organisation_id)
    known = None if route.find_payer is None else route.find_payer(request)
    return _network(request.client) if known is None else RequestPayer(known)


def _network(client: str) -> RequestPayer:
    name = limit_name(client)
    return RequestPayer(site_name(name) or name, ANONYMOUS_FACTOR)


async def _rendered(render: Callable[[], Response]) -> Response:
    response = render()
    await put_together(response)
    return response


async def _next(parts: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(parts, None)


async def _read_rest(receive: Receive, message: Message, max_bytes: int) -> bytes:
    parts = [message.get("body", b"")]
    size = len(parts[0])
    while True:
        if message["type"] == "http.disconnect":
            # Otherwise the part that arrived would be processed as if it were the whole body.
            raise Invalid([Fault("validation_error", "The body ended early: send the whole request again.")])
        if size > max_bytes:
            raise errors.too_large(max_bytes)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])


def _subtract(counter: Counter[str], name: str, number: int) -> None:
    counter[name] -= number
    if not counter[name]:
        del counter[name]


def _given_up(*, is_crowded: bool) -> TonneError:
    """The connection is closed at once: the rest of the body is not on its way."""
    error = _too_many_incomplete() if is_crowded else errors.BodyTimeout()
    error.headers["Connection"] = "close"
    return error


def _too_many_incomplete() -> errors.RateLimited:
    return rate_limited(Quota(allowed=False, remaining=0, retry_after_s=BODY_WITHIN_S), _TOO_MANY_INCOMPLETE)


def _checked(body: bytes, max_bytes: int) -> bytes:
    if len(body) > max_bytes:
        raise errors.too_large(max_bytes)
    return body


def _idempotency_key(route: Route, headers: dict[bytes, bytes]) -> str | None:
    """The Idempotency-Key header, for routes that store it with what they create."""
    value = headers.get(b"idempotency-key")
    return value.decode("utf-8", "replace") if value is not None and route.takes_idempotency_key else None


def _check_host(asgi: AsgiScope) -> None:
    """A proxy before us may have chosen another of two hosts. HTTP/1.0 has none, as in checks of load balancers."""
    hosts = [value for name, value in asgi["headers"] if name == b"host"]
    if len(hosts) > 1 or (not any(hosts) and asgi["http_version"] == "1.1"):
        raise Invalid([Fault("validation_error", "Send exactly one Host header.")])


def _answer_other_method(method: str, resource: Resource) -> Response:
    """OPTIONS works for every path. Raises MethodNotAllowed for any other method without a route."""
    if method == "OPTIONS":
        return Response(b"", 204, headers={"Allow": resource.allow})
    refusal = errors.MethodNotAllowed()
    if below := resource.below.get(method):
        refusal = errors.MethodNotAllowed(f"This path does not support {method}. Use {method} with {', '.join(below)}.")
    refusal.headers["Allow"] = resource.allow
    raise refusal


def _expects_page(asgi: AsgiScope) -> bool:
    """Browsers ask for HTML when they open an address; programs accept everything or JSON."""
    if asgi["path"].startswith(_API_PATHS):
        return False
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in asgi["headers"])


def _without_body(asgi: AsgiScope) -> Request:
    return Request.without_body(asgi["path"], asgi["query_string"], dict(asgi["headers"]))


def _error_response(error: Exception, refusal: TonneError, asgi: AsgiScope) -> Response:
    request_id = asgi["tonne"]["request_id"]
    # A load balancer that asks a draining server whether it is ready is no error.
    is_planned = isinstance(refusal, errors.ServiceUnavailable) and refusal.is_draining
    if (
        isinstance(refusal, (errors.InternalError, errors.ServiceUnavailable))
        and not is_planned
        and not log_outage(error)
    ):
        _log.error("request_failed", request_id=request_id, exc_info=error)
    return Response(errors.error_body(refusal.faults, request_id), errors.STATUS[refusal.kind], JSON, refusal.headers)

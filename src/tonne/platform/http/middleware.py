"""The outermost ASGI layer: request ids, access log, metrics, and a response even if the application crashes."""

import asyncio
import contextlib
import re
import time
from typing import Any

import structlog

from tonne.platform.http.asgi import AsgiApp, AsgiScope, Message, Receive, Send, send_response
from tonne.platform.http.authenticator import RawHeaders
from tonne.platform.http.drain import Drain
from tonne.platform.http.errors import BASE_URL, InternalError, error_body
from tonne.platform.http.request_log.log import RequestLog
from tonne.platform.http.route import Response
from tonne.platform.process.telemetry.logs import REQUEST_ID, log_request
from tonne.platform.process.telemetry.metrics import Metrics
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id

_log = structlog.get_logger()
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# At most this much of a refused body is read and discarded before the connection is closed.
_DISCARD_BYTES = 32 * 1024 * 1024
_DISCARD_S = 3.0
# Long enough to be unique, and without characters of addresses, names or markup: it appears in logs and pages.
_CLIENT_REQUEST_ID = re.compile(rb"[A-Za-z0-9_-]{16,64}")
_QUIET = {"/health/live", "/health/ready", "/metrics"}
_HSTS = (b"strict-transport-security", b"max-age=31536000")
# A connection that stays open until the process ends would lose the request that its client sends at that moment.
_CLOSE = (b"connection", b"close")
_SAFE_HEADERS: RawHeaders = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class RequestMiddleware:
    def __init__(self, app: AsgiApp, metrics: Metrics, settings: Settings, request_log: RequestLog) -> None:
        self._app = app
        self._metrics = metrics
        self._request_log = request_log
        self._drain = Drain()
        self._base_url = settings.base_url
        self._headers = [*_SAFE_HEADERS, _HSTS] if self._base_url.startswith("https://") else _SAFE_HEADERS

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        # A fresh context per request is not guaranteed, so the variable is reset below.
        token = REQUEST_ID.set(request_id)
        # Filled in by the application, and logged here.
        seen: dict[str, Any] = {"request_id": request_id}
        scope["tonne"] = seen
        BASE_URL.set(self._base_url)
        # Routed while still percent-encoded: an encoded slash does not end a segment.
        scope["raw_path"] = scope["raw_path"].partition(b"?")[0]
        scope["path"] = scope["raw_path"].decode("latin-1")
        headers = [*self._headers, _CLOSE] if self._drain.closes_connections() else self._headers
        exchange = _Exchange(scope, receive, send, seen, headers)
        self._metrics.in_flight += 1
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception:  # noqa: BLE001 - the client gets a response whatever happens
            _log.exception("request_crashed", request_id=request_id)
            if exchange.status == 0:
                body = error_body(InternalError().faults, request_id)
                await send_response(Response(body, 500), exchange.send)
        finally:
            self._metrics.in_flight -= 1
            elapsed = time.perf_counter() - started
            route, notes = seen.pop("route", "unmatched"), seen.pop("notes", None)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.observe(method, route, exchange.status, elapsed)
            if notes is not None:
                self._request_log.add(notes, seen, method, route, status=exchange.status, seconds=elapsed)
            # Health checks and scrapes are frequent, so they are logged at debug level unless they fail.
            REQUEST_ID.reset(token)
            line = {"method": method, "route": route, "status": exchange.status, "ms": round(elapsed * 1000, 2), **seen}
            if route in _QUIET and exchange.status < 400:
                _log.debug("request", **line)
            else:
                log_request(line)


def _request_id(scope: AsgiScope) -> str:
    """The id that the client or a proxy has given the request, if it is well-formed and the only one."""
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(given) == 1 and _CLIENT_REQUEST_ID.fullmatch(given[0]):
        return str(given[0], "ascii")
    return new_id("req")


class _Exchange:
    """Observes the messages of one request and its response."""

    def __init__(
        self, scope: AsgiScope, receive: Receive, send: Send, seen: dict[str, Any], headers: RawHeaders
    ) -> None:
        self.status = 0
        self._scope = scope
        self._receive = receive
        self._send = send
        self._seen = seen
        self._headers = headers
        self._body_read = False
        self._closes = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._body_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._closes = _CLOSE in message.get("headers", ())
            message["headers"] = [
                *message.get("headers", ()),
                *self._seen.pop("headers", ()),
                (b"x-request-id", self._seen["request_id"].encode()),
                *self._headers,
            ]
        elif self.status >= 400 and not message.get("more_body", False) and self._has_unread_body():
            # Closing the connection while the client is still sending would lose the response: send it, then read on.
            await self._send(message)
            await self._discard_rest()
            return
        await self._send(message)

    def _has_unread_body(self) -> bool:
        if self._body_read or self._closes:
            return False
        headers = dict(self._scope["headers"])
        return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers

    async def _discard_rest(self) -> None:
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_S):
                while not self._body_read and size < _DISCARD_BYTES:
                    message = await self.receive()
                    size += len(message.get("body", b""))

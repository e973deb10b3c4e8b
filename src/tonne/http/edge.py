"""The outermost layer: request ids, access log, metrics, and an answer even when everything else fails."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog

from tonne.base.ids import new_id
from tonne.http.errors import InternalError, error_body
from tonne.http.metrics import Metrics

Message = MutableMapping[str, Any]
AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

_log = structlog.get_logger()
_QUIET = {"/health/live", "/health/ready", "/metrics"}
_SAFE_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class Edge:
    def __init__(self, app: AsgiApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = new_id("req")
        # What the layers inside learn about this request: read again here for log and metrics.
        seen: dict[str, Any] = {"request_id": request_id}
        scope["tonne"] = seen
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                headers.append((b"x-request-id", request_id.encode()))
                headers.extend(_SAFE_HEADERS)
                message["headers"] = headers
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:  # noqa: BLE001 - the last stop: whatever it is, the client gets an answer
            _log.exception("request_crashed", request_id=request_id)
            if status == 0:
                await _send_internal_error(send_with_headers, request_id)
        finally:
            self._metrics.in_flight.dec()
            elapsed = time.perf_counter() - started
            route = seen.pop("route", "unmatched")
            self._metrics.observe(scope["method"], route, status, elapsed)
            _log.info(
                "request", method=scope["method"], route=route, status=status, ms=round(elapsed * 1000, 2), **seen
            )


async def _send_internal_error(send: Send, request_id: str) -> None:
    body = error_body(InternalError().faults, request_id)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""The span of a request: wraps the application if tracing is on."""

from collections.abc import Callable
from typing import Any

from tonne.platform.http.asgi import AsgiApp, AsgiScope, Message, Receive, Send
from tonne.platform.http.client_address import forwarded_for, parse_address
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.spans import Span, SpanKind
from tonne.platform.settings.settings import Settings, parse_networks

# They are frequent and all alike.
_NOT_TRACED = {"/health/live", "/health/ready", "/metrics"}
ClientAddress = Callable[[str, bytes | None], str]


class TracedApp:
    """Continues the trace of a caller that is trusted, and only links to that of any other.

    Otherwise strangers could have every request of theirs exported by setting the flag `sampled`, and add spans to
    traces that are not theirs.
    """

    def __init__(self, app: AsgiApp, client_address: ClientAddress, settings: Settings) -> None:
        self._app = app
        self._client_address = client_address
        self._trusted = parse_networks(settings.tracing_trusted_callers)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _NOT_TRACED:
            await self._app(scope, receive, send)
            return
        given = _incoming(scope)
        parent = given if given is not None and self._is_trusted(scope) else None
        links = [given] if given is not None and parent is None else []
        method = scope["method"]
        attributes = {"http.request.method": method, "tonne.request_id": scope["tonne"]["request_id"]}
        with tracing.span(method, SpanKind.SERVER, attributes, parent=parent, links=links) as span:
            # Logged by the middleware.
            scope["tonne"] |= tracing.log_fields()

            async def observe(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, method, scope["tonne"], message["status"])
                await send(message)

            await self._app(scope, receive, observe)

    def _is_trusted(self, scope: AsgiScope) -> bool:
        peer = (scope["client"] or ("",))[0]
        address = parse_address(self._client_address(peer, forwarded_for(scope["headers"])))
        return address is not None and any(address in network for network in self._trusted)


def _incoming(scope: AsgiScope) -> str | None:
    given = [value for name, value in scope["headers"] if name == b"traceparent"]
    return given[0].decode("latin-1") if len(given) == 1 else None


def _describe(span: Span, method: str, seen: dict[str, Any], status: int) -> None:
    """The route, never the path: paths contain links that open a page."""
    if route := seen.get("route"):
        span.rename(f"{method} {route}")
        span.set("http.route", route)
    if account_id := seen.get("account_id"):
        span.set("tonne.account_id", account_id)
    span.set("http.response.status_code", status)
    if status >= 500:
        span.fail(str(status))

"""The ASGI interface between the server, the middleware and the application."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any

from tonne.platform.http.route import Response

Message = MutableMapping[str, Any]
AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[AsgiScope, Receive, Send], Awaitable[None]]


async def send_response(response: Response, send: Send, *, head_only: bool = False) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    headers += [(b"set-cookie", cookie.encode("latin-1")) for cookie in response.cookies]
    # Neither has a body, and the length of a 304 would be that of the body which is not sent.
    if response.status not in {204, 304}:
        headers.append((b"content-type", response.media_type))
        if response.stream is None:
            headers.append((b"content-length", b"%d" % len(response.body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream is not None:
        # A client that has gone must not keep what the stream holds.
        async with aclosing(response.stream):
            if not head_only:
                async for part in response.stream:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if head_only else response.body})

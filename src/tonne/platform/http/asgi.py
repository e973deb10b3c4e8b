"""The ASGI interface between the server, the middleware and the application."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing
from time import perf_counter_ns
from typing import Any

from tonne.platform.http.route import Response

Message = MutableMapping[str, Any]
AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[AsgiScope, Receive, Send], Awaitable[None]]
_PAGE_STEP_NS = 2_000_000


async def put_together(response: Response) -> None:
    """Other requests have their steps after each few milliseconds of a page."""
    if response.pieces is None:
        return
    found: list[str] = []
    pause_at = perf_counter_ns() + _PAGE_STEP_NS
    for piece in response.pieces:
        found.append(piece)
        if perf_counter_ns() > pause_at:
            await asyncio.sleep(0)
            pause_at = perf_counter_ns() + _PAGE_STEP_NS
    response.body, response.pieces = "".join(found).encode(), None


async def send_response(response: Response, send: Send, *, head_only: bool = False) -> None:
    await put_together(response)
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

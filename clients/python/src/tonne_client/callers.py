"""The HTTP side of the clients: sends a call until it succeeds or must not be repeated."""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

import httpx

from tonne_client.attempts import OMIT, Call, FileInput, Omit, decode
from tonne_client.pages import AsyncPages, Pages

VERSION = "0.1.0"
DEFAULT_URL = "http://localhost:8080"
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
T = TypeVar("T")


class CallOptions(TypedDict, total=False):
    """What every method takes beside its own arguments, for this call only: the account to act for, and as for `Client`
    the timeout of each attempt and the attempts after the first one.
    """

    account: str
    timeout: float | httpx.Timeout
    max_retries: int


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of a client."""

    api_key: str = field(repr=False)
    base_url: str
    account: str | None
    timeout: float | httpx.Timeout
    max_retries: int
    brand: str

    @classmethod
    def from_arguments(cls, api_key: str | None, base_url: str | None, **others: Any) -> "Options":
        key = api_key or os.environ.get("TONNE_API_KEY")
        if not key:
            raise ValueError("No API key: pass api_key, or set TONNE_API_KEY.")
        url = base_url or os.environ.get("TONNE_API_URL") or DEFAULT_URL
        # The paths of all operations begin with /v1.
        return cls(key, url.rstrip("/").removesuffix("/v1"), **others)

    def changed(self, **changes: Any) -> "Options":
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given) if given else self

    def request(self, call: Call) -> dict[str, Any]:
        """The arguments of httpx's `request`."""
        headers = {
            "Authorization": f"Bearer {self.api_key}",
            "User-Agent": f"tonne-client-python/{VERSION}",
            **call.headers,
        }
        if self.account is not None:
            headers[f"{self.brand}-Account"] = self.account
        return {
            "method": call.method,
            "url": self.base_url + call.path,
            "params": call.query,
            "content": call.content,
            "files": call.files,
            "headers": headers,
            "timeout": self.timeout,
        }


class Caller:
    """Sends calls with `httpx.Client`, which keeps connections open. It may be used by several threads."""

    def __init__(self, options: Options, http: httpx.Client) -> None:
        self._options = options
        self._http = http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options})"

    def call(
        self,
        returns: type[T],
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        files: Mapping[str, FileInput] | None = None,
        repeat: str | None = None,
        idempotency_key: str | Omit = OMIT,
        **options: Unpack[CallOptions],
    ) -> T:
        """Send a request, with retries, and return the body as this type. Also for routes that the library lacks.

        `repeat` says when the request may be sent again; see `Call`. By default POST is repeated only if nothing was
        done.
        """
        changed = self._options.changed(**options)
        call = Call(
            method,
            path,
            query=query,
            body=body,
            files=files,
            repeat=repeat,
            idempotency_key=idempotency_key,
            max_retries=changed.max_retries,
        )
        result: T = decode(returns, self._send(call, changed))
        return result

    def pages(self, item: type[T], path: str, query: dict[str, Any], **options: Unpack[CallOptions]) -> Pages[T]:
        return Pages(partial(self.call, dict, "GET", path, **options), item, query)

    def _send(self, call: Call, options: Options) -> httpx.Response:
        request = options.request(call)
        while True:
            try:
                response = self._http.request(**request)
            except httpx.TransportError as error:
                wait_s: float | None = call.wait_after_failure(error)
            else:
                wait_s = call.wait_after_response(response)
            if wait_s is None:
                return response
            time.sleep(wait_s)


class AsyncCaller:
    """Sends calls with `httpx.AsyncClient`. It belongs to one event loop."""

    def __init__(self, options: Options, http: httpx.AsyncClient) -> None:
        self._options = options
        self._http = http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options})"

    async def call(
        self,
        returns: type[T],
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        files: Mapping[str, FileInput] | None = None,
        repeat: str | None = None,
        idempotency_key: str | Omit = OMIT,
        **options: Unpack[CallOptions],
    ) -> T:
        """Send a request, with retries, and return the body as this type. Also for routes that the library lacks.

        `repeat` says when the request may be sent again; see `Call`. By default POST is repeated only if nothing was
        done.
        """
        changed = self._options.changed(**options)
        call = Call(
            method,
            path,
            query=query,
            body=body,
            files=files,
            repeat=repeat,
            idempotency_key=idempotency_key,
            max_retries=changed.max_retries,
        )
        result: T = decode(returns, await self._send(call, changed))
        return result

    def pages(self, item: type[T], path: str, query: dict[str, Any], **options: Unpack[CallOptions]) -> AsyncPages[T]:
        return AsyncPages(partial(self.call, dict, "GET", path, **options), item, query)

    async def _send(self, call: Call, options: Options) -> httpx.Response:
        request = options.request(call)
        while True:
            try:
                response = await self._http.request(**request)
            except httpx.TransportError as error:
                wait_s: float | None = call.wait_after_failure(error)
            else:
                wait_s = call.wait_after_response(response)
            if wait_s is None:
                return response
            await asyncio.sleep(wait_s)

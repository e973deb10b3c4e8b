"""Calls every method of a Python client with a made-up value for each required argument, and keeps what it sends."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httpx

from tonne_client import AsyncClient, Client, TonneError


@dataclass(frozen=True)
class Sent:
    """`operation` is the method and the path, with the names of its parameters: `GET /v1/orders/{order_id}`."""

    name: str
    operation: str
    request: httpx.Request


def blocking(**options: Any) -> list[Sent]:
    """What `Client` sends with these arguments beside the required ones. Methods that refuse them are left out."""
    requests: list[httpx.Request] = []
    http = httpx.Client(transport=httpx.MockTransport(lambda request: _record(requests, request)))
    return list(_sent(Client("key", http=http), requests, options))


def waiting(**options: Any) -> list[Sent]:
    """The same for `AsyncClient`."""
    requests: list[httpx.Request] = []
    http = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: _record(requests, request)))
    return list(_sent(AsyncClient("key", http=http), requests, options))


def _record(requests: list[httpx.Request], request: httpx.Request) -> httpx.Response:
    requests.append(request)
    return httpx.Response(400, json={})


def _sent(client: Client | AsyncClient, requests: list[httpx.Request], options: dict[str, Any]) -> Iterator[Sent]:
    for name, method in _methods(client):
        with suppress(TypeError), suppress(TonneError):
            returned = method(**_required(method), **options)
            returned = returned.page() if hasattr(returned, "page") else returned
            asyncio.run(returned)
        if requests:
            request = requests.pop()
            yield Sent(name, f"{request.method} {unquote(request.url.path)}", request)


def _methods(client: Client | AsyncClient) -> Iterator[tuple[str, Any]]:
    for resource, held in vars(client).items():
        if type(held).__name__.endswith("Resource"):
            for name, method in inspect.getmembers(held, inspect.ismethod):
                if not name.startswith("_"):
                    yield f"{resource}.{name}", method


def _required(method: Any) -> dict[str, Any]:
    """Positional arguments are parameters of the path: they get their own names."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            is_path = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name != "body"
            given[name] = f"{{{name.rstrip('_')}}}" if is_path else [{}] if name == "body" else ""
    return given

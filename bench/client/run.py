"""The Python client against its bare HTTP library: CPU time of this process, with the same requests in turn."""

import time
import uuid
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median
from typing import Any

import httpx

from bench.environment import Environment, open_environment
from bench.pace import QUICK_CLIENT, ClientPace
from bench.report import Goal, Report, Result
from tonne_client import AsyncClient, Client

NAMES = ("read", "create", "list", "async_read")
# What the client may cost above httpx.
MAX_MS = 0.3
Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Sides:
    """The same calls by the client and by httpx alone. Both read the same three fields."""

    client: Call
    bare: Call


class Calls:
    """The calls of one tenant."""

    def __init__(self, environment: Environment, http: httpx.Client, async_http: httpx.AsyncClient) -> None:
        tenant = environment.tenants[0]
        self._url = f"http://127.0.0.1:{environment.port}"
        self._headers = {"Authorization": f"Bearer {tenant.key}"}
        self._estimate_id = tenant.estimate_id
        self._http, self._async_http = http, async_http
        self._client = Client(tenant.key, base_url=self._url, http=http)
        self._async_client = AsyncClient(tenant.key, base_url=self._url, http=async_http)
        self._order_id = self._client.orders.create_by_estimate(estimate_id=tenant.estimate_id).id
        for _ in range(100):
            self._client.orders.create_by_estimate(estimate_id=tenant.estimate_id)

    def sides(self) -> dict[str, Sides]:
        return {
            "read": Sides(self._read, self._bare_read),
            "create": Sides(self._create, self._bare_create),
            "list": Sides(self._list, self._bare_list),
            "async_read": Sides(self._async_read, self._bare_async_read),
        }

    async def _read(self) -> object:
        order = self._client.orders.retrieve(self._order_id)
        return order.id, order.status, order.total_cost

    async def _bare_read(self) -> object:
        return _fields(self._http.get(f"{self._url}/v1/orders/{self._order_id}", headers=self._headers).json())

    async def _create(self) -> object:
        order = self._client.orders.create_by_estimate(estimate_id=self._estimate_id, metadata={"trip": "1"})
        return order.id, order.status, order.total_cost

    async def _bare_create(self) -> object:
        body = {"estimate_id": self._estimate_id, "metadata": {"trip": "1"}, "idempotency_key": uuid.uuid4().hex}
        url = f"{self._url}/v1/orders/by-estimate"
        return _fields(self._http.post(url, json=body, headers=self._headers).json())

    async def _list(self) -> object:
        return [(order.id, order.status, order.total_cost) for order in self._client.orders.list().page().data]

    async def _bare_list(self) -> object:
        url = f"{self._url}/v1/orders"
        page = self._http.get(url, params={"limit": "100"}, headers=self._headers).json()
        return [_fields(order) for order in page["data"]]

    async def _async_read(self) -> object:
        order = await self._async_client.orders.retrieve(self._order_id)
        return order.id, order.status, order.total_cost

    async def _bare_async_read(self) -> object:
        url = f"{self._url}/v1/orders/{self._order_id}"
        return _fields((await self._async_http.get(url, headers=self._headers)).json())


def _fields(order: dict[str, Any]) -> tuple[str, str, str]:
    return order["id"], order["status"], order["total_cost"]


async def _cpu_ms(call: Call, calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - started) / calls * 1000


async def _measure(name: str, sides: Sides, pace: ClientPace) -> list[Result]:
    client_ms, bare_ms = [], []
    for call in (sides.client, sides.bare):
        await _cpu_ms(call, pace.warm_up_calls)
    for _ in range(pace.rounds):
        client_ms.append(await _cpu_ms(sides.client, pace.calls))
        bare_ms.append(await _cpu_ms(sides.bare, pace.calls))
    added_ms = median(own - bare for own, bare in zip(client_ms, bare_ms, strict=True))
    return [
        Result(f"client_{name}_added", added_ms, "ms", MAX_MS, Goal(1.0, at_most=True)),
        Result(f"client_{name}", median(client_ms), "ms", median(bare_ms)),
    ]


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_CLIENT if quick else ClientPace()
    async with open_environment() as environment, httpx.AsyncClient() as async_http:
        with httpx.Client() as http:
            for name, sides in Calls(environment, http, async_http).sides().items():
                if name in names:
                    report.add(*await _measure(name, sides, pace))

"""Options of a single call, in the Python client, also for asyncio. client.ts has those of the TypeScript client."""

import json
import socket
from typing import Any

import httpx
import pytest

from tests.clients import every_method
from tests.clients.conftest import Service
from tonne_client import AsyncClient, Client, NotFound, TimedOut
from tonne_client.models import MassInput
from tools.docs.openapi import openapi_document

MASS: MassInput = {"amount": "4", "unit": "kg"}
URL = "https://127.0.0.1:9/hook"


def test_every_method_takes_an_account_a_timeout_and_a_number_of_retries() -> None:
    plain = every_method.blocking()
    for found in (every_method.blocking, every_method.waiting):
        changed = found(account="acc_9", timeout=7, max_retries=0)
        assert [sent.name for sent in changed] == [sent.name for sent in plain]
        assert {sent.request.headers["Service-Account"] for sent in changed} == {"acc_9"}
        assert {sent.request.extensions["timeout"]["read"] for sent in changed} == {7}
    assert not any("Service-Account" in sent.request.headers for sent in plain)
    assert every_method.blocking(surprise=1) == []


def test_every_method_that_creates_something_takes_an_idempotency_key() -> None:
    paths = openapi_document()["paths"]
    keyed = {
        f"POST {path}"
        for path, methods in paths.items()
        if any(each["name"] == "Idempotency-Key" for each in methods.get("post", {}).get("parameters", ()))
    }
    carried = {}
    for sent in every_method.blocking(idempotency_key="mine"):
        in_header = sent.request.headers.get("Idempotency-Key")
        carried[sent.operation] = in_header or json.loads(sent.request.content)["idempotency_key"]
        assert b"auto-" not in sent.request.content, "items of a batch that has a key get none"
    assert set(carried.values()) == {"mine"}
    assert {operation for operation in carried if operation.startswith("POST ")} == keyed


def test_what_creates_nothing_refuses_a_key() -> None:
    client = Client("key")
    with pytest.raises(
        TypeError, match=r"^POST /v1/orders/ord_1/release takes no idempotency_key: it creates nothing\.$"
    ):
        client.orders.release("ord_1", idempotency_key="mine")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes no idempotency_key"):
        client.orders.list(idempotency_key="mine").page()  # type: ignore[call-arg]


def test_the_client_acts_for_an_account_in_one_call(service: Service) -> None:
    other = service.world.ours_test.client_account_id
    with Client(service.key, base_url=service.url) as client:
        own = client.account.retrieve().id
        order = client.orders.create_by_mass(mass=MASS, account=other)
        assert order.id in [each.id for each in client.orders.list(limit=1, account=other)]
        assert order.id not in [each.id for each in client.orders.list()]
        assert (client.account.retrieve(account=other).id, client.account.retrieve().id) == (other, own)
        with pytest.raises(NotFound):
            client.account.retrieve(account="acc_unknown")


async def test_a_call_gives_up_in_its_own_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client("key", base_url=url, max_retries=0) as client:
            with pytest.raises(TimedOut):
                client.account.retrieve(timeout=0.05)
            with pytest.raises(TimedOut):
                client.orders.list(timeout=httpx.Timeout(5, read=0.05)).page()
        async with AsyncClient("key", base_url=url) as waiting:
            with pytest.raises(TimedOut):
                await waiting.account.retrieve(timeout=0.05, max_retries=0)


def test_a_key_of_the_caller_creates_once(service: Service) -> None:
    with Client(service.key, base_url=service.url) as client:
        hooks = [client.webhooks.create(url=URL, idempotency_key="one hook") for _ in range(2)]
        orders = [client.orders.create_by_mass(mass=MASS, idempotency_key="one order") for _ in range(2)]
        client.webhooks.delete(hooks[0].id)
    assert hooks[0] == hooks[1]
    assert orders[0].id == orders[1].id


async def test_the_async_client_takes_them_too(service: Service) -> None:
    other = service.world.ours_test.client_account_id
    async with AsyncClient(service.key, base_url=service.url) as client:
        keyed: Any = {"idempotency_key": "async order", "account": other}
        orders = [await client.orders.create_by_mass(mass=MASS, **keyed) for _ in range(2)]
        assert orders[0].id == orders[1].id
        assert orders[0].id in [each.id async for each in client.orders.list(limit=1, account=other)]
        assert orders[0].id not in [each.id async for each in client.orders.list()]
        with pytest.raises(TypeError, match="takes no idempotency_key"):
            await client.orders.release(orders[0].id, idempotency_key="mine")  # type: ignore[call-arg]

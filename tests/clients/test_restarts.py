"""The Python client with a running service: every operation, the README, lost responses, a server that is killed."""

import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.generate.document import Document
from tests.clients.conftest import Service
from tests.clients.contract import CheckedTransport, Contract, check_model, check_value, sample
from tests.support.command import wait_until
from tests.support.processes import ROOT
from tonne_client import ApiError, AsyncClient, Client, NotFound, models
from tonne_client.pages import Pages

README = ROOT / "clients" / "python" / "README.md"
# What the service must not say of a request that is valid by the document. Other rules, such as "either `mass` or
# `bundle_masses`", are not in a schema.
FORM = re.compile(r"^Unknown |route_not_found|method_not_allowed|media_type_invalid|internal_error")


@pytest.fixture(scope="module")
def contract(service: Service) -> Contract:
    return Contract(service.document())


@pytest.fixture
def client(service: Service, contract: Contract) -> Any:
    """Its requests and responses are checked against the OpenAPI document."""
    with httpx.Client(transport=CheckedTransport(contract)) as http:
        yield Client(service.key, base_url=service.url, http=http)


def test_an_order_from_the_estimate_to_the_certificate(client: Client) -> None:
    bundles = list(client.bundles.list())
    quote = client.orders.quote_by_mass(mass={"amount": Decimal("1.5"), "unit": "t"})
    estimate = client.estimates.create(mass={"amount": "1.5", "unit": "t"}, metadata={"flight": "BER-LIS"})
    order = client.orders.create_by_estimate(
        estimate_id=estimate.id,
        bundle_selection=[{"bundle_id": bundles[0].id, "percentage": "100"}],
        beneficiary={"name": "Ada", "kind": "person"},
    )
    assert (order.status, order.quantity) == ("placed", Decimal("1.5"))
    assert quote.total_cost is not None
    wait_until(lambda: client.orders.retrieve(order.id).status == "complete", 60, "the order is complete")
    complete = client.orders.retrieve_by_idempotency_key(order.idempotency_key)
    assert client.orders.download_certificate(order.id).startswith(b"%PDF-")
    events = [event for event in client.events.list(order="asc") if event.data.to_dict()["order"]["id"] == order.id]
    assert events[-1].event_type == "order.completed"
    account = client.account.retrieve()
    link = client.offset_links.create(title="Shop", preset_quantity="1")
    webhook = client.webhooks.create(url="https://127.0.0.1:9/hook")
    shown = [
        *(complete, quote, estimate, *bundles, *events, account, link, webhook, *client.retirements.list()),
        *(
            client.tax_profile.retrieve(),
            client.sustainability_page.retrieve(),
            client.orders.retrieve_certificate(order.id),
        ),
        *(*client.projects.list(), *client.offset_links.list(), *client.webhooks.list(), *client.audit_log.list()),
        *(client.webhooks.update(webhook.id, enabled=False), *client.checkouts.list()),
    ]
    for model in shown:
        check_model(model, type(model).__name__)
    client.webhooks.delete(webhook.id)
    with pytest.raises(NotFound) as raised:
        client.webhooks.retrieve(webhook.id)
    assert raised.value.request_id is not None


def test_a_list_walks_all_pages(client: Client) -> None:
    placed = [client.orders.create_by_value(value="25.00").id for _ in range(5)]
    orders = client.orders.list(limit=2)
    assert [order.id for order in orders][:5] == placed[::-1]
    assert [order.id for order in orders.page().data] == placed[:2:-1]


def test_contract_every_request_has_the_documented_form(service: Service, contract: Contract) -> None:
    """Every operation with every argument, made of the examples in the document. The service may only refuse values."""
    document = Document(contract.document)
    wrong = []
    with httpx.Client(transport=CheckedTransport(contract), timeout=60) as http:
        client = Client(service.key, base_url=service.url, http=http, max_retries=0)
        for operation in document.operations:
            method = getattr(getattr(client, operation.resource), "_".join(operation.words))
            try:
                returned = method(**_arguments(method, operation, document, contract.document))
                if isinstance(returned, Pages):
                    check_value(returned.page().data, list[Any])
            except ApiError as error:
                if FORM.search(str(error)):
                    wrong.append(f"{operation.operation_id}: {error}")
            except AssertionError as error:
                wrong.append(str(error))
    assert not wrong, "\n".join(wrong)
    assert contract.seen >= {operation.operation_id for operation in document.operations}


def _arguments(
    method: Callable[..., Any], operation: Any, document: Document, whole: Mapping[str, Any]
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for parameter in (*operation.path_parameters, *operation.query):
        given[parameter.name] = sample(parameter.schema, whole, parameter.name)
    given |= {"limit": 2} if "limit" in given else {}
    given.pop("after", None)
    body = {} if operation.body is None else sample(operation.body, whole)
    if operation.body is not None and document.resolve(operation.body).get("type") != "object":
        return {**given, "body": body}
    names = inspect.signature(method).parameters
    renamed = {name if name in names else f"{name}_": value for name, value in (*given.items(), *body.items())}
    if operation.is_multipart:
        renamed |= dict.fromkeys(body, ("logo.png", b"no image", "image/png"))
    return renamed


class LosesResponses(httpx.HTTPTransport):
    """The service gets every request, and the client does not get the first response to each."""

    def __init__(self) -> None:
        super().__init__()
        self._lost: set[bytes] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.read()
        if request.content not in self._lost:
            self._lost.add(request.content)
            raise httpx.ReadError("connection reset")
        return response


def test_an_order_whose_response_was_lost_is_placed_once(service: Service) -> None:
    with httpx.Client(transport=LosesResponses()) as http:
        client = Client(service.key, base_url=service.url, http=http)
        order = client.orders.create_by_mass(mass={"amount": "3", "unit": "kg"}, metadata={"scene": "lost"})
    with Client(service.key, base_url=service.url) as client:
        found = [each.id for each in client.orders.list() if each.metadata.get("scene") == "lost"]
    assert found == [order.id]


def test_orders_are_placed_once_while_the_server_is_killed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads place orders. The server is killed in between, with SIGKILL, and started again."""
    monkeypatch.setattr("tonne_client.attempts.LONGEST_WAIT_S", 1.0)
    count, some_are_placed = 40, threading.Event()
    placed: list[str] = []
    with Client(service.key, base_url=service.url, max_retries=60) as client:

        def place(number: int) -> None:
            order = client.orders.create_by_mass(mass={"amount": "1", "unit": "kg"}, metadata={"killed": number})
            placed.append(order.id)
            if len(placed) == 8:
                some_are_placed.set()

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(place, number) for number in range(count)]
            some_are_placed.wait(60)
            service.kill_api()
            service.start("api")
            for each in running:
                each.result(120)
        found = [order for order in client.orders.list() if "killed" in order.metadata]
    assert sorted(order.id for order in found) == sorted(placed)
    assert sorted(order.metadata["killed"] for order in found) == list(range(count))


async def test_the_async_client_works(service: Service) -> None:
    async with AsyncClient(service.key, base_url=service.url) as client:
        order = await client.orders.create_by_mass(mass={"amount": "1", "unit": "t"})
        assert (await client.orders.retrieve(order.id)) == order
        assert order.id in [each.id async for each in client.orders.list(limit=20)]
        assert (await client.orders.list(limit=1).page()).has_more
        event = await client.events.retrieve((await client.events.list(limit=1).page()).data[0].event_id)
        check_value(event, models.WebhookEvent)
        with pytest.raises(NotFound):
            await client.with_options(account="acc_unknown").account.retrieve()


def test_the_readme_works(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        text = block.replace("http://localhost:8080", service.url).replace("tonne_test_…", service.key)
        exec(compile(text, str(README), "exec"), names)  # noqa: S102 - our own file
    names["client"].close()
    assert names["newest"].id == names["order"].id
    assert names["receive"](b"{}", {}) == 401
    assert json.loads(json.dumps(names["order"].to_dict()))["currency"] == "EUR"

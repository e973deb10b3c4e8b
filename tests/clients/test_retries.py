"""When the client repeats a request, how long it waits before, and what it sends again. The network is scripted."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from tonne_client import (
    ApiError,
    AsyncClient,
    BadRequest,
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    NotFound,
    RateLimited,
    ServiceFailed,
    TimedOut,
    TonneError,
    Unauthorised,
    UnexpectedResponse,
)
from tonne_client.models import MassInput

Step = httpx.Response | Exception
MASS: MassInput = {"amount": "1", "unit": "t"}


def failure(status: int, code: str, **headers: str) -> httpx.Response:
    fault = {"error_code": code, "message": "No."}
    body = {"error": fault, "errors": [fault], "request_id": "req_1"}
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def ok(**fields: Any) -> httpx.Response:
    return httpx.Response(200, json={"id": "ord_1", **fields})


class Network:
    """Responds as scripted, and records requests and waits."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    def client(self, **options: Any) -> Client:
        return Client("tonne_test_1", base_url="http://tonne.test/v1/", http=self._http(), **options)

    def _http(self) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(self))


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Network]:
    def make(*steps: Step) -> Network:
        made = Network(*steps)
        monkeypatch.setattr(time, "sleep", made.waits.append)

        async def sleep(seconds: float) -> None:
            made.waits.append(seconds)

        monkeypatch.setattr(asyncio, "sleep", sleep)
        return made

    return make


Make = Callable[..., Network]
BROKEN = httpx.ReadError("connection reset")
REFUSED = httpx.ConnectError("connection refused")


def test_all_attempts_of_a_creation_have_the_same_key(network: Make) -> None:
    made = network(BROKEN, failure(503, "service_unavailable"), httpx.ReadTimeout("slow"), ok())
    assert made.client().orders.create_by_mass(mass=MASS).id == "ord_1"
    keys = {body["idempotency_key"] for body in made.bodies}
    assert len(keys) == 1
    assert len(keys.pop()) > 30
    assert len(made.waits) == 3
    assert all(low <= wait <= 2 * low for wait, low in zip(made.waits, (0.25, 0.5, 1.0), strict=True))


def test_a_key_of_the_caller_is_used_and_two_calls_have_different_ones(network: Make) -> None:
    made = network(ok(), ok(), ok())
    client = made.client()
    client.orders.create_by_mass(mass=MASS, idempotency_key="mine")
    client.orders.create_by_mass(mass=MASS)
    client.orders.create_by_mass(mass=MASS, metadata=None)
    mine, second, third = made.bodies
    assert mine["idempotency_key"] == "mine"
    assert second["idempotency_key"] != third["idempotency_key"]
    assert (set(second), third["metadata"]) == ({"mass", "idempotency_key"}, None)


def test_what_has_no_field_for_a_key_carries_it_in_the_header(network: Make) -> None:
    made = network(BROKEN, failure(503, "service_unavailable"), ok(), ok(), ok())
    client = made.client()
    client.webhooks.rotate_secret("wh_1")
    client.webhooks.rotate_secret("wh_1", overlap_s=60)
    client.webhooks.rotate_secret("wh_1", idempotency_key="mine")
    *attempts, other, mine = [request.headers["Idempotency-Key"] for request in made.requests]
    assert len(attempts) == 3
    assert len(set(attempts)) == 1
    assert other not in attempts
    assert mine == "mine"


async def test_the_async_client_retries_alike(network: Make) -> None:
    made = network(BROKEN, failure(429, "rate_limited", retry_after="3"), ok())
    http = httpx.AsyncClient(transport=httpx.MockTransport(made))
    async with AsyncClient("tonne_test_1", base_url="http://tonne.test", http=http) as client:
        assert (await client.orders.create_by_mass(mass=MASS)).id == "ord_1"
    assert len({body["idempotency_key"] for body in made.bodies}) == 1
    assert made.waits[1] >= 3
    await http.aclose()


def test_retry_after_is_respected_as_seconds_and_as_a_date(network: Make) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    made = network(
        failure(429, "rate_limited", retry_after="7"), failure(503, "service_unavailable", retry_after=later), ok()
    )
    made.client().orders.retrieve("ord_1")
    assert made.waits[0] == 7
    assert 25 < made.waits[1] <= 30


def test_a_long_retry_after_is_left_to_the_caller(network: Make) -> None:
    made = network(failure(429, "rate_limited", retry_after="3600"))
    with pytest.raises(RateLimited) as raised:
        made.client().orders.retrieve("ord_1")
    assert (raised.value.retry_after_s, made.waits) == (3600, [])


@pytest.mark.parametrize("steps", [[REFUSED], [failure(429, "rate_limited")], [failure(503, "service_held")]])
def test_a_post_without_a_key_is_repeated_if_nothing_was_done(network: Make, steps: Sequence[Step]) -> None:
    made = network(*steps, ok())
    assert made.client().orders.release("ord_1").id == "ord_1"
    assert len(made.requests) == 2


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (BROKEN, ConnectionFailed),
        (httpx.ReadTimeout("slow"), TimedOut),
        (failure(503, "service_unavailable"), ServiceFailed),
    ],
)
def test_a_post_without_a_key_is_not_repeated_otherwise(network: Make, step: Step, expected: type[TonneError]) -> None:
    made = network(step)
    with pytest.raises(expected):
        made.client().orders.release("ord_1")


def test_retries_end(network: Make) -> None:
    made = network(*[BROKEN] * 3)
    with pytest.raises(ConnectionFailed) as raised:
        made.client(max_retries=2).orders.retrieve("ord_1")
    assert raised.value.__cause__ is BROKEN
    assert len(made.requests) == 3


def test_a_repeated_delete_that_finds_nothing_was_successful(network: Make) -> None:
    made = network(BROKEN, failure(404, "webhook_not_found"), failure(404, "webhook_not_found"))
    client = made.client()
    client.webhooks.delete("wh_1")
    with pytest.raises(NotFound):
        client.webhooks.delete("wh_1")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, BadRequest),
        (401, Unauthorised),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (413, ApiError),
        (500, ServiceFailed),
    ],
)
def test_errors_are_classes_by_status(network: Make, status: int, expected: type[ApiError]) -> None:
    first = {"error_code": "validation_error", "message": "mass is missing.", "field": "mass"}
    second = {"error_code": "validation_error", "message": "Unknown field notes."}
    body = {"error": first, "errors": [first, second], "request_id": "req_9"}
    made = network(httpx.Response(status, json=body))
    with pytest.raises(expected) as raised:
        made.client(max_retries=0).orders.retrieve("ord_1")
    error = raised.value
    assert type(error) is expected
    assert (error.status, error.code, error.field, error.request_id) == (status, "validation_error", "mass", "req_9")
    assert [(fault.message, fault.field) for fault in error.errors] == [
        ("mass is missing.", "mass"),
        ("Unknown field notes.", None),
    ]
    assert str(error) == f"mass is missing. ({status} validation_error, request req_9)"


@pytest.mark.parametrize("response", [httpx.Response(302, text="elsewhere"), httpx.Response(200, text="<html>")])
def test_a_response_that_is_not_of_the_service_is_reported(network: Make, response: httpx.Response) -> None:
    with pytest.raises(UnexpectedResponse, match="Check base_url"):
        network(response).client().orders.retrieve("ord_1")


def test_requests_carry_key_account_and_encoded_values(network: Make) -> None:
    made = network(ok(), httpx.Response(200, json={"has_more": False, "next_cursor": None, "data": []}))
    client = made.client().with_options(account="acc_2")
    client.orders.retrieve_by_idempotency_key("a/b ?#")
    since = datetime(2026, 11, 15, tzinfo=UTC)
    assert list(client.audit_log.list(since=since, action="order.placed")) == []
    first, second = made.requests
    assert str(first.url) == "http://tonne.test/v1/orders/by-idempotency-key/a%2Fb%20%3F%23"
    assert first.headers["Authorization"] == "Bearer tonne_test_1"
    assert first.headers["Service-Account"] == "acc_2"
    assert dict(second.url.params) == {"limit": "100", "since": "2026-11-15T00:00:00+00:00", "action": "order.placed"}
    assert "tonne_test_1" not in repr(client)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_id_that_would_change_the_path_is_refused(network: Make, name: str) -> None:
    with pytest.raises(ValueError, match="order_id must not be"):
        network().client().orders.retrieve(name)


def test_a_key_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TONNE_API_KEY", raising=False)
    with pytest.raises(ValueError, match="TONNE_API_KEY"):
        Client()
    monkeypatch.setenv("TONNE_API_KEY", "from the environment")
    with Client():
        pass

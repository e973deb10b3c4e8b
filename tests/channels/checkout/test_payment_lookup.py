"""Finding a payment by its temporary id."""

import uuid
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from tests.channels.checkout.shopper import STOLEN_CARD, Shopper, make_link, signed
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.model import temporary_id_of

PATH = "/v1/payments/by-temporary-id"


@pytest.fixture
async def paid(services: Services, world: World, shopper: Shopper) -> str:
    """The address of a paid checkout."""
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO redirect_hosts (organisation_id, host, created_at) VALUES ($1, 'shop.example.com', now())",
            world.ours_test.scope.organisation_id,
        )
    link = await make_link(services, world.ours_test.scope, redirect_url="https://shop.example.com/done?step=3#top")
    address = await shopper.begin(link, query=signed(link, external_id="basket 17&x=y"))
    await shopper.pay(address)
    return address


def _id(address: str) -> str:
    return temporary_id_of(address.removeprefix("/checkout/"))


async def test_the_redirect_contains_the_id_and_the_api_finds_it(paid: str, shopper: Shopper, api: ApiClient) -> None:
    page = await shopper.open(paid)
    [address] = [
        part.split('"')[0] for part in page.text.split('href="') if part.startswith("https://shop.example.com")
    ]
    parts = urlsplit(address.replace("&amp;", "&"))
    query = parse_qs(parts.query)
    assert (parts.path, parts.fragment, query["step"]) == ("/done", "top", ["3"])
    assert (query["external_id"], query["external_id_verified"]) == (["basket 17&x=y"], ["true"])
    [temporary_id] = query["temporary_id"]
    assert uuid.UUID(temporary_id).version == 4
    answer = await api.get(f"{PATH}/{temporary_id}")
    assert answer.status_code == 200
    payment = answer.json()
    assert set(payment) == {"order", "type"}
    assert payment["type"] == "order"
    assert payment["order"] == (await api.get(f"/v1/orders/{payment['order']['id']}")).json()
    order = payment["order"]
    assert (order["external_id"], order["external_id_verified"], order["metadata"]) == ("basket 17&x=y", True, {})
    assert (await api.get(f"{PATH}/{temporary_id.upper()}")).status_code == 200


async def test_before_the_payment_there_is_no_id(
    services: Services, world: World, shopper: Shopper, api: ApiClient, paid: str
) -> None:
    link = await make_link(services, world.ours_test.scope, redirect_url="https://shop.example.com/done")
    address = await shopper.begin(link)
    declined = await shopper.pay(address, STOLEN_CARD)
    assert 'href="https://shop.example.com/done"' in declined.text
    answer = await api.get(f"{PATH}/{_id(address)}")
    assert (answer.status_code, codes(answer)) == (404, ["payment_not_found"])
    assert (await api.get(f"{PATH}/{_id(paid)}")).status_code == 200


async def test_it_expires_after_exactly_fifteen_minutes(services: Services, world: World, paid: str) -> None:
    async with services.database.connection() as connection:
        settled_at: datetime = await connection.fetchval("SELECT settled_at FROM charges")
    for elapsed, status in (
        (timedelta(minutes=15) - timedelta(microseconds=1), 200),
        (timedelta(minutes=15), 404),
        (timedelta(days=1), 404),
    ):
        later = Services(services.database, services.settings, clock=lambda at=settled_at + elapsed: at)  # type: ignore[misc]
        transport = httpx.ASGITransport(build_app(later))
        async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
            answer = await ApiClient(http, world.ours_test.key).get(f"{PATH}/{_id(paid)}")
        assert answer.status_code == status, elapsed


async def test_it_is_found_after_a_refund_and_after_a_cancellation(
    services: Services, paid: str, api: ApiClient
) -> None:
    order = (await api.get(f"{PATH}/{_id(paid)}")).json()["order"]
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET refunds_by_api = true")
    answer = await api.post(f"/v1/orders/{order['id']}/cancel", {"refund": True})
    assert answer.status_code == 200, answer.text
    while await services.refund_jobs["make_refunds"]():
        pass
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT status FROM charges") == "refunded"
    found = await api.get(f"{PATH}/{_id(paid)}")
    assert (found.status_code, found.json()["order"]["status"]) == (200, "cancelled")


async def test_other_organisations_and_modes_get_the_same_answer_as_for_unknown_ids(
    paid: str, world: World, api: ApiClient
) -> None:
    unknown = await api.get(f"{PATH}/{uuid.uuid4()}")
    refused = [await api.as_key(key).get(f"{PATH}/{_id(paid)}") for key in (world.theirs_test.key, world.ours_live.key)]
    for answer in (unknown, *refused):
        body = answer.json()
        del body["request_id"]
        assert (answer.status_code, body["error"]["error_code"]) == (404, "payment_not_found")
        assert body == {key: value for key, value in unknown.json().items() if key != "request_id"}
    acting = await api.get(f"{PATH}/{_id(paid)}", Service_Account=world.ours_test.client_account_id)
    assert acting.status_code == 200, "a key of the organisation sees the payments of all its accounts"
    assert (await api.as_key("").get(f"{PATH}/{_id(paid)}")).status_code == 401


@pytest.mark.parametrize("text", ["x", "123", "0" * 32, "%00", "{00000000-0000-4000-8000-000000000000}", "é"])
async def test_a_malformed_id_is_rejected(api: ApiClient, text: str) -> None:
    answer = await api.get(f"{PATH}/{text}")
    assert (answer.status_code, codes(answer)) == (400, ["validation_error"])


async def test_wrong_ids_are_rate_limited_per_key(services: Services, world: World, paid: str) -> None:
    limited = Services(services.database, msgspec.structs.replace(services.settings, failed_lookup_burst=10))
    transport = httpx.ASGITransport(build_app(limited))
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        api = ApiClient(http, world.ours_test.key)
        assert [(await api.get(f"{PATH}/{_id(paid)}")).status_code for _ in range(20)] == [200] * 20
        answers = [await api.get(f"{PATH}/{uuid.uuid4()}") for _ in range(100)]
        assert [answer.status_code for answer in answers[:10]] == [404] * 10
        assert [answer.status_code for answer in answers].count(429) >= 80
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert (await api.get(f"{PATH}/{_id(paid)}")).status_code == 200, "a right id is found all the same"
        other = await api.as_key(world.ours_live.key).get(f"{PATH}/{uuid.uuid4()}")
        assert other.status_code == 404


async def test_the_id_is_not_stored(services: Services, paid: str) -> None:
    async with services.database.connection() as connection:
        text = await connection.fetchval("SELECT string_agg(checkouts::text, ' ') FROM checkouts")
    assert _id(paid) not in text
    assert _id(paid).replace("-", "") not in text


async def test_an_order_without_a_checkout_has_no_payment(api: ApiClient, link: OffsetLink) -> None:
    order = await api.order()
    assert (order["offset_link_id"], order["email"]) == (None, None)
    assert (await api.get(f"/v1/orders?offset_link_id={link.id}")).json()["data"] == []

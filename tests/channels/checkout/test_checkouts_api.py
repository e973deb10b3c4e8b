"""Checkouts that a client's server creates."""

import asyncio
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.channels.checkout.scene import Rows, age, allow, change_price, work
from tests.channels.checkout.shopper import STOLEN_CARD, Shopper, form_of, make_link, signed
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.values.context import utc_now

CHECKOUTS = "/v1/checkouts"


async def create(api: ApiClient, link: OffsetLink, **fields: Any) -> dict[str, Any]:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1.5", **fields}
    answer = await api.post(CHECKOUTS, {name: value for name, value in body.items() if value is not None})
    assert answer.status_code == 201, answer.text
    checkout: dict[str, Any] = answer.json()
    return checkout


def path_of(checkout: dict[str, Any]) -> str:
    assert re.fullmatch(r"http://tonne\.test/checkout/pay_[0-9a-z]{26}", checkout["url"])
    return str(checkout["url"]).removeprefix("http://tonne.test")


async def test_security_6_a_checkout_made_by_the_server_is_paid_as_it_was_made(
    services: Services, world: World, api: ApiClient, link: OffsetLink, shopper: Shopper, *, rows: Rows
) -> None:
    await allow(services, world, "shop.example.com")
    made = await create(
        api,
        link,
        external_id="A-4711",
        reference="PO 17",
        redirect_url="https://shop.example.com/thanks?sale=A-4711",
        redirect_label="the shop",
        metadata={"basket": 17, "note": "1.50"},
        idempotency_key="sale-A-4711",
    )
    assert (made["status"], made["order_id"], made["quantity"], made["requested_quantity"]) == (
        "open",
        None,
        "1.5",
        "1.5",
    )
    assert (made["email"], made["external_id"], made["account_type"]) == ("ann@example.com", "A-4711", "test")
    assert made["metadata"] == {"basket": 17, "note": "1.50"}
    page = await shopper.open(path_of(made))
    assert 'name="amount"' not in page.text
    assert "Thank you" in (await shopper.send(page)).text
    paid = (await api.get(f"{CHECKOUTS}/{made['id']}")).json()
    assert paid == made | {"status": "paid", "order_id": paid["order_id"]}
    order = (await api.get(f"/v1/orders/{paid['order_id']}")).json()
    assert (order["quantity"], order["total_cost"], order["email"]) == ("1.5", made["total_cost"], "ann@example.com")
    assert order["metadata"] == {"basket": 17, "note": "1.50"}, "as it was sent"
    assert (order["external_id"], order["external_id_verified"], order["reference"]) == ("A-4711", True, "PO 17")
    await work(services)
    done = await shopper.open(path_of(made))
    assert "https://shop.example.com/thanks?sale=A-4711&amp;temporary_id=" in done.text
    [entry] = await rows("SELECT actor, subject_id FROM audit_log WHERE action = 'checkout.created'")
    assert (entry["actor"], entry["subject_id"]) == (f"key:{world.ours_test.key_id}", made["id"])


async def test_a_repeated_request_returns_the_original(
    api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1", "idempotency_key": "k"}
    first = await api.post(CHECKOUTS, body)
    again = await api.post(CHECKOUTS, body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotency-Mismatch" not in again.headers
    other = await api.post(CHECKOUTS, body | {"quantity": "2", "email": "nonsense"})
    assert (other.status_code, other.json()["quantity"], other.headers["Idempotency-Mismatch"]) == (200, "1", "true")
    body.pop("idempotency_key")
    by_header = await api.post(CHECKOUTS, body, Idempotency_Key="k")
    assert by_header.json()["id"] == first.json()["id"]
    assert (await api.post(CHECKOUTS, body)).json()["idempotency_key"].startswith("auto_")
    await shopper.pay(path_of(first.json()))
    assert (await api.post(CHECKOUTS, body, Idempotency_Key="k")).json()["status"] == "paid"
    assert len(await rows("SELECT id FROM checkouts")) == 2


async def test_an_expired_checkout_is_closed_and_its_key_stays_used(
    services: Services, api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    made = await create(api, link, idempotency_key="k")
    await age(
        services,
        "UPDATE checkouts SET expires_at = now() - interval '1 s', next_close_at = now() - interval '1 s'",
    )
    assert (await api.get(f"{CHECKOUTS}/{made['id']}")).json()["status"] == "closed", "before a worker closes it"
    page = await shopper.open(path_of(made))
    assert (page.status_code, "Start again" in page.text) == (410, False)
    await work(services)
    [row] = await rows("SELECT status, email FROM checkouts")
    assert (row["status"], row["email"]) == ("closed", None)
    again = await api.post(
        CHECKOUTS, {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1.5", "idempotency_key": "k"}
    )
    assert (again.status_code, again.json()["status"], again.json()["email"]) == (200, "closed", None)
    assert (await shopper.open(path_of(made))).status_code == 410


async def test_a_checkout_by_value_follows_the_price_only_with_a_notice(
    services: Services, api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    made = await create(api, link, quantity=None, value="50.00")
    assert (made["requested_value"], made["requested_quantity"]) == ("50.00", None)
    old = await shopper.open(path_of(made))
    await change_price(services)
    refused = await shopper.send(old)
    assert "You&#39;d now get" in refused.text or "You'd now get" in refused.text
    assert await rows("SELECT id FROM orders") == []
    assert "Thank you" in (await shopper.send(refused)).text


async def test_without_an_amount_the_preset_of_the_link_applies(
    services: Services, world: World, api: ApiClient, link: OffsetLink
) -> None:
    fixed = await make_link(services, world.ours_test.scope, preset_quantity_grams=2_000_000, amount_editable=False)
    assert (await create(api, fixed, quantity=None))["quantity"] == "2"
    assert (await create(api, fixed, quantity="0.5"))["quantity"] == "0.5", "the amount is the client's to choose"
    refused = await api.post(CHECKOUTS, {"offset_link_id": link.id, "email": "ann@example.com"})
    assert (refused.status_code, codes(refused)) == (400, ["checkout_amount_missing"])


async def test_bundles_of_the_link_can_be_chosen(api: ApiClient, world: World, link: OffsetLink) -> None:
    one = next(iter(world.bundles_test.values()))
    assert (await create(api, link, bundle_ids=[one]))["bundle_ids"] == [one]
    refused = await api.post(
        CHECKOUTS,
        {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1", "bundle_ids": ["bun_gone"]},
    )
    assert (codes(refused), refused.json()["error"]["field"]) == (["bundle_not_offered"], "bundle_ids")


async def test_a_paid_reference_is_refused_and_an_unpaid_one_replaced(
    api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    first, second = [await create(api, link, external_id="A-1") for _ in range(2)]
    await shopper.pay(path_of(first), STOLEN_CARD)
    assert "Thank you" in (await shopper.pay(path_of(second))).text
    assert (await api.get(f"{CHECKOUTS}/{first['id']}")).json()["status"] == "closed"
    statuses = [row["status"] for row in await rows("SELECT status FROM orders ORDER BY created_at")]
    assert statuses == ["cancelled", "paid"]
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1", "external_id": "A-1"}
    refused = await api.post(CHECKOUTS, body)
    assert (refused.status_code, codes(refused)) == (409, ["already_paid"])
    assert (await shopper.open(f"/offset/{link.id}", **signed(link, external_id="A-1"))).status_code == 409


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"email": "nonsense"}, "email", "validation_error"),
        ({"email": None}, "email", "validation_error"),
        ({"quantity": "0"}, "quantity", "order_quantity_invalid"),
        ({"quantity": "1.1234567"}, "quantity", "order_quantity_invalid"),
        ({"quantity": 1.5}, "quantity", "validation_error"),
        ({"quantity": None, "value": "1.001"}, "value", "order_value_invalid"),
        ({"value": "1"}, "value", "validation_error"),
        ({"quantity": None, "value": "0.10"}, "value", "charge_too_small"),
        ({"external_id": ""}, "external_id", "validation_error"),
        ({"external_id": "a\nb"}, "external_id", "validation_error"),
        ({"redirect_url": "https://evil.example/"}, "redirect_url", "redirect_url_refused"),
        ({"offset_link_id": "lnk_gone"}, "offset_link_id", "offset_link_not_found"),
        ({"reference": "a\nb"}, "reference", "validation_error"),
        ({"bundle_ids": []}, "bundle_ids", "bundle_not_offered"),
        ({"qantity": "1"}, "qantity", "validation_error"),
    ],
    ids=str,
)
async def test_invalid_requests_name_the_field(
    api: ApiClient, link: OffsetLink, rows: Rows, *, change: dict[str, Any], field: str, code: str
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1.5"} | change
    refused = await api.post(CHECKOUTS, {name: value for name, value in body.items() if value is not None})
    assert (refused.status_code, codes(refused)) == (400, [code]), refused.text
    assert refused.json()["error"]["field"] == field
    assert await rows("SELECT id FROM checkouts") == []


async def test_limits_of_the_link_name_the_field(services: Services, world: World, api: ApiClient) -> None:
    link = await make_link(services, world.ours_test.scope, max_quantity_grams=1_000_000)
    refused = await api.post(CHECKOUTS, {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "2"})
    assert (codes(refused), refused.json()["error"]["field"]) == (["amount_out_of_bounds"], "quantity")
    closed = await make_link(services, world.ours_test.scope, expires_at=utc_now() - timedelta(seconds=1))
    refused = await api.post(CHECKOUTS, {"offset_link_id": closed.id, "email": "ann@example.com", "quantity": "2"})
    assert (refused.status_code, codes(refused)) == (409, ["offset_link_not_open"])


async def test_a_live_checkout_needs_a_gateway(services: Services, world: World, api: ApiClient) -> None:
    live = await make_link(services, world.ours_live.scope)
    body = {"offset_link_id": live.id, "email": "ann@example.com", "quantity": "2"}
    refused = await api.as_key(world.ours_live.key).post(CHECKOUTS, body)
    assert (refused.status_code, codes(refused)) == (409, ["offset_link_not_payable"])


async def test_other_accounts_and_modes_see_nothing(world: World, api: ApiClient, link: OffsetLink) -> None:
    made = await create(api, link)
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1"}
    for stranger in (api.as_key(world.theirs_test.key), api.as_key(world.ours_live.key)):
        assert (await stranger.get(f"{CHECKOUTS}/{made['id']}")).status_code == 404
        assert (await stranger.get(CHECKOUTS)).json()["data"] == []
        assert codes(await stranger.post(CHECKOUTS, body)) == ["offset_link_not_found"]
    client = {"Service_Account": world.ours_test.client_account_id}
    assert (await api.get(f"{CHECKOUTS}/{made['id']}", **client)).status_code == 404


async def test_the_list_has_the_checkouts_of_the_api_newest_first(
    api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    made = [await create(api, link, external_id=f"A-{i}") for i in range(3)]
    await shopper.begin(link)
    page = (await api.get(f"{CHECKOUTS}?limit=2")).json()
    rest = (await api.get(f"{CHECKOUTS}?limit=2&after={page['next_cursor']}")).json()
    assert page["data"] + rest["data"] == made[::-1]
    [begun] = await rows("SELECT id FROM checkouts WHERE token_box IS NULL")
    assert (await api.get(f"{CHECKOUTS}/{begun['id']}")).status_code == 404


async def test_the_token_is_sealed_and_a_lost_key_is_no_error(
    services: Services, api: ApiClient, link: OffsetLink, rows: Rows
) -> None:
    made = await create(api, link)
    [row] = await rows("SELECT checkouts::text AS text FROM checkouts")
    assert path_of(made).removeprefix("/checkout/") not in row["text"]
    await age(services, "UPDATE checkouts SET token_box = token_box || '\\x00'::bytea")
    assert (await api.get(f"{CHECKOUTS}/{made['id']}")).json()["url"] is None


async def test_the_example_of_the_documentation_works(
    services: Services, world: World, api: ApiClient, link: OffsetLink
) -> None:
    await allow(services, world, "shop.example.com")
    [route] = [route for route in services.routes() if (route.method, route.path) == ("POST", CHECKOUTS)]
    made = await api.post(CHECKOUTS, route.example | {"offset_link_id": link.id})
    assert made.status_code == 201, made.text


async def test_metadata_is_kept_as_it_was_sent(api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows) -> None:
    raw = '{"offset_link_id":"LINK","email":"ann@example.com","quantity":"1","metadata":{"b":1.10,"a":[1e2]}}'
    answer = await api.http.post(
        CHECKOUTS, content=raw.replace("LINK", link.id), headers=api._headers({}) | {"Content-Type": "application/json"}
    )
    assert '"metadata":{"b":1.10,"a":[1e2]}' in answer.text
    await shopper.pay(path_of(answer.json()))
    [order] = await rows("SELECT metadata FROM orders")
    assert order["metadata"] == '{"b":1.10,"a":[1e2]}'
    assert json.loads(order["metadata"]) == {"b": 1.1, "a": [100.0]}


async def test_form_fields_cannot_change_it(api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows) -> None:
    made = await create(api, link, external_id="A-1")
    form = form_of(await shopper.open(path_of(made)))
    values = form.values(
        amount="0.1", by="quantity", email="eve@example.com", external_id="B", card_number="4242424242424242"
    )
    await shopper.http.post(form.action, data=values)
    [order] = await rows("SELECT quantity_grams, email, metadata, external_id, external_id_verified FROM orders")
    assert (order["quantity_grams"], order["email"]) == (1_500_000, "ann@example.com")
    assert (order["external_id"], order["external_id_verified"], order["metadata"]) == ("A-1", True, "{}")


async def test_concurrent_requests_with_one_key_make_one_checkout(api: ApiClient, link: OffsetLink, rows: Rows) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1", "idempotency_key": "k"}
    answers = await asyncio.gather(*(api.post(CHECKOUTS, body) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert len(await rows("SELECT id FROM checkouts")) == 1


async def test_concurrent_payments_of_one_reference_charge_once(
    api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    """By two checkouts of the API and a signed link."""
    addresses = [path_of(await create(api, link, external_id="A-1")) for _ in range(2)]
    addresses.append(await shopper.begin(link, query=signed(link, external_id="A-1")))
    pages = [await shopper.open(address) for address in addresses]
    await asyncio.gather(*(shopper.send(page) for page in pages for _ in range(2)))
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["captured"]
    assert [row["status"] for row in await rows("SELECT status FROM orders WHERE status <> 'cancelled'")] == ["paid"]

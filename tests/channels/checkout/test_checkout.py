"""Checkouts over HTTP, from the link to the certificate."""

import asyncio
import re
from datetime import timedelta

import httpx
import msgspec
import pytest

from tests.channels.checkout.scene import Rows, age, change_price, work
from tests.channels.checkout.shopper import (
    CONFIRMED_CARD,
    GOOD_CARD,
    LOST_ANSWER,
    POOR_CARD,
    STOLEN_CARD,
    Shopper,
    form_of,
    make_link,
    signed,
)
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.values.context import utc_now


async def test_paying_with_a_test_card_leads_to_a_certificate(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows, api: ApiClient
) -> None:
    address = await shopper.begin(link, amount="1,5")
    assert await rows("SELECT id FROM orders") == [], "nothing is ordered before somebody pays"
    thanks = await shopper.pay(address)
    assert "Thank you" in thanks.text
    [order] = (await api.get(f"/v1/orders?offset_link_id={link.id}")).json()["data"]
    assert (order["status"], order["quantity"], order["payment_method"]) == ("paid", "1.5", "card")
    assert (order["offset_link_id"], order["email"]) == (link.id, "ann@example.com")
    await work(services)
    done = await shopper.open(address)
    assert "Your credits are retired" in done.text
    pdf = await shopper.open(f"{address}/certificate.pdf")
    assert pdf.headers["content-type"] == "application/pdf"
    assert pdf.content.startswith(b"%PDF")
    [charge] = await rows("SELECT amount_minor, status FROM charges")
    assert charge["status"] == "captured"


async def test_the_shown_total_is_charged(shopper: Shopper, link: OffsetLink, rows: Rows, api: ApiClient) -> None:
    price = await shopper.open(f"/offset/{link.id}/price", by="quantity", amount="3.333333")
    [shown] = re.findall(r'data-total="(\d+)"', price.text)
    address = await shopper.begin(link, amount="3.333333")
    [asked] = form_of(await shopper.open(address)).values()["total"]
    await shopper.pay(address)
    [charge] = await rows("SELECT amount_minor FROM charges")
    quote = (await api.post("/v1/orders/by-mass/quote", {"mass": {"amount": "3.333333", "unit": "t"}})).json()
    assert int(shown) == int(asked) == charge["amount_minor"] == round(float(quote["total_cost"]) * 100)


async def test_a_requested_value_includes_the_fee(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    await shopper.pay(await shopper.begin(link, by="value", amount="50"))
    [order] = await rows("SELECT type, total_cost_minor, requested_value_minor FROM orders")
    assert (order["type"], order["requested_value_minor"]) == ("value", 5000)
    assert order["total_cost_minor"] <= 5000


async def test_after_a_decline_another_card_pays_the_same_order(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    address = await shopper.begin(link)
    declined = await shopper.pay(address, STOLEN_CARD)
    assert "The payment didn't go through" in declined.text
    assert "The card has insufficient funds." in (await shopper.pay(address, POOR_CARD)).text
    assert "Thank you" in (await shopper.pay(address)).text
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["paid"]
    charges = await rows("SELECT status FROM charges ORDER BY attempt")
    assert [charge["status"] for charge in charges] == ["failed", "failed", "captured"]


async def test_a_card_that_needs_confirmation_leads_to_the_simulated_bank_and_back(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    bank = await shopper.pay(address, CONFIRMED_CARD)
    assert bank.url.path == f"{address}/bank"
    assert "Simulated bank" in bank.text
    await work(services)
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["pending"]
    assert await rows("SELECT * FROM mails") == [], "nobody but the buyer confirms it"
    waiting = await shopper.open(address)
    assert "Waiting for your payment" in waiting.text
    assert f'href="{address}/bank"' in waiting.text
    assert "wasn&#39;t given" in (await shopper.answer(bank, "fail")).text
    assert (await shopper.answer(bank, "complete")).status_code == 409
    again = await shopper.pay(address, CONFIRMED_CARD)
    assert "Thank you" in (await shopper.answer(again, "complete")).text
    charges = await rows("SELECT status FROM charges ORDER BY attempt")
    assert [charge["status"] for charge in charges] == ["failed", "captured"]
    outcomes = await rows("SELECT status FROM simulated_charges ORDER BY status")
    assert [row["status"] for row in outcomes] == ["captured", "refused"]


async def test_a_confirmation_that_nobody_gives_ends_and_another_card_pays(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    bank = await shopper.pay(address, CONFIRMED_CARD)
    async with services.database.connection() as connection:
        await connection.execute("UPDATE charges SET confirm_until = now(), next_attempt_at = now()")
    await work(services)
    assert (await shopper.answer(bank, "complete")).status_code == 409, "the charge was cancelled at the gateway"
    assert "Thank you" in (await shopper.pay(address)).text
    assert sorted(row["status"] for row in await rows("SELECT status FROM simulated_charges")) == [
        "captured",
        "refused",
    ]


async def test_the_accounts_stored_card_is_never_charged(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    await shopper.pay(await shopper.begin(link), STOLEN_CARD)
    await work(services)
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["failed"]
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["placed"]


async def test_a_real_card_number_is_rejected_and_not_stored(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    answer = await shopper.pay(await shopper.begin(link), "4111 1111 1111 1111")
    assert answer.status_code == 422
    assert "Use a test card" in answer.text
    assert "4111" not in answer.text
    assert await rows("SELECT * FROM charges") == await rows("SELECT * FROM simulated_charges") == []


async def test_concurrent_clicks_make_one_order_and_one_charge(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    answers = await asyncio.gather(*(shopper.send(page) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert "Thank you" in (await shopper.open(address)).text
    assert len(await rows("SELECT id FROM orders")) == 1
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["captured"]
    assert len(await rows("SELECT id FROM simulated_charges")) == 1


async def test_submitting_the_form_again_after_the_payment_charges_nothing(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    for _ in range(3):
        assert "Thank you" in (await shopper.send(page)).text
    assert len(await rows("SELECT id FROM charges")) == 1


async def test_a_price_that_changed_is_shown_before_anything_is_charged(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    old = await shopper.open(address)
    await change_price(services)
    told = await shopper.send(old)
    assert "The price has changed from" in told.text
    assert await rows("SELECT id FROM orders") == []
    assert form_of(told).values()["total"] != form_of(old).values()["total"]
    assert "Thank you" in (await shopper.send(told)).text
    [charge] = await rows("SELECT amount_minor FROM charges")
    assert [str(charge["amount_minor"])] == form_of(told).values()["total"]


async def test_the_price_is_fixed_once_there_is_an_order(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    declined = await shopper.pay(address, STOLEN_CARD)
    await change_price(services)
    assert form_of(await shopper.open(address)).values()["total"] == form_of(declined).values()["total"]
    assert "Thank you" in (await shopper.pay(address)).text
    amounts = {row["amount_minor"] for row in await rows("SELECT amount_minor FROM charges")}
    assert len(amounts) == 1


async def test_a_tab_with_an_old_price_does_not_pay_the_new_one(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    """Another tab has placed the order at another price."""
    address = await shopper.begin(link)
    old = await shopper.open(address)
    await change_price(services)
    await shopper.pay(address, STOLEN_CARD)
    told = await shopper.send(old)
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["failed"]
    assert form_of(told).values()["total"] != form_of(old).values()["total"]
    assert "Thank you" in (await shopper.send(told)).text


async def test_a_forged_total_is_not_charged(
    shopper: Shopper, link: OffsetLink, browser: httpx.AsyncClient, rows: Rows
) -> None:
    form = form_of(await shopper.open(await shopper.begin(link)))
    for total in ("1", "-1", "", "9" * 30, "abc", "１２"):
        answer = await browser.post(form.action, data=form.values(total=total, card_number=GOOD_CARD))
        assert answer.status_code == 200
        assert "The offer has changed since you opened this page." in answer.text
    assert await rows("SELECT id FROM orders") == []


async def test_an_unclear_charge_is_not_paid_twice(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    assert "Waiting for your payment" in (await shopper.send(page, LOST_ANSWER)).text
    assert "Waiting for your payment" in (await shopper.send(page, GOOD_CARD)).text
    await age(services, "UPDATE charges SET next_attempt_at = now() - interval '1 s'")
    await work(services)
    assert "Thank you" in (await shopper.open(address)).text
    assert len(await rows("SELECT id FROM simulated_charges")) == 1


async def test_an_expired_session_says_so_and_is_deleted(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    await age(services, "UPDATE checkouts SET expires_at = now() - interval '1 second'")
    over = await shopper.open(address)
    assert (over.status_code, "has expired" in over.text) == (410, True)
    assert (await shopper.send(page)).status_code == 409
    await age(services)
    await work(services)
    assert await rows("SELECT id FROM checkouts") == [], "an address that bought nothing is forgotten"
    assert (await shopper.open(address)).status_code == 404


async def test_an_unpaid_order_is_cancelled_when_the_checkout_expires(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    await shopper.pay(address, STOLEN_CARD)
    await age(services)
    await work(services)
    [order] = await rows("SELECT status, cancelled_by, cancel_reason FROM orders")
    assert (order["status"], order["cancelled_by"]) == ("cancelled", "system:close_checkouts")
    assert "This order was cancelled" in (await shopper.open(address)).text


async def test_a_paid_order_is_not_cancelled_after_the_expiry(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    await shopper.send(await shopper.open(address), LOST_ANSWER)
    await age(services)
    await services.close_checkouts.run_once()
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["placed"], "the money may still come"
    await age(services, "UPDATE charges SET next_attempt_at = now() - interval '1 s'")
    await work(services)
    await age(services)
    await work(services)
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["complete"]


async def test_an_external_id_is_paid_once(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    query = signed(link, external_id="basket-17")
    first, second = await shopper.begin(link, query=query), await shopper.begin(link, query=query)
    pages = [await shopper.open(first), await shopper.open(second)]
    answers = await asyncio.gather(*(shopper.send(page) for page in pages for _ in range(3)))
    assert {answer.status_code for answer in answers} <= {200, 422}
    assert [row["status"] for row in await rows("SELECT status FROM orders WHERE status <> 'cancelled'")] == ["paid"]
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["captured"]
    [order] = await rows("SELECT metadata, external_id, external_id_verified FROM orders WHERE status = 'paid'")
    assert (order["external_id"], order["external_id_verified"], order["metadata"]) == ("basket-17", True, "{}")
    assert (await shopper.open(f"/offset/{link.id}", **query)).status_code == 409


async def test_an_unpaid_checkout_is_replaced_by_another_with_the_same_external_id(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    query = signed(link, external_id="basket-18")
    first, second = await shopper.begin(link, query=query), await shopper.begin(link, query=query)
    await shopper.pay(first, STOLEN_CARD)
    assert "Thank you" in (await shopper.pay(second)).text
    orders = await rows("SELECT status FROM orders ORDER BY created_at")
    assert [order["status"] for order in orders] == ["cancelled", "paid"]
    assert "This order was cancelled" in (await shopper.open(first)).text
    [entry] = await rows("SELECT actor, address FROM audit_log WHERE action = 'order.cancelled'")
    assert entry == {"actor": f"payer:{link.id}", "address": None}, "addresses of payers are not stored"


async def test_an_external_id_is_unique_per_link(
    services: Services, world: World, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    other = await make_link(services, world.ours_test.scope)
    for each in (link, other):
        await shopper.pay(await shopper.begin(each, query=signed(each, external_id="same")))
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["paid", "paid"]


async def test_disabled_expired_and_unknown_links_get_the_same_answer(
    services: Services, world: World, shopper: Shopper
) -> None:
    scope = world.ours_test.scope
    off = await make_link(services, scope, enabled=False)
    expired = await make_link(services, scope, expires_at=utc_now() - timedelta(seconds=1))
    pages = [
        await shopper.open(f"/offset/{each}") for each in (off.id, expired.id, "lnk_" + "0" * 26, "nonsense", "%00")
    ]
    assert {page.status_code for page in pages} == {404}
    # The links of the language switch repeat the address.
    assert len({re.sub(r'href="/offset/[^"]*"', "", page.text) for page in pages}) == 1


async def test_a_link_that_is_disabled_meanwhile_takes_no_payment(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    page = await shopper.open(await shopper.begin(link))
    await age(services, "UPDATE offset_links SET enabled = false")
    assert (await shopper.send(page)).status_code == 404
    assert await rows("SELECT id FROM orders") == []


@pytest.mark.parametrize("token", ["pay_" + "0" * 26, "pay_", "x", "%2e%2e", "pay_" + "é" * 26])
async def test_unknown_tokens_are_not_found(shopper: Shopper, token: str) -> None:
    for address in (f"/checkout/{token}", f"/checkout/{token}/state", f"/checkout/{token}/certificate.pdf"):
        assert (await shopper.open(address)).status_code == 404


async def test_tokens_and_temporary_ids_are_stored_hashed(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    address = await shopper.begin(link)
    token = address.removeprefix("/checkout/")
    [row] = await rows("SELECT checkouts::text AS text FROM checkouts")
    assert token not in row["text"]


async def test_the_state_changes_when_the_page_does(services: Services, shopper: Shopper, link: OffsetLink) -> None:
    address = await shopper.begin(link)
    seen = [(await shopper.open(f"{address}/state")).json()["state"]]
    await shopper.pay(address)
    seen.append((await shopper.open(f"{address}/state")).json()["state"])
    await work(services)
    seen.append((await shopper.open(f"{address}/state")).json()["state"])
    assert seen == ["to_pay", "paid", "complete"]


async def test_attempts_are_rate_limited_per_network_address(services: Services, link: OffsetLink) -> None:
    # So slow that none is added while the test runs, however busy the machine is.
    settings = msgspec.structs.replace(services.settings, checkouts_burst=5, checkouts_per_minute=0.001)
    limited = Services(services.database, settings)
    transport = httpx.ASGITransport(build_app(limited), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        answers = [await Shopper(http).choose(link) for _ in range(10)]
    assert [answer.status_code for answer in answers] == [303] * 5 + [429] * 5
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].headers["content-type"].startswith("text/html")

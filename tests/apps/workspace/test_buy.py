"""Buying in the dashboard: the quote, the order, and that nothing else is ordered than what was shown."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.apps.workspace.forms import hidden_fields, typed_fields
from tests.support.api_client import ApiClient
from tests.support.people import Person, add_user
from tests.support.world import TESTER, World, add_account
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.stored_cards import set_card
from tonne.platform.values.context import Mode, Scope
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
Rows = Callable[[str], Awaitable[list[dict[str, Any]]]]
ORDERS = """
SELECT id, account_id, payment_method, beneficiary, beneficiary_kind, total_cost_minor, metadata, reference FROM orders
"""


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def buyer(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "fin@ours.test", world.ours_test.scope.organisation_id, Role.FINANCE)
    fin = person()
    await fin.sign_in("fin@ours.test")
    return fin


async def filled(buyer: Person, base: str, account: str = "", **fields: str) -> dict[str, str]:
    """The fields of the form as the page offers them, with one tonne."""
    page = await buyer.get(f"{base}/buy?account={account}" if account else f"{base}/buy")
    assert page.status_code == 200
    fields_of_page = {**typed_fields(page.text), **hidden_fields(page.text)}
    return {**fields_of_page, "amount": "1", "unit": "t", "payment": "invoice", **fields}


async def review(buyer: Person, base: str, fields: dict[str, str]) -> dict[str, str]:
    page = await buyer.submit(f"{base}/buy/quote", **fields)
    assert page.status_code == 200, page.text
    return hidden_fields(page.text)


async def raise_prices(services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE bundles SET unit_price_minor = unit_price_minor * 2")
        await tx.execute("UPDATE catalogues SET version = version + 1")


async def store_card(services: Services, scope: Scope) -> None:
    async with services.database.connection() as connection:
        await set_card(
            connection,
            scope,
            services.card_gateways,
            customer=None,
            method="4242424242424242",
            by=TESTER.now(),
        )


async def test_the_quote_is_that_of_the_api_and_the_order_costs_the_same(
    buyer: Person, api: ApiClient, world: World, base: str, rows: Rows
) -> None:
    fields = await filled(buyer, base, amount="2,5", po_number="PO 4711")
    assert sum(float(value) for name, value in fields.items() if name.startswith("share_") and value) == 100
    page = await buyer.submit(f"{base}/buy/quote", **fields)
    quote = (await api.post("/v1/orders/by-mass/quote", {"mass": {"amount": "2.5", "unit": "t"}})).json()
    for amount in ("offset_cost", "commission", "total_cost"):
        assert f"€{quote[amount]}" in page.text, amount
    answer = await buyer.submit(f"{base}/buy/order", **hidden_fields(page.text))
    [order] = await rows(ORDERS)
    assert answer.headers["location"] == f"{base}/orders/{order['id']}?done=ordered"
    assert order["account_id"] == world.ours_test.scope.account_id
    assert f"{order['total_cost_minor'] / 100:.2f}" == quote["total_cost"]
    assert (order["beneficiary"], order["payment_method"]) == ("Beneficiary", "invoice")
    assert (order["reference"], order["metadata"]) == ("PO 4711", "{}")
    [entry] = await rows("SELECT actor, action, subject_id, after FROM audit_log WHERE action = 'order.placed'")
    assert entry["actor"].startswith("user:usr_")
    assert (entry["subject_id"], json.loads(entry["after"])["quantity"]) == (order["id"], "2.5")


async def test_kilograms_a_budget_and_another_name(buyer: Person, world: World, base: str, rows: Rows) -> None:
    wind = f"share_{world.bundles_test['wind-power']}"
    shares = {name: "" for name in await filled(buyer, base) if name.startswith("share_")}
    by_mass = {**shares, wind: "100 %", "amount": "500", "unit": "kg", "beneficiary": "Ada Ray", "is_person": "1"}
    fields = await review(buyer, base, await filled(buyer, base, **by_mass))
    assert (await buyer.submit(f"{base}/buy/order", **fields)).status_code == 303
    fields = await review(buyer, base, await filled(buyer, base, amount="25", unit="money"))
    assert (await buyer.submit(f"{base}/buy/order", **fields)).status_code == 303
    found = {(row["beneficiary"], row["beneficiary_kind"], row["total_cost_minor"]) for row in await rows(ORDERS)}
    assert found == {("Ada Ray", "person", 384), ("Beneficiary", "organisation", 2500)}


async def test_a_form_that_is_sent_twice_places_one_order(buyer: Person, base: str, rows: Rows) -> None:
    fields = await review(buyer, base, await filled(buyer, base))
    answers = await asyncio.gather(*(buyer.submit(f"{base}/buy/order", **fields) for _ in range(3)))
    [order] = await rows(ORDERS)
    assert {answer.headers["location"] for answer in answers} == {f"{base}/orders/{order['id']}?done=ordered"}
    changed = await buyer.submit(f"{base}/buy/order", **{**fields, "amount": "3"})
    assert changed.status_code == 422
    assert "You have already placed an order with this form" in changed.text
    assert f"{base}/orders/{order['id']}" in changed.text
    again = hidden_fields(changed.text)
    assert again["key"] != fields["key"]
    assert (await buyer.submit(f"{base}/buy/order", **again)).status_code == 303
    assert len(await rows(ORDERS)) == 2


async def test_a_changed_price_is_shown_before_anything_is_ordered(
    buyer: Person, services: Services, base: str, rows: Rows
) -> None:
    fields = await review(buyer, base, await filled(buyer, base))
    await raise_prices(services)
    answer = await buyer.submit(f"{base}/buy/order", **fields)
    assert answer.status_code == 422
    assert "The price has changed" in answer.text
    assert await rows(ORDERS) == []
    confirmed = hidden_fields(answer.text)
    assert (confirmed["key"], confirmed["offer"] != fields["offer"]) == (fields["key"], True)
    assert (await buyer.submit(f"{base}/buy/order", **confirmed)).status_code == 303
    [order] = await rows(ORDERS)
    assert order["total_cost_minor"] > 2000
    await raise_prices(services)
    replayed = await buyer.submit(f"{base}/buy/order", **confirmed)
    assert replayed.headers["location"] == f"{base}/orders/{order['id']}?done=ordered", "a late second click"


async def test_without_an_offer_nothing_is_ordered(buyer: Person, base: str, rows: Rows) -> None:
    fields = await review(buyer, base, await filled(buyer, base))
    for offer in ("", "ff", "no hexadecimal"):
        assert (await buyer.submit(f"{base}/buy/order", **{**fields, "offer": offer})).status_code == 422
    assert await rows(ORDERS) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"amount": "many"}, "Enter a number, such as 2.5."),
        ({"amount": "1,000.00"}, "Enter a number, such as 2.5."),
        ({"amount": "0.0001", "unit": "kg"}, "Enter at least 1 gram"),
        ({"amount": "1", "unit": "ounces"}, "Choose tonnes, kilograms or a budget."),
        ({"amount": "1.005", "unit": "money"}, "with at most 2 decimals"),
        ({"beneficiary": " "}, "Enter the name on the certificate"),
        ({"payment": ""}, "Choose how to pay."),
        ({"payment": "card"}, "No card is stored yet. Add one, then continue"),
        ({"po_number": "x" * 101}, "Use at most 100 characters"),
    ],
)
async def test_faults_are_shown_beside_their_fields(
    buyer: Person, base: str, fields: dict[str, str], message: str
) -> None:
    answer = await buyer.submit(f"{base}/buy/quote", **await filled(buyer, base, **fields))
    assert answer.status_code == 422
    assert message in answer.text
    assert "1" in typed_fields(answer.text).values() or fields.get("amount") in typed_fields(answer.text).values()


async def test_a_mix_must_add_up_to_100(buyer: Person, world: World, base: str) -> None:
    wind, soil = (f"share_{world.bundles_test[slug]}" for slug in ("wind-power", "living-soil"))
    empty = {name: "" for name in await filled(buyer, base) if name.startswith("share_")}

    async def faults(**shares: str) -> str:
        answer = await buyer.submit(f"{base}/buy/quote", **await filled(buyer, base, **{**empty, **shares}))
        assert answer.status_code == 422
        return answer.text

    assert "The percentages sum to 90. They must sum to exactly 100." in await faults(**{wind: "40", soil: "50"})
    assert "Give at least one bundle a share." in await faults()
    assert "A percentage is a number above 0" in await faults(**{wind: "half", soil: "50"})


async def test_a_card_on_file_pays_and_a_purchase_order_does_not(
    buyer: Person, services: Services, world: World, base: str, rows: Rows
) -> None:
    await store_card(services, world.ours_test.scope)
    page = await buyer.get(f"{base}/buy")
    assert "ending in 4242" in page.text
    refused = await buyer.submit(f"{base}/buy/quote", **await filled(buyer, base, payment="card", po_number="PO 1"))
    assert "Purchase orders are paid by invoice." in refused.text
    fields = await review(buyer, base, await filled(buyer, base, payment="card"))
    assert (await buyer.submit(f"{base}/buy/order", **fields)).status_code == 303
    assert [order["payment_method"] for order in await rows(ORDERS)] == ["card"]
    tiny = await buyer.submit(f"{base}/buy/quote", **await filled(buyer, base, payment="card", amount="1", unit="kg"))
    assert "Total without tax" in tiny.text, "it is collected with other small orders"


async def test_orders_that_are_billed_together_are_paid_as_the_account_pays(
    buyer: Person, services: Services, world: World, base: str
) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET billing = 'monthly' WHERE id = $1", world.ours_test.scope.account_id)
    await store_card(services, world.ours_test.scope)
    page = await buyer.get(f"{base}/buy")
    assert "Orders are billed together at the end of the month, and this account pays by invoice." in page.text
    assert (await buyer.submit(f"{base}/buy/quote", **await filled(buyer, base, payment="card"))).status_code == 422
    quote = await buyer.submit(f"{base}/buy/quote", **await filled(buyer, base))
    assert "Total without tax" in quote.text
    assert (await buyer.submit(f"{base}/buy/order", **hidden_fields(quote.text))).status_code == 303


async def test_limits_and_closed_accounts(
    buyer: Person, services: Services, world: World, base: str, rows: Rows
) -> None:
    fields = await review(buyer, base, await filled(buyer, base))
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET monthly_limit_minor = 500")
    answer = await buyer.submit(f"{base}/buy/order", **fields)
    assert (answer.status_code, "would exceed the limit" in answer.text) == (422, True)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET monthly_limit_minor = NULL, closed_at = now(), closed_reason = 'left'")
    answer = await buyer.submit(f"{base}/buy/order", **fields)
    assert answer.status_code == 422
    closed = await buyer.get(f"{base}/buy?account={world.ours_test.scope.account_id}")
    assert "This account is closed or archived." in closed.text
    assert "No open account" in (await buyer.get(f"{base}/buy")).text
    assert await rows(ORDERS) == []


async def test_another_account_of_the_organisation(
    buyer: Person, services: Services, world: World, base: str, rows: Rows
) -> None:
    async with services.database.transaction() as tx:
        dollars = await add_account(
            tx, world.ours_test.scope.organisation_id, Mode.TEST, currency="USD", method=PaymentMethod.CARD
        )
    fields = await review(buyer, base, await filled(buyer, base, dollars.account_id))
    assert (await buyer.submit(f"{base}/buy/order", **fields)).status_code == 303
    assert [order["account_id"] for order in await rows(ORDERS)] == [dollars.account_id]


async def test_accounts_of_others_and_of_the_other_mode_do_not_exist(
    buyer: Person, world: World, base: str, rows: Rows
) -> None:
    fields = await review(buyer, base, await filled(buyer, base))
    for stranger in (world.theirs_test.scope.account_id, world.ours_live.scope.account_id, "acc_1"):
        assert (await buyer.get(f"{base}/buy?account={stranger}")).status_code == 404
        for form in ("/buy", "/buy/quote", "/buy/order"):
            answer: httpx.Response = await buyer.submit(f"{base}{form}", **{**fields, "account": stranger})
            assert answer.status_code == 404, form
    assert await rows(ORDERS) == []


async def test_the_form_comes_back_with_everything_that_was_entered(buyer: Person, base: str) -> None:
    fields = await review(buyer, base, await filled(buyer, base, amount="7", beneficiary="Fjord <Bakery>"))
    back = await buyer.submit(f"{base}/buy", **fields)
    assert back.status_code == 200
    assert typed_fields(back.text) | {"amount": "7", "beneficiary": "Fjord <Bakery>"} == typed_fields(back.text)
    assert hidden_fields(back.text)["key"] == fields["key"]


async def test_only_some_roles_buy(services: Services, world: World, person: MakePerson, base: str) -> None:
    for role in (Role.DEVELOPER, Role.READ_ONLY):
        await add_user(services, f"{role}@ours.test", world.ours_test.scope.organisation_id, role)
        member = person()
        await member.sign_in(f"{role}@ours.test")
        assert (await member.get(f"{base}/buy")).status_code == 403
        assert (await member.submit(f"{base}/buy/order")).status_code == 403
        assert f'href="{base}/buy"' not in (await member.get(f"{base}/people")).text
        arrived = await member.get(base)
        assert (arrived.status_code, arrived.headers["location"] != f"{base}/buy") == (303, True)

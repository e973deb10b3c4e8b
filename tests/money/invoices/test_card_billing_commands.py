"""What operators see of invoices that a card pays."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.money.cards.card_scene import GOOD, NO_MONEY
from tests.money.invoices.card_billing import CardBilling
from tests.support.command import Operator
from tonne.money.invoices.waiting import WAITING

APRIL = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
BELOW_MINIMUM = "live orders that a card pays reach the minimum charge within two months"


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_charges_are_found_by_invoice_and_by_order(card_billing: CardBilling, operator: Operator) -> None:
    await card_billing.open()
    orders = [await card_billing.order_small(40), await card_billing.order_small(50)]
    await card_billing.run()
    card_billing.clock.now = APRIL
    await card_billing.run()
    [charge] = await card_billing.invoice_charges()
    for words in (["--invoice", "TN-TEST-000001"], ["--order", orders[1].id]):
        [found] = _lines(operator.does("charge", "list", *words, "--json"))
        assert (found["id"], found["order_id"], found["invoice"]) == (charge["id"], None, "TN-TEST-000001")
    shown = json.loads(operator.does("invoice", "show", "TN-TEST-000001", "--json"))
    assert (shown["payment_method"], shown["received"], shown["still_due"]) == ("card", "0.90", "0.00")
    assert [each["status"] for each in shown["charges"]] == ["captured"]
    timeline = operator.does("order", "show", orders[0].id)
    assert "attempt 1 to charge 0.90 EUR for invoice TN-TEST-000001" in timeline
    listed = _lines(operator.does("order", "list", charge["id"], "--json"))
    assert {each["id"] for each in listed} == {order.id for order in orders}


async def test_order_show_says_what_an_order_waits_for(card_billing: CardBilling, operator: Operator) -> None:
    await card_billing.open(NO_MONEY)
    order = await card_billing.order_small(60)
    await card_billing.run()
    assert "its consolidated invoice" in operator.does("order", "show", order.id)
    card_billing.clock.now = APRIL
    await card_billing.run()
    assert "another card" in operator.does("order", "show", order.id)


async def test_doctor_names_orders_that_stay_below_the_minimum(card_billing: CardBilling) -> None:
    await card_billing.open(GOOD)
    await card_billing.order_small(20)
    await card_billing.run()
    await card_billing.execute("UPDATE billing_groups SET mode = 'live'")
    [check] = [each for each in WAITING if each.name == BELOW_MINIMUM]
    for days, places in ((40, 0), (70, 1)):
        now = card_billing.clock.now + timedelta(days=days)
        assert len(await card_billing.fetch(check.sql, now)) == places

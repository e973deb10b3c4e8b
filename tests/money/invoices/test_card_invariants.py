"""The invariants of invoices that a card pays, broken on purpose."""

from datetime import UTC, datetime

import pytest

from tests.money.cards.card_scene import GOOD, NO_MONEY
from tests.money.invoices.card_billing import CardBilling
from tonne.money.refunds.card_invoice_invariants import INVARIANTS

_SECOND = """
INSERT INTO charges (account_id, id, invoice_id, organisation_id, mode, attempt, gateway, source, customer, method,
                     amount_minor, currency, status, reference, captured_minor, captured_currency, created_at)
SELECT account_id, id || '2', invoice_id, organisation_id, mode, 2, 'stripe', source, customer, method, amount_minor,
       currency, 'captured', 'pi_2', amount_minor, currency, created_at FROM charges WHERE status = 'captured';
INSERT INTO charge_invoices (account_id, charge_id, invoice_id, reference, currency, amount_minor, order_count)
SELECT account_id, charge_id || '2', invoice_id, reference, currency, amount_minor, order_count FROM charge_invoices
WHERE charge_id IN (SELECT id FROM charges WHERE status = 'captured')
"""
BREACHES = [
    ("no invoice is charged twice", f"DROP INDEX charges_one_per_invoice; {_SECOND}"),
    (
        "an invoice paid by card has one captured charge of its amount",
        "UPDATE charges SET captured_minor = captured_minor + 1 WHERE status = 'captured'",
    ),
    (
        "an invoice paid by card has one captured charge of its amount",
        "UPDATE charges SET status = 'failed', reference = NULL WHERE status = 'captured'",
    ),
    ("every open invoice that a card pays is charged", "UPDATE card_invoices SET next_attempt_at = NULL"),
    (
        "the orders of an invoice that a card pays are of one account",
        "UPDATE card_invoices SET account_id = 'acc_other'",
    ),
    (
        "what is left of an order whose invoice a card paid is being refunded once it is cancelled",
        "DELETE FROM refunds",
    ),
]


@pytest.fixture
async def scene(card_billing: CardBilling) -> CardBilling:
    """Two invoices: one is paid, with one order that was cancelled afterwards; the card is declined for the other."""
    scene = card_billing
    await scene.open(GOOD)
    orders = [await scene.order_small(40) for _ in range(3)]
    await scene.run()
    scene.clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    await scene.cancel_with_refund(orders[0])
    await scene.run()
    await scene.pay_by_card(NO_MONEY)
    await scene.order_small(90)
    await scene.run()
    scene.clock.now = datetime(2026, 5, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    return scene


def test_every_invariant_is_broken_at_least_once() -> None:
    assert {name for name, _ in BREACHES} == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize(("name", "statement"), BREACHES)
async def test_a_breach_is_reported(scene: CardBilling, name: str, statement: str) -> None:
    await scene.check_invariants()
    await scene.execute(statement)
    assert name in await scene.breaches()

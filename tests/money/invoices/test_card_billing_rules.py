"""The rules of money of invoices that a card pays: sums, units, races, transfers and settings."""

import asyncio
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import httpx
import msgspec
import pytest

from tests.money.cards.card_scene import ANSWER_LOST, NO_MONEY, total
from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.card_billing import CardBilling
from tests.support.api_client import codes
from tests.support.world import ADDRESS, TESTER, add_account
from tonne.apps.wiring.app import build_app
from tonne.money.accounting.matching.assign_transfer import assign_transfer
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.accounting.reports.account_statement import make_statements
from tonne.money.cards.gateways.card import ChargeRequest, ChargeResult
from tonne.money.invoices.document_numbers import find_by_references_any_account
from tonne.money.invoices.errors import AssignmentInvalid, InvoiceNotOpen
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.settle_invoice import settle_invoice
from tonne.money.refunds.disputes.mismatched_charge import read_mismatched, return_mismatched
from tonne.money.refunds.disputes.shared_payment import resume_orders
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode, Tenant, replace
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.change_account import AccountChange, change_account, close_account
from tonne.selling.accounts.model import Billing, PaymentMethod
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.model import Order

APRIL = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
SUMS = """
SELECT charges.captured_minor, invoices.total_minor - coalesce((
           SELECT sum(note.total_minor) FROM credit_notes note
           WHERE note.invoice_id = invoices.id AND note.refund_id IS NULL), 0)::bigint AS due_minor,
       (SELECT sum(orders.total_cost_minor + orders.billing_adjustment_minor + orders.tax_minor)::bigint
        FROM invoice_orders billed
        JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
        WHERE billed.invoice_id = invoices.id) AS amount_due_minor, invoices.total_minor
FROM charges JOIN invoices ON invoices.id = charges.invoice_id WHERE charges.status IN ('captured', 'refunded')
"""
OVERPAID = """
SELECT orders.id FROM orders
WHERE orders.refunded_minor > orders.total_cost_minor + orders.billing_adjustment_minor + coalesce(orders.tax_minor, 0)
"""


@pytest.mark.parametrize("chunk", range(3))
async def test_charge_invoice_and_orders_agree_for_random_orders_taxes_and_refunds(
    card_billing: CardBilling, chunk: int
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed} chunk {chunk}")  # noqa: T201 - shown when the test fails
    rng, scene = random.Random(seed), card_billing  # noqa: S311 - repeatable on purpose
    await scene.open()
    orders = []
    for _ in range(rng.randint(2, 4)):
        rate = rng.choice((None, "0.19", "0.07", "0.081", "0.255"))
        treatment = TaxTreatment.NONE if rate is None else TaxTreatment.STANDARD
        profile = {"treatment": treatment, "rate": None if rate is None else Decimal(rate), **ADDRESS}
        async with scene.database.transaction() as tx:
            await set_tax_profile(tx, scene.scope.organisation_id, profile, by=TESTER.at(scene.clock()))
        orders += [await scene.order_small(rng.randint(3, 300)) for _ in range(rng.randint(1, 12))]
    await scene.run()
    scene.clock.now = APRIL
    await scene.run()
    if not await scene.invoice_charges():
        return
    [sums] = await scene.fetch(SUMS)
    assert sums["captured_minor"] == sums["total_minor"] == sums["amount_due_minor"] == sums["due_minor"]
    for order in rng.sample(orders, min(len(orders), 6)):
        try:
            await scene.refund(order, rng.choice((None, rng.randint(1, 50))))
        except TonneError:
            continue
    await scene.run()
    assert await scene.fetch(OVERPAID) == []
    back = await scene.fetchval("SELECT coalesce(sum(refunded_minor), 0)::bigint FROM orders")
    assert await scene.taken() == [sums["captured_minor"] - back]
    await scene.check_invariants()


async def test_a_total_in_dinars_is_rounded_down_to_what_a_card_can_be_charged(card_billing: CardBilling) -> None:
    scene = card_billing
    async with scene.database.transaction() as tx:
        scope = await add_account(
            tx, scene.scope.organisation_id, Mode.TEST, method=PaymentMethod.CARD, currency="KWD", now=scene.clock()
        )
    scene.tenant = msgspec.structs.replace(scene.tenant, scope=scope)
    await scene.execute(
        "INSERT INTO exchange_rates (mode, base, quote, rate, source, as_of) "
        "SELECT mode, 'EUR', 'KWD', 0.33, source, as_of FROM exchange_rates WHERE mode = 'test' LIMIT 1 "
        "ON CONFLICT DO NOTHING"
    )
    await scene.open()
    orders = [await scene.order_small(value) for value in (123, 457, 1234)]
    assert total(orders) % 10
    await scene.run()
    scene.clock.now = APRIL
    await scene.run()
    charged = total(orders) // 10 * 10
    assert await scene.taken() == [charged]
    [sums] = await scene.fetch(SUMS)
    assert {*sums.values()} == {charged}
    assert await scene.fetch("SELECT reference FROM credit_notes") == []
    await scene.refund(orders[0])
    await scene.cancel_with_refund(orders[1])
    await scene.run()
    states = await scene.fetch("SELECT payment_state FROM orders ORDER BY total_cost_minor")
    assert [row["payment_state"] for row in states] == ["refunded", "refunded", "paid"]
    await scene.check_invariants()


async def test_two_workers_charge_an_invoice_once(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    orders = [await scene.order_small(30) for _ in range(4)]
    await scene.run_jobs(scene.issue)
    scene.clock.now = APRIL
    await scene.run_jobs(scene.consolidate)
    workers = [scene.another_charger() for _ in range(3)]
    await asyncio.gather(*(worker.run_once() for worker in workers))
    await scene.run()
    assert await scene.taken() == [total(orders)]
    assert len(scene.gateway.charged) == 1
    await scene.check_invariants()


async def test_a_lost_answer_is_looked_up_and_not_charged_again(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open(ANSWER_LOST)
    orders = [await scene.order_small(60), await scene.order_small(70)]
    await scene.run()
    scene.clock.now = APRIL
    await scene.run()
    assert await scene.statuses() == {"placed"}
    scene.clock.advance(minutes=5)
    await scene.run()
    assert (await scene.statuses(), await scene.taken()) == ({"paid"}, [total(orders)])
    assert len(scene.gateway.charged) == 1
    await scene.check_invariants()


async def test_a_late_charge_of_an_invoice_that_was_settled_by_hand_goes_back(card_billing: CardBilling) -> None:
    """By hand only after the gateway said that it had charged nothing."""
    scene = card_billing
    await _declined(scene)
    [invoice] = await _invoices(scene)
    due = await scene.fetchval("SELECT next_attempt_at FROM card_invoices")
    async with scene.database.transaction() as tx:
        await settle_invoice(tx, invoice, by=TESTER.at(scene.clock()))
    assert await scene.fetchval("SELECT next_attempt_at FROM card_invoices") is None
    scene.clock.now = due
    await scene.run()
    assert (await scene.statuses(), await scene.taken()) == ({"paid"}, [])
    await scene.check_invariants()


async def _declined(scene: CardBilling) -> list[Order]:
    await scene.open(NO_MONEY)
    orders = [await scene.order_small(50) for _ in range(3)]
    await scene.run()
    scene.clock.now = APRIL
    await scene.run()
    return orders


async def _invoices(scene: CardBilling) -> list[Invoice]:
    async with scene.database.connection() as connection:
        return await find_by_references_any_account(connection, ["TN-TEST-000001"])


async def test_nobody_settles_an_invoice_while_its_card_is_charged(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    await scene.order_small(60)
    await scene.run_jobs(scene.issue)
    scene.clock.now = APRIL
    await scene.run_jobs(scene.consolidate)
    due, _ = await scene.charge.claim()
    attempts = await scene.charge.open(due)
    [invoice] = await _invoices(scene)
    with pytest.raises(InvoiceNotOpen, match="being charged"):
        async with scene.database.transaction() as tx:
            await settle_invoice(tx, invoice, by=TESTER.at(scene.clock()))
    await scene.charge.settle(await scene.charge.call_gateways(attempts))
    assert await scene.statuses() == {"paid"}
    await scene.check_invariants()


async def _book(scene: CardBilling, amount: int) -> str:
    line = Line(scene.clock.now.date(), amount, "TN-TEST-000001", reference="B1")
    async with scene.database.transaction() as tx:
        file = SheetFile("statement", camt_file([line]))
        await import_statement(tx, Mode.TEST, file, settings=scene.settings, by=TESTER.at(scene.clock()))
    return str(await scene.fetchval("SELECT id FROM bank_transfers"))


async def test_a_transfer_for_an_invoice_that_the_card_has_paid_stays_visible(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    await scene.order_small(60)
    await scene.run()
    scene.clock.now = APRIL
    await scene.run()
    transfer_id = await _book(scene, 60)
    assert await scene.fetchval("SELECT state FROM bank_transfers") == "unmatched"
    [invoice] = await _invoices(scene)
    with pytest.raises(AssignmentInvalid):
        async with scene.database.transaction() as tx:
            await assign_transfer(tx, transfer_id, [invoice], None, note="", by=TESTER.at(scene.clock()))
    await scene.check_invariants()


async def test_a_transfer_pays_a_declined_invoice_in_full_and_ends_the_charges(card_billing: CardBilling) -> None:
    scene = card_billing
    orders = await _declined(scene)
    [invoice] = await _invoices(scene)
    transfer_id = await _book(scene, 150)
    assert await scene.fetchval("SELECT state FROM bank_transfers") == "unmatched"
    with pytest.raises(AssignmentInvalid, match="all of"):
        async with scene.database.transaction() as tx:
            await assign_transfer(tx, transfer_id, [invoice], 20, note="", by=TESTER.at(scene.clock()))
    async with scene.database.transaction() as tx:
        await assign_transfer(tx, transfer_id, [invoice], None, note="", by=TESTER.at(scene.clock()))
    assert await scene.statuses() == {"paid"}
    scene.clock.advance(days=1)
    await scene.run()
    assert await scene.taken() == []
    refund = await scene.refund(orders[0])
    assert refund.method == "bank"
    await scene.check_invariants()


async def test_billing_can_change_with_orders_that_wait(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    first = await scene.order_small(60)
    await scene.run()
    await scene.open(billing=Billing.PER_ORDER)
    second = await scene.order_small(70)
    await scene.run()
    assert (await scene.status(first), await scene.status(second)) == ("placed", "paid")
    await scene.open(billing=Billing.THRESHOLD, threshold="1.00")
    third = await scene.order_small(100)
    await scene.run()
    assert await scene.status(third) == "paid"
    async with scene.database.transaction() as tx:
        change = AccountChange(payment_method=PaymentMethod.INVOICE)
        await change_account(tx, scene.scope, change, by=TESTER.at(scene.clock()))
    scene.clock.now = APRIL
    await scene.run()
    assert await scene.status(first) == "paid"
    assert sorted(await scene.taken()) == [60, 70, 100]
    await scene.check_invariants()


async def test_orders_of_a_closed_account_are_billed_at_the_end_of_the_month(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    order = await scene.order_small(60)
    await scene.run()
    async with scene.database.transaction() as tx:
        await close_account(tx, scene.scope, "Gone", by=TESTER.at(scene.clock()))
    scene.clock.now = APRIL
    await scene.run()
    assert (await scene.status(order), await scene.taken()) == ("paid", [60])
    await scene.check_invariants()


async def test_a_payment_of_another_amount_waits_for_a_person_and_goes_back(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    await scene.order_small(60)
    await scene.run()

    async def charge_less(request: ChargeRequest) -> ChargeResult:
        return await scene.gateway.inner.charge(replace(request, amount_minor=request.amount_minor - 1))

    scene.gateway.faults = [charge_less]
    scene.clock.now = APRIL
    await scene.run()
    [charge] = await scene.invoice_charges()
    assert (charge["status"], await scene.statuses()) == ("mismatched", {"placed"})
    async with scene.database.connection() as connection:
        payment = await read_mismatched(connection, scene.gateways, charge["id"])
    async with scene.database.transaction() as tx:
        await return_mismatched(tx, charge["id"], payment, by=TESTER.at(scene.clock()), reason="Wrong")
    await scene.run()
    rows = await scene.fetch("SELECT status, cancellation_reason FROM orders")
    assert [tuple(row) for row in rows] == [("cancelled", "payment_mismatched")]
    assert await scene.taken() == [0]
    await scene.check_invariants()


async def test_the_statement_of_account_has_card_payments_and_refunds(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    order = await scene.order_small(60)
    await scene.run()
    scene.clock.now = APRIL
    await scene.run()
    await scene.refund(order, 20)
    await scene.run()
    async with scene.database.connection() as connection:
        [statement] = await make_statements(
            connection, Tenant(scene.scope.organisation_id, Mode.TEST), date(2026, 3, 1), APRIL.date()
        )
    assert [(entry.kind, entry.amount_minor) for entry in statement.entries] == [
        ("invoice", 60),
        ("credit_note", -20),
        ("payment", -60),
        ("refund", 20),
    ]
    assert statement.closing_minor == 0


async def test_the_test_helper_pays_an_order_that_waits_for_its_invoice(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.wait_for_helpers()
    await scene.open(NO_MONEY)
    order = await scene.order_small(60)
    app = build_app(scene.services)
    transport = httpx.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {scene.tenant.key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        path = f"/v1/test-helpers/orders/{order.id}"
        refused = await client.post(f"{path}/pay", json={})
        assert (refused.status_code, codes(refused)) == (409, ["order_paid_by_invoice"])
        paid = await client.post(f"{path}/settle-invoice")
        assert (paid.status_code, paid.json()["status"]) == (200, "paid")
        again = await client.post(f"{path}/settle-invoice")
        assert again.status_code == 409
    assert await scene.taken() == [60]
    await scene.check_invariants()


async def test_an_invoice_that_waited_for_the_test_helpers_is_charged_once_the_account_advances(
    card_billing: CardBilling,
) -> None:
    scene = card_billing
    await scene.open()
    orders = [await scene.order_small(60), await scene.order_small(70)]
    await scene.run_jobs(scene.issue)
    await scene.wait_for_helpers()
    scene.clock.now = APRIL
    await scene.run()
    assert (await scene.statuses(), await scene.taken()) == ({"placed"}, [])
    await scene.execute("UPDATE accounts SET auto_advance = true WHERE id = $1", scene.scope.account_id)
    async with scene.database.transaction() as tx:
        await resume_orders(tx, scene.scope, service_name="Tonne", now=scene.clock())
    await scene.run()
    assert (await scene.statuses(), await scene.taken()) == ({"paid"}, [total(orders)])
    await scene.check_invariants()

"""Have the stored card of an account pay an invoice: schedule the charge, and open it."""

from datetime import datetime

from tonne.money.cards.gateways.card import StoredCard
from tonne.money.cards.invoice_charge_store import (
    CardInvoice,
    InvoiceDebt,
    has_open_charge_any_account,
    insert_card_invoice,
    insert_invoice_charge,
    schedule_invoice_any_account,
)
from tonne.money.cards.model import ChargeAttempt
from tonne.money.invoices import store
from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import CreditCause, credit_in_part, without
from tonne.money.invoices.credit_notes.issue_credit_note import issue_credit_note
from tonne.money.invoices.errors import InvoiceNotOpen
from tonne.money.invoices.issuing.billed_order_store import (
    find_order_keys_any_account,
    list_billed_orders,
    list_due_shares,
)
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import charge_unit
from tonne.platform.values.context import By, Scope, job_actor
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.queue import lock_keys

ACTOR = job_actor("charge_invoices")
ROUNDING = "Rounded down to an amount that a card can be charged"


async def pay_by_card(tx: Connection, invoice: Invoice, account_id: str, now: datetime) -> None:
    """Schedule the charge of a new invoice. Its orders are locked."""
    scope = Scope(invoice.organisation_id, account_id, invoice.mode)
    advances = await store.advances_by_itself(tx, scope)
    await insert_card_invoice(tx, CardInvoice(scope, invoice.id), now if advances else None)
    await _round_down(tx, invoice, by=ACTOR.at(now))


async def open_invoice_charge(
    tx: Connection, card_invoice: CardInvoice, *, now: datetime, held_until: datetime, card: StoredCard | None = None
) -> ChargeAttempt | None:
    """Record a charge for what is due. None if the invoice is closed, or a charge has the money or may have it.

    From then on the charge is due, not the invoice: after `held_until` a worker looks it up.
    """
    invoice_id = card_invoice.invoice_id
    await lock_keys(tx, [each.key for each in await find_order_keys_any_account(tx, [invoice_id])])
    [invoice] = await store.lock_invoices_any_account(tx, [invoice_id])
    attempt = None
    if invoice.status is InvoiceStatus.OPEN:
        await _round_down(tx, invoice, by=ACTOR.at(now))
        # The credit note of the rounding has reduced what is due, or has cancelled the invoice.
        [invoice] = await store.lock_invoices_any_account(tx, [invoice_id])
    if invoice.status is InvoiceStatus.OPEN:
        shares = await list_due_shares(tx, invoice)
        debt = InvoiceDebt(invoice.reference, invoice.currency, invoice.due_minor, invoice.order_count, shares)
        attempt = await insert_invoice_charge(tx, card_invoice, debt, card=card, now=now, held_until=held_until)
    await schedule_invoice_any_account(tx, invoice_id, None)
    return attempt


async def stop_charging(tx: Connection, invoice: Invoice) -> None:
    """The locked invoice is paid otherwise. Raises InvoiceNotOpen if a charge may have taken the money already."""
    if invoice.payment_method is not PaymentMethod.CARD:
        return
    if await has_open_charge_any_account(tx, [invoice.id]):
        raise InvoiceNotOpen(
            f"The card is being charged for invoice {invoice.reference}, or its payer has to confirm the payment. Wait "
            "for the result: `tonne charge list` shows it."
        )
    await schedule_invoice_any_account(tx, invoice.id, None)


async def _round_down(tx: Connection, invoice: Invoice, *, by: By) -> None:
    """Credit what is below the unit in which cards are charged. It is at most 9 thousandths, or 0.99 ariary."""
    rest = invoice.due_minor % charge_unit(invoice.currency)
    if rest == 0:
        return
    earlier = await credit_note_store.sum_credited(tx, invoice)
    left = [without(billed, earlier.get(billed.order_id)) for billed in await list_billed_orders(tx, invoice)]
    parts = []
    for order in sorted(left, key=lambda each: (-each.total_minor, each.order_id)):
        amount = min(rest, order.total_minor)
        if amount > 0:
            parts.append(credit_in_part(order, amount))
            rest -= amount
    await issue_credit_note(tx, invoice, parts, cause=CreditCause.CORRECTION, reason=ROUNDING, by=by)

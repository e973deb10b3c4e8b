"""Have the stored card of an account pay an invoice: schedule the charge, and open it."""

from collections.abc import Sequence
from datetime import datetime

from tonne.money.cards.gateways.card import StoredCard
from tonne.money.cards.invoice_charge_store import (
    CardInvoice,
    InvoiceDebt,
    has_open_charge_any_account,
    insert_card_invoice,
    insert_invoice_charge,
    schedule_invoices_any_account,
)
from tonne.money.cards.model import ChargeAttempt
from tonne.money.invoices import store
from tonne.money.invoices.card_payment.collection_store import list_collections
from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import CreditCause, credit_in_part, without
from tonne.money.invoices.credit_notes.issue_credit_note import issue_credit_note
from tonne.money.invoices.errors import InvoiceNotOpen
from tonne.money.invoices.issuing.billed_order_store import (
    find_order_keys_any_account,
    list_billed_orders,
    list_due_shares,
)
from tonne.money.invoices.model import Invoice, InvoiceBilling, InvoiceStatus
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import charge_unit, minimum_charge
from tonne.platform.values.context import By, Mode, Scope, job_actor
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.queue import lock_keys

ACTOR = job_actor("charge_invoices")
ROUNDING = "Rounded down to an amount that a card can be charged"


async def pay_by_card(tx: Connection, invoice: Invoice, account_id: str, now: datetime) -> None:
    """Schedule the charge of a new invoice. Its orders are locked."""
    scope = Scope(invoice.organisation_id, account_id, invoice.mode)
    advances = await store.advances_by_itself(tx, scope)
    await insert_card_invoice(tx, CardInvoice(scope, invoice.id), now if advances else None)


async def open_invoice_charge(
    tx: Connection,
    card_invoice: CardInvoice,
    *,
    now: datetime,
    held_until: datetime,
    card: StoredCard | None = None,
    has_minimum: bool | None = None,
) -> ChargeAttempt | None:
    """Record a charge for what is due, with the collections of the account. From then on the charge is due.

    None if the invoice is closed, or a charge has the money or may have it. A collection waits for others while all are
    below what a card can be charged: `has_minimum`, by default in live mode. After `held_until` a worker looks the
    charge up.
    """
    invoice_id = card_invoice.invoice_id
    collected = await list_collections(tx, card_invoice, now)
    ids = [invoice_id, *(each.invoice_id for each in collected if each.invoice_id != invoice_id)]
    await lock_keys(tx, [each.key for each in await find_order_keys_any_account(tx, ids)])
    for invoice in await _lock_open(tx, ids):
        await _round_down(tx, invoice, by=ACTOR.at(now))
    # The credit notes of the rounding have reduced what is due, or have cancelled an invoice.
    invoices = await _lock_open(tx, ids)
    asked = next((invoice for invoice in invoices if invoice.id == invoice_id), None)
    if asked is None:
        await schedule_invoices_any_account(tx, [invoice_id], None)
        return None
    if collected:
        has_minimum = card_invoice.scope.mode is Mode.LIVE if has_minimum is None else has_minimum
        has_minimum = has_minimum and asked.billing is InvoiceBilling.COLLECTED
        if has_minimum and sum(each.due_minor for each in invoices) < minimum_charge(invoices[0].currency):
            ends_at = next(each.ends_at for each in collected if each.invoice_id == invoice_id)
            await schedule_invoices_any_account(tx, [invoice_id], ends_at)
            return None
        if (retry_at := max(each.retry_at or now for each in collected)) > now:
            # A decline is not repeated before its time because another collection is due.
            await schedule_invoices_any_account(tx, [invoice_id], retry_at)
            return None
        await store.set_payment_method_any_account(tx, ids, PaymentMethod.CARD)
    debts = [
        InvoiceDebt(
            invoice.id,
            invoice.reference,
            invoice.currency,
            invoice.due_minor,
            invoice.order_count,
            await list_due_shares(tx, invoice),
        )
        for invoice in sorted(invoices, key=lambda each: each.number)
    ]
    attempt = await insert_invoice_charge(tx, card_invoice.scope, debts, card=card, now=now, held_until=held_until)
    if attempt is not None:
        await schedule_invoices_any_account(tx, ids, None)
    elif await has_open_charge_any_account(tx, [invoice_id]):
        await schedule_invoices_any_account(tx, [invoice_id], None)
    return attempt


async def _lock_open(tx: Connection, ids: Sequence[str]) -> list[Invoice]:
    locked = await store.lock_invoices_any_account(tx, ids)
    return [invoice for invoice in locked if invoice.status is InvoiceStatus.OPEN]


async def stop_charging(tx: Connection, invoice: Invoice) -> None:
    """The locked invoice is paid otherwise. Raises InvoiceNotOpen if a charge may have taken the money already."""
    if invoice.payment_method is not PaymentMethod.CARD and invoice.billing is not InvoiceBilling.COLLECTED:
        return
    if await has_open_charge_any_account(tx, [invoice.id]):
        raise InvoiceNotOpen(
            f"The card is being charged for invoice {invoice.reference}, or its payer has to confirm the payment. Wait "
            "for the result: `tonne charge list` shows it."
        )
    await schedule_invoices_any_account(tx, [invoice.id], None)


async def _round_down(tx: Connection, invoice: Invoice, *, by: By) -> None:
    """Credit what is below the unit in which cards are charged: a part of the invoice was credited since its issue."""
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

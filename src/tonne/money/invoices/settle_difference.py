"""Settle an invoice of which less arrives than is due, and book the rest as bank fees or as a small difference."""

from typing import Any

from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.errors import DifferenceInvalid
from tonne.money.invoices.model import DifferenceKind, Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account, settle_invoice
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By
from tonne.selling.users.guarded_settings import approved_settings


async def settle_with_difference(
    tx: Connection,
    invoice: Invoice,
    kind: DifferenceKind | None,
    received_minor: int | None,
    *,
    note: str,
    settings: Settings,
    by: By,
) -> int:
    """What is missing, which is booked by kind; without a kind, a credit note gives it up, and corrects the tax.

    Without `received_minor` the transfers that are assigned are all that arrives. Call it last in the transaction.
    Raises InvoiceNotOpen, DifferenceInvalid.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    assigned_minor = (await sum_received_any_account(tx, [locked.id])).get(locked.id, 0)
    received_minor = assigned_minor if received_minor is None else received_minor
    if received_minor < assigned_minor:
        raise DifferenceInvalid(f"Transfers of {locked.money(assigned_minor)} are assigned to {locked.reference}.")
    missing_minor = locked.due_minor - received_minor
    if locked.status is InvoiceStatus.OPEN and missing_minor <= 0:
        raise DifferenceInvalid(f"{locked.due} are due of invoice {locked.reference}: nothing is missing.")
    if kind is None:
        await correct_invoice(tx, locked, None, missing_minor, reason=note, by=by)
    else:
        _require_small(locked, missing_minor, await approved_settings(tx, settings))
    await settle_invoice(tx, locked, by=by, note=note)
    if kind is not None:
        await book_difference(tx, locked, kind, missing_minor, note=note, by=by)
    return missing_minor


async def clear_settled(
    tx: Connection, invoice: Invoice, kind: DifferenceKind, *, note: str, settings: Settings, by: By
) -> int:
    """Book what has not arrived of an invoice that was settled by hand, and return it. Raises DifferenceInvalid."""
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    assigned_minor = (await sum_received_any_account(tx, [locked.id])).get(locked.id, 0)
    left_minor = (locked.settled_minor or 0) - locked.difference_minor - assigned_minor
    if not locked.settled_by_hand or left_minor <= 0:
        raise DifferenceInvalid(f"Invoice {locked.reference} does not wait for money that it was settled for by hand.")
    _require_small(locked, left_minor, await approved_settings(tx, settings))
    await book_difference(tx, locked, kind, left_minor, note=note, by=by)
    return left_minor


async def book_difference(
    tx: Connection, invoice: Invoice, kind: DifferenceKind, amount_minor: int, *, note: str, by: By
) -> None:
    """The invoice is paid, and locked."""
    await invoice_store.insert_difference(tx, invoice, kind, amount_minor, by=by)
    amount = invoice.money(amount_minor)
    details: dict[str, Any] = {"reference": invoice.reference, "kind": kind, "amount": amount, "note": note}
    await audit.record(tx, invoice, "invoice.difference_booked", by=by, subject_id=invoice.id, **details)


def _require_small(invoice: Invoice, amount_minor: int, settings: Settings) -> None:
    """It must not replace a write-off, which needs a second person above this limit."""
    limit = limit_minor(settings.refund_approval_above, invoice.currency)
    if limit is not None and amount_minor > limit:
        raise DifferenceInvalid(
            f"{invoice.money(amount_minor)} of invoice {invoice.reference} are missing, and no difference above "
            f"{invoice.money(limit)} (refund_approval_above) can be booked. Write off an open invoice with "
            "`tonne invoice write-off`; look for the transfer of one that was settled by hand."
        )

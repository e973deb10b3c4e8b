"""Replace an invoice that states a wrong reference or address: a credit note cancels it, and another one is issued.

Its amounts, what was paid of it, its deadlines and its orders stay. The documents refer to each other.
"""

from typing import Any

import msgspec
from msgspec import Struct

from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.invoices import store
from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import (
    CreditCause,
    CreditNote,
    compose_credit_note,
    credit_in_full,
    without,
)
from tonne.money.invoices.credit_notes.issue_credit_note import find_terms
from tonne.money.invoices.documents.einvoice_fields import missing_of_buyer, missing_of_seller
from tonne.money.invoices.documents.held_back import missing_details
from tonne.money.invoices.documents.parties import buyer_of, seller_of
from tonne.money.invoices.documents.record import (
    CorrectedInvoice,
    InvoiceAllowance,
    InvoiceBuyer,
    InvoicePeriod,
    InvoiceRecord,
    PostalAddress,
)
from tonne.money.invoices.errors import InvoiceNotReplaced
from tonne.money.invoices.invoice_events import ISSUED, record_invoices
from tonne.money.invoices.issuing.billed_order_store import find_supply, list_billed_orders
from tonne.money.invoices.model import BilledOrganisation, Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account
from tonne.money.invoices.tax_documents import (
    DocumentKind,
    TaxDocument,
    insert_documents,
    reference_in,
    take_issue_numbers,
)
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment, format_money
from tonne.platform.values.context import By, Mode, new_id, replace, same_named
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.values.language import N_
from tonne.selling.accounts.tax.tax_profile import TaxProfile, check_tax_profile
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import OrderKey

CREDITED_LABEL = N_("Credited earlier")
# Each uses two numbers. Nobody needs more.
MAX_REPLACEMENTS = 10
_NAMES = {"street": "the street and number", "postcode": "the postcode", "city": "the city", "name": "the name"}
_INPUTS = {"electronic address": "reference"}


class StatedBuyer(Struct, frozen=True):
    """What the other invoice states about the buyer. The country, the VAT id and the tax stay."""

    name: str
    street: str = ""
    postcode: str = ""
    city: str = ""
    reference: str = ""


class InvoiceReplacement(Struct, frozen=True):
    """What an invoice states now, and what another one would state. `organisation` is None for a customer at checkout.

    Such a customer is not the organisation whose link was used: only an operator replaces the invoice.
    """

    record: InvoiceRecord
    stated: StatedBuyer
    organisation: BilledOrganisation | None
    country: str | None


async def read_replacement(connection: Connection, invoice: Invoice, settings: Settings) -> InvoiceReplacement:
    """The proposal: the organisation as it is stated now, or what the customer had said."""
    record = invoice.read_record()
    organisation = await store.find_billed_organisation(connection, invoice.organisation_id)
    postal, buyer = record.buyer.postal or PostalAddress(""), record.buyer
    if await _is_at_checkout(connection, invoice):
        parts = (postal.street or "", postal.postcode or "", postal.city or "", buyer.reference or "")
        return InvoiceReplacement(record, StatedBuyer(buyer.name, *parts), None, postal.country or None)
    tax = organisation.tax
    stated = StatedBuyer(
        organisation.name, tax.street or "", tax.postcode or "", tax.city or "", tax.buyer_reference or ""
    )
    country = postal.country or tax.country or settings.seller_country or None
    return InvoiceReplacement(record, stated, organisation, country)


async def is_replaceable(connection: Connection, invoice: Invoice) -> bool:
    """Whether the page of the organisation offers it."""
    is_over = invoice.status is InvoiceStatus.CANCELLED or invoice.due_minor == 0 or invoice.is_written_off
    return not is_over and not await _is_at_checkout(connection, invoice)


async def _is_at_checkout(connection: Connection, invoice: Invoice) -> bool:
    [first] = await list_billed_orders(connection, invoice, 1)
    [order] = await load_orders(connection, [OrderKey(first.account_id, first.order_id)])
    return order.is_paid_at_checkout


async def replace_invoice(
    tx: Connection, invoice: Invoice, stated: StatedBuyer, *, settings: Settings, by: By
) -> TaxDocument:
    """Issue the credit note and the other invoice. Raises InvoiceNotReplaced, TaxProfileInvalid, Invalid.

    The rows of two series are locked from here to the commit: call it last in the transaction.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    await _check(tx, locked)
    found = await read_replacement(tx, locked, settings)
    record = found.record
    buyer, einvoice = _stated_buyer(found, stated)
    seller = seller_of(settings, record.language)
    if (buyer, einvoice, seller) == (record.buyer, record.einvoice, record.seller):
        raise InvoiceNotReplaced(f"{record.number} states that already. Change the reference or the address.")
    if einvoice is not None and locked.mode is Mode.LIVE:
        _check_format(buyer, einvoice, record)
        if names := missing_of_seller(seller, einvoice):
            raise InvoiceNotReplaced(f"The electronic invoice needs what is not set: {', '.join(names)}.")
    # In this order, like the worker that issues documents and credits them at once.
    number, issued_on = await take_issue_numbers(tx, DocumentKind.INVOICE, locked.mode, 1, by.at)
    reference = reference_in(DocumentKind.INVOICE, locked.mode, number)
    note = await _issue_note(tx, locked, reference, by)
    record = await _paid_so_far(tx, locked, await _supplied(tx, locked, _reduced(record, note)), by)
    record = replace(
        record,
        number=reference,
        reference=reference,
        issued_on=issued_on.isoformat(),
        document=DocumentKind.INVOICE.value,
        seller=seller,
        buyer=buyer,
        einvoice=einvoice,
        replaces=CorrectedInvoice(found.record.number, found.record.issued_on),
    )
    document = same_named(
        TaxDocument,
        note,
        id=new_id("inv"),
        kind=DocumentKind.INVOICE,
        number=number,
        reference=reference,
        issued_on=issued_on,
        corrects=note.id,
        record=msgspec.json.encode(record),
    )
    await insert_documents(tx, [document], by.at)
    await credit_note_store.mark_taken_back(tx, locked, note, document.id, by.at)
    await store.mark_replaced(tx, locked, document.id)
    # The audit log names what was changed, not the name and address of a person.
    before = found.record.buyer
    changed = [name for name in ("name", "address_lines", "reference") if getattr(before, name) != getattr(buyer, name)]
    details: dict[str, Any] = {"reference": found.record.number, "credit_note": note.reference, "changed": changed}
    await audit.record(tx, locked, "invoice.replaced", by=by, subject_id=locked.id, replaced_by=reference, **details)
    await record_invoices(tx, await store.find_invoices_any_account(tx, [locked.id]), ISSUED, by.at)
    return document


async def _check(tx: Connection, locked: Invoice) -> None:
    number = locked.in_force.reference
    if locked.status is InvoiceStatus.CANCELLED or locked.due_minor == 0:
        raise InvoiceNotReplaced(f"Nothing is left of {number}: credit notes cancelled it.")
    if locked.is_written_off:
        raise InvoiceNotReplaced(f"{number} is written off. Reinstate it first.")
    notes = await credit_note_store.list_credit_notes(tx, locked)
    if sum(note.cause is CreditCause.REPLACEMENT for note in notes) >= MAX_REPLACEMENTS:
        raise InvoiceNotReplaced(f"{number} was replaced {MAX_REPLACEMENTS} times already.")


def _stated_buyer(found: InvoiceReplacement, stated: StatedBuyer) -> tuple[InvoiceBuyer, EInvoiceFormat | None]:
    """Raises TaxProfileInvalid, or Invalid with the fields of `StatedBuyer`."""
    record, organisation = found.record, found.organisation
    profile = check_tax_profile(
        TaxProfile(
            country=found.country,
            street=stated.street or None,
            postcode=stated.postcode or None,
            city=stated.city or None,
            buyer_reference=stated.reference or None,
        )
    )
    missing = [] if stated.name.strip() else ["name"]
    if record.mode == "live":
        treatment = TaxTreatment(record.taxes[0].treatment) if record.taxes else TaxTreatment.NONE
        missing += missing_details(treatment, profile)
    if missing:
        raise Invalid([Fault("validation_error", f"Enter {_NAMES.get(each, each)}.", each) for each in missing])
    town = " ".join(part for part in (profile.postcode, profile.city) if part)
    typed = "\n".join(part for part in (profile.street, town) if part)
    free = typed or (organisation.address if organisation else "\n".join(record.buyer.address_lines))
    buyer = replace(
        buyer_of(stated.name.strip(), free, profile, record.language),
        tax_id=record.buyer.tax_id,
        vat_check=record.buyer.vat_check,
        endpoint=record.buyer.endpoint if organisation is None else organisation.tax.endpoint,
    )
    return buyer, record.einvoice if organisation is None else organisation.tax.einvoice


def _check_format(buyer: InvoiceBuyer, einvoice: EInvoiceFormat, record: InvoiceRecord) -> None:
    """Raises Invalid."""
    missing = missing_of_buyer(buyer, einvoice, record.order_reference)
    if missing:
        text = "The electronic invoice needs the {}."
        raise Invalid([Fault("validation_error", text.format(each), _INPUTS.get(each, each)) for each in missing])


async def _issue_note(tx: Connection, locked: Invoice, replaced_by: str, by: By) -> CreditNote:
    """Over all that is left of the invoice. It is taken back at once, so what is owed never changes."""
    earlier = await credit_note_store.sum_credited(tx, locked)
    left = [without(each, earlier.get(each.order_id)) for each in await list_billed_orders(tx, locked)]
    credited = [credit_in_full(each) for each in left if each.total_minor > 0]
    number, issued_on = await take_issue_numbers(tx, DocumentKind.CREDIT_NOTE, locked.mode, 1, by.at)
    note = compose_credit_note(
        locked,
        credited,
        number,
        issued_on,
        cause=CreditCause.REPLACEMENT,
        reason=None,
        refund_id=None,
        issued_by=str(by.actor),
        cancels_invoice=False,
        terms=await find_terms(tx, locked, credited),
        replaced_by=replaced_by,
    )
    mail_at = None if locked.mailed_at is None else by.at
    await credit_note_store.insert_credit_note(tx, locked, note, by.at, mail_at=mail_at)
    await credit_note_store.insert_credited_orders(tx, note.id, credited)
    return note


def _reduced(record: InvoiceRecord, note: CreditNote) -> InvoiceRecord:
    """The lines of the invoice, less what earlier credit notes took off them, as allowances."""
    credited = note.read_record()
    before = {each.code: each for each in record.taxes}
    currency, allowances = note.currency, list(record.allowances)
    for each in credited.taxes:
        net = before[each.code].net if record.taxes else record.total
        minor = _minor(net) - _minor(each.net)
        if minor:
            allowances.append(
                InvoiceAllowance(CREDITED_LABEL, format_money(minor, currency), each.treatment, each.rate)
            )
    return replace(
        record,
        allowances=allowances,
        taxes=credited.taxes if record.taxes else [],
        total=credited.total,
        home=credited.home,
        placed_total=record.placed_total if credited.total == record.total else None,
    )


def _minor(amount: str) -> int:
    return int(amount.replace(".", ""))


async def _supplied(tx: Connection, locked: Invoice, record: InvoiceRecord) -> InvoiceRecord:
    """With the date of supply, if it is known by now."""
    days = await find_supply(tx, locked)
    if days is None:
        return record
    first, last = (day.isoformat() for day in days)
    if first == last:
        return replace(record, supplied_on=first, supply=None)
    return replace(record, supplied_on=None, supply=InvoicePeriod(first, last))


async def _paid_so_far(tx: Connection, locked: Invoice, record: InvoiceRecord, by: By) -> InvoiceRecord:
    if locked.is_paid:
        paid_at = locked.settled_at or by.at
        return replace(record, paid_on=record.paid_on or paid_at.date().isoformat(), received=None)
    received = (await sum_received_any_account(tx, [locked.id])).get(locked.id, 0)
    minor = min(received, locked.due_minor)
    return replace(record, received=format_money(minor, locked.currency) if minor > 0 else None)

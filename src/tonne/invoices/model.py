"""Invoices as values: how one is composed, and when an unpaid one is followed up."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum, StrEnum, auto
from typing import Literal

import msgspec

from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.invoices.record import (
    BankAccount,
    Closing,
    InvoiceBuyer,
    InvoiceFee,
    InvoiceLine,
    InvoiceRecord,
    InvoiceSeller,
)
from tonne.invoices.reference import reference_of
from tonne.invoices.seller_details import printed_tax_id
from tonne.orders.model import Order, OrderKey

FEE_LABEL = "Service fee"
TEST_NOTE = "Test mode: nothing is owed. Do not send money."


class InvoiceStatus(StrEnum):
    OPEN = "open"
    PAID = "paid"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """`record` is the issued content as JSON. In test mode `mailed_at` is also set if there was no recipient."""

    scope: Scope
    order_id: str
    number: int
    reference: str
    currency: str
    total_minor: int
    status: InvoiceStatus
    issued_on: date
    due_on: date
    record: bytes
    mailed_at: datetime | None = None
    reminded_at: datetime | None = None
    settled_at: datetime | None = None
    settled_by: str | None = None

    @property
    def order_key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.order_id)

    @property
    def total(self) -> str:
        """For people: `27.78 EUR`."""
        return f"{format_money(self.total_minor, self.currency)} {self.currency}"

    @property
    def closing(self) -> Closing | None:
        """How it was closed; None while it is open."""
        if self.settled_at is None:
            return None
        status: Literal["paid", "cancelled"] = "paid" if self.status is InvoiceStatus.PAID else "cancelled"
        return Closing(status, self.settled_at.astimezone(UTC).date().isoformat())

    def read_record(self) -> InvoiceRecord:
        return msgspec.json.decode(self.record, type=InvoiceRecord)


@dataclass(frozen=True, slots=True)
class BilledOrganisation:
    name: str
    address: str
    admins: list[str]


def compose_invoice(
    order: Order, number: int, organisation: BilledOrganisation, settings: Settings, issued_on: date
) -> Invoice:
    """A new invoice, open and not mailed yet, for a priced order."""
    priced, currency, mode = order.priced, order.currency, order.scope.mode
    if priced is None:
        raise LookupError(f"order {order.id} has no price")
    due_on = issued_on + timedelta(days=settings.invoice_due_days)
    reference = reference_of(mode, number)
    lines = [
        InvoiceLine(
            description=line.bundle_name,
            quantity=format_tonnes(line.quantity_grams),
            unit_price=format_money(line.unit_price_minor, currency),
            amount=format_money(line.offset_cost_minor, currency),
        )
        for line in priced.lines
    ]
    record = InvoiceRecord(
        number=reference,
        mode=mode.value,
        issued_on=issued_on.isoformat(),
        due_on=due_on.isoformat(),
        order_id=order.id,
        seller=_seller(settings),
        buyer=InvoiceBuyer(organisation.name, _address_lines(organisation.address)),
        currency=currency,
        lines=lines,
        fee=InvoiceFee(FEE_LABEL, format_money(priced.commission_minor, currency)),
        total=format_money(priced.total_cost_minor, currency),
        bank=_bank(settings),
        reference=reference,
        note=TEST_NOTE if mode is Mode.TEST else None,
    )
    return Invoice(
        scope=order.scope,
        order_id=order.id,
        number=number,
        reference=reference,
        currency=currency,
        total_minor=priced.total_cost_minor,
        status=InvoiceStatus.OPEN,
        issued_on=issued_on,
        due_on=due_on,
        record=msgspec.json.encode(record),
    )


def _seller(settings: Settings) -> InvoiceSeller:
    return InvoiceSeller(
        name=settings.seller_name,
        address_lines=_address_lines(settings.seller_address.replace(";", "\n")),
        tax_id=printed_tax_id(settings),
        email=settings.seller_email or None,
    )


def _bank(settings: Settings) -> BankAccount:
    return BankAccount(
        account_holder=settings.bank_account_holder or settings.seller_name,
        iban=settings.bank_iban or None,
        bic=settings.bank_bic or None,
        bank_name=settings.bank_name or None,
    )


def _address_lines(address: str) -> list[str]:
    return [line.strip() for line in address.splitlines() if line.strip()]


class InvoiceStep(Enum):
    """What a worker does next with an open invoice."""

    MAIL = auto()
    SETTLE = auto()
    REMIND = auto()
    CANCEL = auto()


@dataclass(frozen=True, slots=True)
class FollowUpSchedule:
    """When an unpaid invoice is reminded of and cancelled, in days after its due date."""

    reminder_days: int
    cancel_days: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "FollowUpSchedule":
        return cls(settings.invoice_reminder_days, settings.invoice_cancel_days)

    def remind_on(self, invoice: Invoice, today: date) -> date:
        """Counts from the mail if it went out late, so that an outage does not cost the customer time."""
        return max(invoice.due_on, _day_of(invoice.mailed_at, today)) + timedelta(days=self.reminder_days)

    def cancel_on(self, invoice: Invoice, today: date) -> date:
        """A late reminder leaves as much time to pay as one that was on time."""
        reminded_on = _day_of(invoice.reminded_at, self.remind_on(invoice, today))
        on_time = invoice.due_on + timedelta(days=self.cancel_days)
        return max(on_time, reminded_on + timedelta(days=self.cancel_days - self.reminder_days))

    def next_step(self, invoice: Invoice, now: datetime, *, settles_itself: bool) -> tuple[InvoiceStep, datetime]:
        """The next step of an open invoice, and when it is due."""
        today = now.astimezone(UTC).date()
        if invoice.mailed_at is None:
            return InvoiceStep.MAIL, now
        if settles_itself:
            return InvoiceStep.SETTLE, now
        if invoice.reminded_at is None:
            return InvoiceStep.REMIND, _start_of(self.remind_on(invoice, today))
        return InvoiceStep.CANCEL, _start_of(self.cancel_on(invoice, today))


def _day_of(moment: datetime | None, default: date) -> date:
    return default if moment is None else moment.astimezone(UTC).date()


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)

"""An invoice: what it says, and when an unpaid one is chased."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum, StrEnum, auto

import msgspec

from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.catalog.pricing import Priced
from tonne.invoices.record import BankAccount, Buyer, Fee, InvoiceLine, InvoiceRecord, Seller
from tonne.invoices.reference import reference_of
from tonne.orders.model import Order

FEE_LABEL = "Service fee"
TEST_NOTE = "Test mode: nothing is owed, and no money should be sent."


class InvoiceStatus(StrEnum):
    OPEN = "open"
    PAID = "paid"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Invoice:
    """`record` is what was sent, as JSON. `mailed_at` is set too when there was nobody to mail it to."""

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
    mailed_at: datetime | None
    reminded_at: datetime | None
    settled_at: datetime | None
    settled_by: str | None

    @property
    def total(self) -> str:
        """As people read it: `27.78 EUR`."""
        return f"{format_money(self.total_minor, self.currency)} {self.currency}"

    def read_record(self) -> InvoiceRecord:
        return msgspec.json.decode(self.record, type=InvoiceRecord)


@dataclass(frozen=True, slots=True)
class Customer:
    """Whom an invoice is for, and who of them gets it."""

    name: str
    address: str
    admins: list[str]


def compose_invoice(order: Order, number: int, customer: Customer, settings: Settings, now: datetime) -> Invoice:
    """A new invoice, open and not mailed yet, for an order that has its price."""
    if order.priced is None:
        raise LookupError(f"order {order.id} has no price")
    issued_on = now.astimezone(UTC).date()
    due_on = issued_on + timedelta(days=settings.invoice_due_days)
    reference = reference_of(order.scope.mode, number)
    record = InvoiceRecord(
        number=reference,
        mode=order.scope.mode.value,
        issued_on=issued_on.isoformat(),
        due_on=due_on.isoformat(),
        order_id=order.id,
        seller=_seller(settings),
        buyer=Buyer(customer.name, _address_lines(customer.address)),
        currency=order.currency,
        lines=_lines(order.priced),
        fee=Fee(FEE_LABEL, format_money(order.priced.commission_minor, order.currency)),
        total=format_money(order.priced.total_cost_minor, order.currency),
        bank=_bank(settings),
        reference=reference,
        note=TEST_NOTE if order.scope.mode is Mode.TEST else None,
    )
    return Invoice(
        scope=order.scope,
        order_id=order.id,
        number=number,
        reference=reference,
        currency=order.currency,
        total_minor=order.priced.total_cost_minor,
        status=InvoiceStatus.OPEN,
        issued_on=issued_on,
        due_on=due_on,
        record=msgspec.json.encode(record),
        mailed_at=None,
        reminded_at=None,
        settled_at=None,
        settled_by=None,
    )


def _lines(priced: Priced) -> list[InvoiceLine]:
    return [
        InvoiceLine(
            description=line.bundle_name,
            quantity=format_tonnes(line.quantity_grams),
            unit_price=format_money(line.unit_price_minor, priced.currency),
            amount=format_money(line.offset_cost_minor, priced.currency),
        )
        for line in priced.lines
    ]


def _seller(settings: Settings) -> Seller:
    return Seller(
        name=settings.seller_name,
        address_lines=_address_lines(settings.seller_address.replace(";", "\n")),
        tax_id=settings.seller_tax_id or None,
        email=settings.seller_email or None,
    )


def _bank(settings: Settings) -> BankAccount:
    return BankAccount(
        account_holder=settings.bank_account_holder or settings.seller_name,
        iban=settings.bank_iban or None,
        bic=settings.bank_bic or None,
        bank_name=settings.bank_name or None,
        lines=[],
    )


def _address_lines(address: str) -> list[str]:
    return [line.strip() for line in address.splitlines() if line.strip()]


class Step(Enum):
    """What a worker does next with an open invoice."""

    MAIL = auto()
    SETTLE = auto()
    REMIND = auto()
    CANCEL = auto()


@dataclass(frozen=True, slots=True)
class Plan:
    """When an unpaid invoice is chased, in days after its due date."""

    reminder_days: int
    cancel_days: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "Plan":
        return cls(settings.invoice_reminder_days, settings.invoice_cancel_days)

    def remind_on(self, invoice: Invoice, today: date) -> date:
        """An invoice that was mailed late, after an outage, is not reminded of in the same hour."""
        return max(invoice.due_on, _day_of(invoice.mailed_at, today)) + timedelta(days=self.reminder_days)

    def cancel_on(self, invoice: Invoice, today: date) -> date:
        """A reminder that went out late leaves as much time to pay as one in time does."""
        reminded_on = _day_of(invoice.reminded_at, self.remind_on(invoice, today))
        on_time = invoice.due_on + timedelta(days=self.cancel_days)
        return max(on_time, reminded_on + timedelta(days=self.cancel_days - self.reminder_days))

    def next_step(self, invoice: Invoice, now: datetime, *, settles_itself: bool) -> tuple[Step, datetime]:
        """What is to be done next with an open invoice, and from when on."""
        today = _day_of(now, date.min)
        if invoice.mailed_at is None:
            return Step.MAIL, now
        if settles_itself:
            return Step.SETTLE, now
        if invoice.reminded_at is None:
            return Step.REMIND, _start_of(self.remind_on(invoice, today))
        return Step.CANCEL, _start_of(self.cancel_on(invoice, today))


def _day_of(moment: datetime | None, otherwise: date) -> date:
    return otherwise if moment is None else moment.astimezone(UTC).date()


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)

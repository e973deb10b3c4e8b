"""Invoices as values: how one is composed, its state, what is left to pay, and when an unpaid one is followed up."""

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum, StrEnum, auto

import msgspec
from msgspec import Struct

from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.invoices.documents.parties import buyer_of
from tonne.money.invoices.documents.record import (
    BankAccount,
    Closing,
    InvoiceBuyer,
    InvoiceRecord,
    Remaining,
)
from tonne.money.invoices.tax_documents import DocumentKind, TaxDocument
from tonne.platform.db.database import Connection
from tonne.platform.settings.bank_accounts import own_account, parse_bank_accounts
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment, format_money
from tonne.platform.values.context import Mode, is_id, same_named
from tonne.platform.values.language import N_
from tonne.platform.web.translate import translator
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.accounts.tax.tax_profile import TaxProfile
from tonne.selling.accounts.tax.vat_checks import VatCheck
from tonne.selling.orders.model import Order, OrderKey

FEE_LABEL = N_("Service fee")
TEST_NOTE = N_("Test mode: nothing is owed. Do not send money.")


class InvoiceStatus(StrEnum):
    OPEN = "open"
    PAID = "paid"
    CANCELLED = "cancelled"


class IssuedDocument(TaxDocument, frozen=True, kw_only=True):
    """What the state of invoices and of credit notes has in common."""

    mailed_at: datetime | None = None

    @property
    def total(self) -> str:
        """For people: `27.78 EUR`."""
        return self.money(self.total_minor)

    def money(self, amount_minor: int) -> str:
        return f"{format_money(amount_minor, self.currency)} {self.currency}"


class InvoiceBilling(StrEnum):
    """When the orders of an invoice are billed: as the account is, or collected because they are small."""

    PER_ORDER = "per_order"
    MONTHLY = "monthly"
    THRESHOLD = "threshold"
    COLLECTED = "collected"


class DifferenceKind(StrEnum):
    """Why a part of an invoice never arrives. The price was owed in full, so the tax stays."""

    BANK_FEES = "bank_fees"
    SMALL_DIFFERENCE = "small_difference"


class Invoice(IssuedDocument, frozen=True, kw_only=True):
    """In test mode `mailed_at` is also set if there was no recipient.

    `first_order_id` is one of its orders, and the only one unless it is consolidated. `credited_minor` is the sum of
    its credit notes.
    """

    kind: DocumentKind = DocumentKind.INVOICE
    order_count: int
    first_order_id: str
    status: InvoiceStatus
    due_on: date
    # The document of a card payment that was captured before.
    is_prepaid: bool = False
    billing: InvoiceBilling = InvoiceBilling.PER_ORDER
    payment_method: PaymentMethod = PaymentMethod.INVOICE
    credited_minor: int = 0
    settled_minor: int | None = None
    reminded_at: datetime | None = None
    settled_at: datetime | None = None
    settled_by: str | None = None
    settled_by_hand: bool = False
    written_off_at: datetime | None = None
    difference_minor: int = 0
    # The document that replaced the first one, and what it states. `record` is its content.
    replaced_by: str | None = None
    number_in_force: int = 0
    reference_in_force: str = ""
    issued_in_force: date | None = None
    total_in_force: int = 0

    @property
    def in_force(self) -> TaxDocument:
        if self.replaced_by is None or self.issued_in_force is None:
            return self
        return same_named(
            TaxDocument,
            self,
            id=self.replaced_by,
            number=self.number_in_force,
            reference=self.reference_in_force,
            total_minor=self.total_in_force,
            issued_on=self.issued_in_force,
        )

    @property
    def credited_since(self) -> int:
        """What credit notes took off the document in force."""
        return self.credited_minor - (self.total_minor - self.in_force.total_minor)

    @property
    def is_paid(self) -> bool:
        return self.status is InvoiceStatus.PAID

    @property
    def is_written_off(self) -> bool:
        """Whether it is open, but not expected to be paid."""
        return self.status is InvoiceStatus.OPEN and self.written_off_at is not None

    @property
    def due_minor(self) -> int:
        """What is to be paid: the total less its credit notes."""
        return self.total_minor - self.credited_minor

    @property
    def orders_text(self) -> str:
        """For people: `order ord_…` or `2,000 orders`."""
        return f"order {self.first_order_id}" if self.order_count == 1 else f"{self.order_count:,} orders"

    @property
    def due(self) -> str:
        return self.money(self.due_minor)

    @property
    def closing(self) -> Closing | None:
        """How it was closed; None while it is open."""
        if self.settled_at is None:
            return None
        on = self.settled_at.astimezone(UTC).date().isoformat()
        if self.status is not InvoiceStatus.PAID:
            return Closing("cancelled", on)
        return Closing("credited" if self.total_minor > 0 and self.settled_minor == 0 else "paid", on)

    def read_record(self) -> InvoiceRecord:
        return msgspec.json.decode(self.record, type=InvoiceRecord)


class BillableOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What an invoice says about an order. `reference` is the client's own."""

    account_id: str
    order_id: str
    reference: str
    placed_at: datetime
    quantity_grams: int
    total_minor: int

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.account_id, self.order_id)


class BilledOrder(BillableOrder, frozen=True, kw_only=True):
    """An order as it was billed, with tax in its total. If `cancelled`, a credit note took it off."""

    invoice_id: str
    offset_minor: int
    fee_minor: int
    tax_minor: int | None
    cancelled: bool = False


class BilledOrganisation(msgspec.Struct, frozen=True):
    name: str
    address: str
    admins: list[str]
    tax: TaxProfile = msgspec.field(default_factory=TaxProfile)
    # What is known of its VAT id. None if that was never checked.
    vat_check: VatCheck | None = None

    def buyer(self, treatments: Collection[TaxTreatment], language: str) -> InvoiceBuyer:
        """As a document with these treatments states it."""
        check = self.vat_check if TaxTreatment.REVERSE_CHARGE in treatments else None
        return buyer_of(self.name, self.address, self.tax, language, check)


NO_BANK = BankAccount(account_holder="", iban=None, bic=None, bank_name=None)


def nature_of(bundle: str, language: str) -> str:
    """What is sold, in the language of the document."""
    _ = translator(language)
    return _("Retirement of carbon credits: %(bundle)s", bundle=bundle)


def billed_order(invoice: Invoice, order: Order) -> BilledOrder:
    """The line of an order on an invoice."""
    if order.priced is None:
        raise LookupError(f"order {order.id} has no price")
    return BilledOrder(
        invoice_id=invoice.id,
        account_id=order.scope.account_id,
        order_id=order.id,
        reference=client_reference(order),
        placed_at=order.created_at,
        quantity_grams=sum(line.quantity_grams for line in order.lines),
        offset_minor=order.priced.offset_cost_minor,
        fee_minor=order.priced.commission_minor,
        tax_minor=order.tax.tax_minor,
        total_minor=order.priced.total_cost_minor + (order.tax.tax_minor or 0),
    )


def client_reference(order: Order) -> str:
    """The client's own name of an order. An external id that a visitor may have typed is none."""
    external_id = order.external_id if order.external_id_verified else None
    return order.reference or external_id or order.idempotency_key


def own_reference(order: Order) -> str | None:
    """The client's reference of an order, unless it gave none and Tonne made the key."""
    reference = client_reference(order)
    return None if reference == order.idempotency_key and is_id("auto", reference) else reference


def bank_of(settings: Settings, currency: str) -> BankAccount:
    """The account for this currency. `bank_name` is that of the default account."""
    is_default = currency not in parse_bank_accounts(settings.bank_accounts)
    own = own_account(settings, currency)
    return BankAccount(
        account_holder=settings.bank_account_holder or settings.seller_name,
        iban=settings.bank_iban or None if is_default else own and own.iban,
        bic=(own.bic if own else settings.bank_bic) or None,
        bank_name=(settings.bank_name if is_default else "") or None,
    )


class InvoiceStep(Enum):
    """What a worker does next with an open invoice."""

    MAIL = auto()
    SETTLE = auto()
    REMIND = auto()
    CANCEL = auto()


class FollowUpSchedule(msgspec.Struct, frozen=True):
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

    def next_step(
        self, invoice: Invoice, now: datetime, *, settles_itself: bool
    ) -> tuple[InvoiceStep, datetime | None]:
        """The next step of an open invoice, and when it is due; None if nothing is left to do.

        One that a card pays is only mailed. The schedule of charges decides about the rest.
        """
        today = now.astimezone(UTC).date()
        if invoice.mailed_at is None:
            return InvoiceStep.MAIL, now
        if invoice.payment_method is PaymentMethod.CARD:
            return InvoiceStep.MAIL, None
        if settles_itself:
            return InvoiceStep.SETTLE, now
        if invoice.reminded_at is None:
            return InvoiceStep.REMIND, _start_of(self.remind_on(invoice, today))
        return InvoiceStep.CANCEL, _start_of(self.cancel_on(invoice, today))


def _day_of(moment: datetime | None, default: date) -> date:
    return default if moment is None else moment.astimezone(UTC).date()


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


async def find_remaining(connection: Connection, invoice: Invoice) -> Remaining | None:
    """None if the whole total is due, or the invoice is closed."""
    if invoice.closing is not None:
        return None
    received = (await sum_received_any_account(connection, [invoice.id])).get(invoice.id, 0)
    if not received and not invoice.credited_minor:
        return None

    def amount(minor: int) -> str:
        return format_money(minor, invoice.currency)

    return Remaining(
        received=amount(received) if received else None,
        credited=amount(invoice.credited_minor) if invoice.credited_minor else None,
        due=amount(max(invoice.due_minor - received, 0)),
    )


class StateInWords(Struct, frozen=True):
    """`tone` is empty, `warn` or `bad`."""

    label: str
    tone: str = ""


_CLOSED = {"paid": "Paid", "credited": "Credited", "cancelled": "Cancelled"}


def describe_invoice(
    invoice: Invoice, received_minor: int, today: date, *, with_write_offs: bool = False
) -> StateInWords:
    """`with_write_offs` is for the operator: a write-off is internal, and the customer still owes the money."""
    if invoice.closing is not None:
        return StateInWords(_CLOSED[invoice.closing.status], "warn" if invoice.closing.status == "cancelled" else "")
    if with_write_offs and invoice.is_written_off:
        return StateInWords("Written off", "warn")
    if invoice.payment_method is PaymentMethod.CARD:
        return StateInWords("Paid by card soon", "warn")
    days = (today - invoice.due_on).days
    # In test mode nothing is owed.
    if days > 0 and invoice.mode is Mode.LIVE and invoice.status is InvoiceStatus.OPEN:
        return StateInWords(f"{days} {'day' if days == 1 else 'days'} overdue", "bad")
    return StateInWords("Partly paid" if received_minor else "Open", "warn")

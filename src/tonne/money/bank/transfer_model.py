"""Bank transfers, what was done with them, and money that goes back."""

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tonne.money.bank.formats.statement import BankLine
from tonne.platform.values.amounts import DECIMALS, format_money
from tonne.platform.values.context import Mode
from tonne.selling.users.approvals import Approval, ApprovalKind, Subject


class TransferState(StrEnum):
    """UNMATCHED, OVERPAID and TO_RETURN need a person. OUTGOING is money that left the account."""

    MATCHED = "matched"
    PART_PAYMENT = "part_payment"
    OVERPAID = "overpaid"
    UNMATCHED = "unmatched"
    ASSIGNED = "assigned"
    TO_RETURN = "to_return"
    RETURNED = "returned"
    OUTGOING = "outgoing"


WAITING_STATES = (TransferState.UNMATCHED, TransferState.OVERPAID, TransferState.TO_RETURN)


class ReturnStatus(StrEnum):
    PLANNED = "planned"
    EXPORTED = "exported"
    RETURNED = "returned"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Transfer(BankLine, frozen=True, kw_only=True):
    """A booked line of a bank statement with what was done about it.

    `invoice_id` and `invoice_reference` are the invoice that the payer named. `returning_minor` is planned or exported,
    `returned_minor` has gone back; both include refunds of what invoices received, which `refunded_minor` counts.
    """

    id: str
    mode: Mode
    state: TransferState
    invoice_id: str | None
    invoice_reference: str | None
    organisation_id: str | None
    assigned_minor: int
    returning_minor: int
    returned_minor: int
    refunded_minor: int
    resolved_minor: int
    resolution: str | None
    imported_at: datetime
    imported_by: str

    @property
    def rest_minor(self) -> int:
        """What nobody has dealt with yet."""
        sent_back = self.returning_minor + self.returned_minor - self.refunded_minor
        return abs(self.amount_minor) - self.assigned_minor - sent_back - self.resolved_minor

    @property
    def rest(self) -> str:
        return self.money(self.rest_minor)

    def money(self, amount_minor: int) -> str:
        return f"{format_money(amount_minor, self.currency)} {self.currency}"

    @property
    def next_step(self) -> str:
        """What the operator can do, for people."""
        if self.amount_minor < 0:
            return "tonne transfer resolve: a payment was reversed" if self.state is TransferState.UNMATCHED else ""
        match self.state:
            case TransferState.UNMATCHED | TransferState.OVERPAID:
                return f"{self.rest}: tonne transfer assign or return"
            case TransferState.TO_RETURN:
                return "tonne transfer returns: export it, or wait for the statement"
            case TransferState.PART_PAYMENT:
                return "wait for the rest"
            case _:
                return ""


class PaidInvoice(Protocol):
    """What this package needs to know of an invoice that transfers pay. Most of it never changes and is copied."""

    @property
    def id(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def organisation_id(self) -> str: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def currency(self) -> str: ...
    @property
    def is_paid(self) -> bool: ...
    @property
    def written_off_at(self) -> datetime | None: ...


class Assignment(Struct, frozen=True, kw_only=True):
    """`undone` says that the opposite was recorded, or that this is the opposite."""

    id: str
    transfer_id: str
    invoice_id: str
    invoice_reference: str
    amount_minor: int
    currency: str
    by_operator: bool
    undone: bool
    note: str
    created_at: datetime
    created_by: str


class BankReturn(Struct, frozen=True, kw_only=True):
    """Money that is to go back to a payer. With `invoice_id` it is a refund of what that invoice received.

    `paid_with` is the return whose payment includes this one.
    """

    id: str
    transfer_id: str
    invoice_id: str | None
    mode: Mode
    organisation_id: str | None
    own_account: str
    currency: str
    amount_minor: int
    to_iban: str
    to_bic: str
    to_name: str
    reason: str
    status: ReturnStatus
    to_other_account: bool
    # All that were given, also those from before a change.
    approvals: tuple[Approval, ...] = ()
    batch_id: str | None = None
    paid_with: str | None = None
    # The line of a statement that shows the payment.
    outgoing_id: str | None = None
    payer_reference: str
    note: str = ""
    created_at: datetime
    created_by: str

    @property
    def amount(self) -> str:
        return f"{format_money(self.amount_minor, self.currency)} {self.currency}"

    @property
    def subject(self) -> Subject:
        return Subject(
            kind=ApprovalKind.RETURN,
            id=self.id,
            organisation_id=self.organisation_id,
            mode=self.mode,
            requested_by=self.created_by,
            terms=(str(self.amount_minor), self.currency, self.to_iban, self.to_name, self.reason),
        )

    @property
    def approved_by(self) -> str | None:
        """The last one who approved it as it is; None while another person has to."""
        approvers = [each.approved_by for each in self.approvals if each.digest == self.subject.digest]
        return None if self.subject.missing(approvers) else approvers[-1]

    def waits_for_approval(self, limit: int) -> bool:
        """Whether a second person must approve it first. `limit` is in whole units of the currency."""
        is_high = self.amount_minor > limit * 10 ** DECIMALS[self.currency]
        needs_approval = is_high or self.to_other_account
        return needs_approval and self.approved_by is None and self.status is ReturnStatus.PLANNED

    @property
    def payment_id(self) -> str:
        """The end-to-end id of the payment. SEPA allows no underscore."""
        return (self.paid_with or self.id).replace("_", "").upper()

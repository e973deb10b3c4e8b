"""Orders and their transitions, the tax of one, and in whose name its certificate is issued."""

from datetime import date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, structs

from tonne.platform.http.json_body import JsonNumber
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Scope
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.model import MANUAL, PaymentMethod, Terms
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.catalogue.prices.price import OrderType, PaymentPlan, tax_minor_on
from tonne.selling.catalogue.prices.pricing import Priced, PricedLine
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit


class OrderStatus(StrEnum):
    RECEIVED = "received"
    PLACED = "placed"
    PAID = "paid"
    RETIRING = "retiring"
    CANCELLED = "cancelled"
    COMPLETE = "complete"
    FAILED = "failed"


# All transitions and their triggers.
TRANSITIONS: dict[tuple[OrderStatus, OrderStatus], str] = {
    (OrderStatus.RECEIVED, OrderStatus.PLACED): "bundles assigned and priced",
    (OrderStatus.RECEIVED, OrderStatus.FAILED): "cannot be priced within the limit",
    (OrderStatus.RECEIVED, OrderStatus.CANCELLED): "cancelled by the client or an operator",
    (OrderStatus.PLACED, OrderStatus.CANCELLED): "cancelled by the client, an operator or an unpaid invoice",
    (OrderStatus.PLACED, OrderStatus.FAILED): "card declined and no retries left",
    (OrderStatus.PLACED, OrderStatus.PAID): "card captured, invoice settled, or nothing to pay",
    (OrderStatus.PAID, OrderStatus.CANCELLED): "cancelled with a refund, before any gram is allocated",
    (OrderStatus.PAID, OrderStatus.RETIRING): "every gram allocated to projects",
    (OrderStatus.RETIRING, OrderStatus.COMPLETE): "every gram retired",
}

EVENT_TYPES: dict[OrderStatus, str] = {
    OrderStatus.RECEIVED: "order.received",
    OrderStatus.PLACED: "order.placed",
    OrderStatus.PAID: "order.paid",
    OrderStatus.RETIRING: "order.retiring",
    OrderStatus.CANCELLED: "order.cancelled",
    OrderStatus.COMPLETE: "order.completed",
    OrderStatus.FAILED: "order.failed",
}


# The order's payment changed, but not its status.
PAYMENT_UPDATED = "order.payment_updated"
# The data of a person was erased from the order and from all its events.
PERSON_ERASED = "order.person_erased"
# A part of a paid order was cancelled, or it waits no longer at its client's request. Only for webhooks that name them.
REDUCED = "order.reduced"
RELEASED = "order.released"
# Events that do not change the status.
STATUS_KEPT = (PAYMENT_UPDATED, PERSON_ERASED, REDUCED, RELEASED)
# How long a paid order may wait for its client, and how long before its end the client gets a mail.
LONGEST_WINDOW = timedelta(days=90)
NOTICE_OF_RELEASE = timedelta(days=7)


class PaymentState(StrEnum):
    """Where the money of an order is. An order may be fulfilled before it is paid."""

    UNPAID = "unpaid"
    PAID = "paid"
    # In full. After a partial refund the order is still paid.
    REFUNDED = "refunded"
    DISPUTED = "disputed"


class HoldReason(StrEnum):
    """What a placed order waits for beside its payment."""

    # Its account has credit, and with this order unpaid orders would exceed it.
    CREDIT_LIMIT_REACHED = "credit_limit_reached"
    # Small orders by card: a charge of the collection is not settled, or with this order more would be unpaid than
    # the card or the organisation is trusted with.
    COLLECTION_PENDING = "collection_pending"
    # Its invoice needs the address of the buyer, or what an electronic one states.
    BUYER_DETAILS_MISSING = "buyer_details_missing"
    # Its invoice has no tax because of the VAT id of the buyer, which is not proven to be valid.
    VAT_CHECK_MISSING = "vat_check_missing"
    # Its invoice is in a foreign currency, and the rate for the tax in the national one is not known.
    EXCHANGE_RATE_MISSING = "exchange_rate_missing"


class OrderCertificateState(StrEnum):
    # The certificate is withdrawn, and other credits are being retired: a new one follows.
    BEING_REPLACED = "being_replaced"


class FailureReason(StrEnum):
    PRICE_UNAVAILABLE = "price_unavailable"
    NOT_PAYABLE = "not_payable"
    # The bank gave no other reason, or one that is not shown to payers.
    CARD_DECLINED = "card_declined"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    EXPIRED_CARD = "expired_card"
    # The account has no stored card.
    CARD_MISSING = "card_missing"
    # The gateway cannot charge this amount or currency.
    AMOUNT_NOT_CHARGEABLE = "amount_not_chargeable"
    # The payer did not confirm the payment in time.
    AUTHENTICATION_REQUIRED = "authentication_required"


class CancellationReason(StrEnum):
    REQUESTED_BY_CLIENT = "requested_by_client"
    REQUESTED_BY_OPERATOR = "requested_by_operator"
    # The customer who had paid at checkout cancelled it, before credits were allocated.
    REQUESTED_BY_CUSTOMER = "requested_by_customer"
    INVOICE_UNPAID = "invoice_unpaid"
    CHECKOUT_EXPIRED = "checkout_expired"
    # The customer began again, in another window.
    CHECKOUT_REPLACED = "checkout_replaced"
    # All of the payment was refunded at the card gateway.
    REFUNDED_AT_GATEWAY = "refunded_at_gateway"
    DISPUTE_LOST = "dispute_lost"
    # Fulfilled first, and the card was declined for the last time before credits were allocated.
    COLLECTION_DECLINED = "collection_declined"
    # The payment arrived with another amount, and was sent back.
    PAYMENT_MISMATCHED = "payment_mismatched"


class BeneficiaryKind(StrEnum):
    ORGANISATION = "organisation"
    # A private name: it appears on the certificate, but never at a registry.
    PERSON = "person"


class OrderTax(msgspec.Struct, frozen=True):
    """`tax_minor` is None until the order is priced, or until it is billed on a consolidated invoice."""

    treatment: TaxTreatment = TaxTreatment.NONE
    rate: Fraction = Fraction(0)
    tax_minor: int | None = None


# The tax of a priced order that is not taxed.
UNTAXED = OrderTax(tax_minor=0)


class ProjectStatus(StrEnum):
    """The status of a project of an order."""

    ALLOCATED = "allocated"
    # Every gram that the order has of the project.
    RETIRED = "retired"


class OrderKey(NamedTuple):
    """The primary key of an order."""

    account_id: str
    id: str


class OrderProject(msgspec.Struct, frozen=True):
    """The quantity of a project in a line, at the price of the line."""

    line_position: int
    project_id: str
    project_name: str
    project_type: str
    project_slug: str
    quantity_grams: int
    unit_price_minor: int
    offset_cost_minor: int
    status: ProjectStatus
    # URL of an image.
    project_logo: str | None = None


class Order(msgspec.Struct, frozen=True):
    """Exactly one of the two requested amounts is set. `priced` is None until bundles are assigned, then fixed."""

    scope: Scope
    id: str
    idempotency_key: str
    type: OrderType
    status: OrderStatus
    currency: str
    payment_method: PaymentMethod
    requested_quantity_grams: int | None
    requested_value_minor: int | None
    # As the client sent it, or the masses of bundles; None for the default.
    bundle_selection: list[dict[str, Any]] | None
    priced: Priced | None
    estimate_id: str | None
    offset_link_id: str | None
    email: str | None
    # The client's JSON, as text.
    metadata: str
    created_at: datetime
    # In whose name the certificate is issued, fixed when the order is placed.
    beneficiary: str
    # The account's own beneficiary now: the registries get it instead of the name of a person.
    account_beneficiary: str
    # False for test accounts whose orders wait for the test helpers.
    auto_advance: bool = True
    # A test account may simulate short supply: an order above this quantity waits in `paid`.
    simulated_supply_grams: int | None = None
    payment_state: PaymentState = PaymentState.UNPAID
    tax: OrderTax = OrderTax()
    # It was billed together with others.
    was_billed_together: bool = False
    # What billing it together with others took off the total cost: zero or less.
    billing_adjustment_minor: int = 0
    refunded_minor: int = 0
    # Only of a placed order.
    hold_reason: HoldReason | None = None
    failure_reason: FailureReason | None = None
    cancellation_reason: CancellationReason | None = None
    beneficiary_kind: BeneficiaryKind = BeneficiaryKind.ORGANISATION
    # Whether a person agreed to be named in public.
    beneficiary_is_public: bool = False
    # The language of its mails and PDFs, fixed when the order is placed.
    language: str = DEFAULT_LANGUAGE
    # The account's address for receipts of orders that are paid by the stored card.
    receipt_email: str | None = None
    # The unit that the quantity was cut to.
    quantity_trunc: QuantityUnit | None = None
    # The locked quote that fixed its price.
    quote_id: str | None = None
    # What the client calls the sale. If it is not verified, a visitor of an offset link may have typed it.
    external_id: str | None = None
    external_id_verified: bool = False
    # Printed on invoices.
    reference: str | None = None
    # Set when supply is allocated.
    projects: tuple[OrderProject, ...] = ()
    # Set when the order is complete, and never changed: the date of supply.
    supplied_on: date | None = None
    # Set when the order is complete.
    certificate_url: str | None = None
    public_certificate_url: str | None = None
    # When a new certificate is expected. Set while the former one is withdrawn, because credits became invalid.
    certificate_due_on: date | None = None
    # No credits are allocated before. Fixed when the order is paid; until then what the client asked for.
    fulfil_after: datetime | None = None
    # Until the client releases it.
    fulfil_manually: bool = False
    # The wait of its account now: hours, or `manual`. It counts when the order is paid, if the client asked for nothing
    # else.
    fulfil_delay: str | None = None

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.id)

    @property
    def lines(self) -> tuple[PricedLine, ...]:
        return () if self.priced is None else self.priced.lines

    @property
    def amount_due_minor(self) -> int | None:
        """What the payer pays: the total cost as it was billed, and the tax on it. None until both are known."""
        if self.priced is None or self.tax.tax_minor is None:
            return None
        return self.priced.total_cost_minor + self.billing_adjustment_minor + self.tax.tax_minor

    @property
    def payment_plan(self) -> PaymentPlan:
        """Of a received order, it is decided with its price."""
        is_collected = self.was_billed_together or (self.priced is not None and self.tax.tax_minor is None)
        return PaymentPlan.COLLECTED if is_collected else PaymentPlan.NOW

    @property
    def exact_cost(self) -> int:
        """Its total cost before rounding, in millionths of a minor unit."""
        return sum(line.quantity_grams * line.gross_unit_price_minor for line in self.lines)

    @property
    def exact_fee(self) -> int:
        """The fee in its exact cost."""
        return self.exact_cost - sum(line.quantity_grams * line.unit_price_minor for line in self.lines)

    @property
    def is_named_in_public(self) -> bool:
        """Whether public pages may show the name. The names of persons are private unless they agreed."""
        return self.beneficiary_kind is BeneficiaryKind.ORGANISATION or self.beneficiary_is_public

    @property
    def is_paid_at_checkout(self) -> bool:
        """A customer pays it at checkout with their own card. The account's card is never charged."""
        return self.offset_link_id is not None

    @property
    def is_short_by_simulation(self) -> bool:
        simulated = self.simulated_supply_grams
        return simulated is not None and sum(line.quantity_grams for line in self.lines) > simulated

    @property
    def payer_email(self) -> str | None:
        """Who gets the receipt: the customer of a checkout, or the address that the account has for it."""
        return self.email if self.is_paid_at_checkout else self.receipt_email

    def with_window(self, paid_at: datetime) -> "Order":
        """As it is paid: until when it waits, and can be cancelled or reduced, does not change with its account."""
        delay = self.fulfil_delay if self.fulfil_after is None else None
        if self.fulfil_manually or delay == MANUAL:
            return structs.replace(self, fulfil_after=paid_at + LONGEST_WINDOW, fulfil_manually=True)
        return self if delay is None else structs.replace(self, fulfil_after=paid_at + timedelta(hours=int(delay)))

    def is_in_window(self, now: datetime) -> bool:
        """Whether it is paid, and waits until it is fulfilled."""
        return self.status is OrderStatus.PAID and self.fulfil_after is not None and self.fulfil_after > now

    def due_at(self, now: datetime) -> datetime | None:
        """When a worker processes it next; None if the test helpers, or a customer at checkout, have the next step."""
        if self.is_paid_at_checkout and self.status is OrderStatus.PLACED:
            return None
        return now if self.auto_advance else None


class Beneficiary(msgspec.Struct, frozen=True):
    """`is_public` matters only for persons: whether the person agreed to be named in public."""

    name: str
    kind: BeneficiaryKind = BeneficiaryKind.ORGANISATION
    is_public: bool = False


def _read_name(value: Any) -> str:
    try:
        if isinstance(value, str) and not isinstance(value, JsonNumber):
            return check_name(value)
    except NameInvalid:
        pass
    raise ValueError("expected 1 to 200 printable characters on one line, not all of them spaces")


BeneficiaryName = Annotated[
    str,
    _read_name,
    Meta(
        min_length=1,
        max_length=200,
        description="The name on the certificate. Spaces at its ends are removed.",
        examples=["Fjord Bakery AS"],
    ),
]
_KIND = Meta(
    description="`person`: the name is private. It is on the certificate, but registries do not get it and public "
    "pages do not show it.",
    examples=["organisation"],
)


class BeneficiaryIn(msgspec.Struct, forbid_unknown_fields=True):
    """In whose name the certificate is issued."""

    name: BeneficiaryName
    kind: Annotated[BeneficiaryKind, _KIND] = BeneficiaryKind.ORGANISATION

    @property
    def value(self) -> Beneficiary:
        return Beneficiary(self.name, self.kind)


class CustomerIn(msgspec.Struct, forbid_unknown_fields=True):
    """In whose name the certificate of a checkout is issued: usually a person's."""

    name: BeneficiaryName
    kind: Annotated[BeneficiaryKind, _KIND] = BeneficiaryKind.PERSON

    @property
    def value(self) -> Beneficiary:
        return Beneficiary(self.name, self.kind)


BENEFICIARY = Meta(description="In whose name the certificate is issued. Omit it for the account's beneficiary.")


def tax_of(priced: Priced, terms: Terms) -> OrderTax:
    """Treatment and rate of the terms. The amount is None if the order is billed together with others."""
    return OrderTax(terms.tax.treatment, terms.tax.rate, tax_minor_on(priced.total_cost_minor, terms))

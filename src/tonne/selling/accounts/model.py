"""Organisations, accounts and API keys."""

import secrets
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from msgspec import Struct

from tonne.platform.http.errors import AccountClosed
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import NO_TAX, TaxTerms
from tonne.platform.values.context import Mode, Scope, replace
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.errors import AccountSuspended
from tonne.selling.accounts.keys.restrictions import UNRESTRICTED, KeyRestrictions, KeyRight


class AccountKind(StrEnum):
    ACCOUNT = "account"
    CLIENT_ACCOUNT = "client_account"


class PagesVisibility(StrEnum):
    """The visibility of an account's Sustainability page and public certificates.

    Hidden pages can be opened by their address, but search engines are asked not to list them. Private ones are 404.
    """

    PUBLIC = "public"
    HIDDEN = "hidden"
    PRIVATE = "private"


class PaymentMethod(StrEnum):
    INVOICE = "invoice"
    CARD = "card"


class Billing(StrEnum):
    """When the orders of an account are billed.

    Each on an invoice of its own; together at the end of the month (UTC); or together as soon as they reach a
    threshold, and at the latest at the end of the month.
    """

    PER_ORDER = "per_order"
    MONTHLY = "monthly"
    THRESHOLD = "threshold"


# Instead of a time, of an order or an account: until the client releases the order.
MANUAL = "manual"


class SmallCardOrders(StrEnum):
    """What becomes of orders that are too small for a card payment of their own."""

    # As the setting of the service says.
    SERVICE = "service"
    # Fulfilled at once, within a small limit, and charged together.
    FULFIL_FIRST = "fulfil_first"
    # Charged together, and fulfilled then.
    COLLECT_FIRST = "collect_first"
    REFUSE = "refuse"


class Fulfil(StrEnum):
    """When an order is fulfilled: once it is paid, or at once within the credit limit of the account."""

    ON_PAYMENT = "on_payment"
    ON_ORDER = "on_order"


class Organisation(Struct, frozen=True):
    id: str
    name: str
    fee_rate: Fraction
    created_at: datetime


class OrganisationDetails(Struct, frozen=True):
    organisation: Organisation
    address: str
    admins: list[str]
    redirect_hosts: list[str]
    test_mail_addresses: list[str]


class Account(Struct, frozen=True):
    scope: Scope
    kind: AccountKind
    name: str
    currency: str
    beneficiary: str
    payment_method: PaymentMethod
    created_at: datetime
    # False only in test mode: the account's orders then wait for the test helpers.
    auto_advance: bool = True
    # Gets a receipt for each order that is paid by the stored card.
    receipt_email: str | None = None
    # Is mailed if the card is declined or a payment has to be confirmed; None: the organisation's admins are.
    card_email: str | None = None
    # Whether its API keys may refund orders, and cancel paid ones.
    refunds_by_api: bool = False
    # How many hours a paid order waits until it is fulfilled, or `manual`, unless it says so itself.
    fulfil_delay: str | None = None
    billing: Billing = Billing.PER_ORDER
    billing_threshold_minor: int | None = None
    fulfil: Fulfil = Fulfil.ON_PAYMENT
    # Above this sum of unpaid orders, further orders are fulfilled when they are paid.
    credit_limit_minor: int | None = None
    small_card_orders: SmallCardOrders = SmallCardOrders.SERVICE
    # The language of its mails and PDFs, and of its pages for visitors whose browser names none of ours.
    language: str = DEFAULT_LANGUAGE
    # False: `beneficiary` is the account's name, and changes with it.
    has_own_beneficiary: bool = True
    # Part of addresses; unique in the organisation and mode.
    handle: str | None = None
    external_pages_visibility: PagesVisibility = PagesVisibility.PUBLIC
    # The account of the other mode that was opened together with this one.
    sibling_id: str | None = None
    # The idempotency key of the request that opened a client account.
    idempotency_key: str | None = None
    # What the organisation calls a client account in its own records.
    reference: str | None = None
    # Nothing new is ordered; everything can be read.
    archived_at: datetime | None = None
    # Changes with the logo. None without one.
    logo_version: str | None = None


class Terms(Struct, frozen=True):
    """The terms an account buys on. `default_selection` is the account's own, else its organisation's."""

    currency: str
    payment_method: PaymentMethod
    fee_rate: Fraction
    default_selection: list[dict[str, Any]] | None
    # The name credits are retired for. Orders keep the one they were placed with.
    beneficiary: str
    auto_advance: bool = True
    # How much of any bundle seems to be available; None unless a test account simulates short supply.
    simulated_supply_grams: int | None = None
    billing: Billing = Billing.PER_ORDER
    # The tax of orders that the account pays.
    tax: TaxTerms = NO_TAX
    # The seller's default. It applies to customers at checkout, who are not the organisation.
    seller_tax: TaxTerms = NO_TAX
    # How much the account may order in a calendar month. None: no limit.
    monthly_limit_minor: int | None = None
    # The total cost of the smallest order. None: there is no minimum.
    minimum_order_minor: int | None = None
    small_card_orders: SmallCardOrders = SmallCardOrders.SERVICE
    # What is due of smaller orders by card is collected. 0: they are refused.
    collect_below_minor: int = 0
    # Nothing new is ordered.
    is_closed: bool = False
    is_archived: bool = False
    # The language of new orders, unless the customer chose another.
    language: str = DEFAULT_LANGUAGE

    @property
    def takes_orders(self) -> bool:
        return not (self.is_closed or self.is_archived)

    def require_open(self) -> None:
        """Raises AccountClosed or AccountSuspended if nothing can be ordered."""
        if self.is_closed:
            raise AccountClosed
        if self.is_archived:
            raise AccountSuspended

    def available_grams(self, free_grams: int) -> int:
        """How much this account can buy of what is free."""
        simulated = self.simulated_supply_grams
        return free_grams if simulated is None else min(free_grams, simulated)

    def paid_by(self, method: PaymentMethod) -> "Terms":
        return replace(self, payment_method=method)

    def at_service(self, settings: Settings) -> "Terms":
        """With the minimum order and the rule for small orders of the service, unless the account has its own."""
        least, rule = self.minimum_order_minor, self.small_card_orders
        if rule is SmallCardOrders.SERVICE:
            rule = SmallCardOrders(settings.small_card_orders)
        return replace(
            self,
            minimum_order_minor=settings.minimum_orders.get(self.currency) if least is None else least,
            small_card_orders=rule,
            collect_below_minor=0 if rule is SmallCardOrders.REFUSE else settings.collect_below_minor(self.currency),
        )

    def at_checkout(self, tax: TaxTerms | None = None) -> "Terms":
        """For a customer who pays with their own card. `tax` is theirs, if it is not the seller's default."""
        tax = tax or self.seller_tax
        return replace(
            self, payment_method=PaymentMethod.CARD, billing=Billing.PER_ORDER, tax=tax, collect_below_minor=0
        )

    @property
    def is_charged_alone(self) -> bool:
        """A card pays each order that is large enough."""
        return self.payment_method is PaymentMethod.CARD and not self.is_billed_together

    @property
    def is_billed_together(self) -> bool:
        """Tax is computed once per rate of a consolidated invoice, so it is not known when an order is placed."""
        return self.billing is not Billing.PER_ORDER


class ApiKey(Struct, frozen=True):
    """An API key without its secret, of which only a hash is stored."""

    id: str
    scope: Scope
    name: str
    last_four: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    # Per month, in the currency of the default account.
    monthly_limit_minor: int | None = None
    currency: str = ""
    rights: tuple[KeyRight, ...] = ()
    restrictions: KeyRestrictions = UNRESTRICTED
    # Null for keys that are older than the column.
    created_by: str | None = None
    # The key that a rotation has created.
    replaced_by: str | None = None
    # The first key of a chain of rotations, which counts what all of them order.
    limit_key_id: str | None = None

    def has_ended(self, now: datetime) -> bool:
        expires_at = self.restrictions.expires_at
        return self.revoked_at is not None or (expires_at is not None and expires_at <= now)


def new_secret(mode: Mode) -> str:
    """`tonne_test_` or `tonne_live_`, then 256 random bits."""
    return f"tonne_{mode}_{secrets.token_urlsafe(32)}"

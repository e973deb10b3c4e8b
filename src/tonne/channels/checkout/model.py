"""A checkout: one visitor's way from choosing an amount to the paid order."""

import hashlib
import hmac
import uuid
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

from tonne.channels.checkout.links.model import Redirect
from tonne.channels.checkout.paying.consent import Consent
from tonne.platform.values.context import Scope, is_id, new_secret_id
from tonne.selling.orders.buyer import BuyerDetails
from tonne.selling.orders.model import Beneficiary

# A visitor who is on the gateway's payment page by then may still finish there.
LIFE = timedelta(hours=1)
# The lifetime of checkouts that the API creates: their address may be sent by e-mail.
API_LIFE = timedelta(hours=24)
# How often the jobs look at a checkout with an unpaid order.
CHECK_INTERVAL = timedelta(minutes=1)
# From the payment on.
TEMPORARY_ID_LIFE = timedelta(minutes=15)
_PREFIX = "pay"


class CheckoutStatus(StrEnum):
    OPEN = "open"
    ORDERED = "ordered"
    CLOSED = "closed"


class Checkout(Struct, frozen=True, kw_only=True):
    scope: Scope
    id: str
    offset_link_id: str
    status: CheckoutStatus
    requested_quantity_grams: int | None
    requested_value_minor: int | None
    bundle_selection: list[dict[str, Any]]
    # The offer that was shown when the checkout began, then the one that was ordered.
    total_cost_minor: int
    # On top of the total cost.
    tax_minor: int
    quantity_grams: int
    offer_digest: bytes
    currency: str
    email: str
    external_id: str | None
    reference: str | None
    # Whether the external id comes from the client: from the API or from a signed query.
    external_id_verified: bool
    # The button after the payment; empty if there is none.
    redirect: Redirect
    order_id: str | None
    created_at: datetime
    expires_at: datetime
    # The metadata of the order, as the API client sent it. None: a visitor began the checkout.
    metadata: str | None = None
    # In whose name the certificate is issued. None: the account's.
    beneficiary: Beneficiary | None = None
    # As whom the customer ordered, and what they agreed to. None: not ordered yet, or they were not asked.
    consent: Consent | None = None
    # What the client knows of the buyer, for the tax document. The payment page is filled in with it.
    buyer: BuyerDetails | None = None
    # The client's server created it, or signed its amount and its external id, which is paid once.
    is_vouched_for: bool = False

    @property
    def amount_due_minor(self) -> int:
        return self.total_cost_minor + self.tax_minor

    @property
    def is_without_name(self) -> bool:
        """Whether the API created it without a name, and it is not ordered yet: its page may ask the customer."""
        is_open = self.status is CheckoutStatus.OPEN
        return is_open and self.metadata is not None and self.beneficiary is None

    @property
    def can_start_again(self) -> bool:
        """Whether a visitor can begin the same checkout on the page of the link."""
        return self.metadata is None and not self.external_id_verified


def new_token() -> str:
    """The secret in a checkout's address. Anyone who has it can pay, and see the order."""
    return new_secret_id(_PREFIX)


def is_token(text: str) -> bool:
    return is_id(_PREFIX, text)


def hash_token(token: str) -> bytes:
    """No salt: a token has 128 random bits."""
    return hashlib.sha256(token.encode()).digest()


def temporary_id_of(token: str) -> str:
    """A UUIDv4 derived from the token: only its hash is stored, and a reload of the page shows it again."""
    digest = hmac.digest(token.encode(), b"temporary id", "sha256")
    return str(uuid.UUID(bytes=digest[:16], version=4))


def hash_temporary_id(temporary_id: str) -> bytes:
    return hashlib.sha256(temporary_id.lower().encode()).digest()

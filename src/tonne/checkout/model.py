"""One person's way through the payment page, as values."""

import hashlib
import hmac
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tonne.base.ids import is_id, new_secret_id
from tonne.base.scope import Scope

# How long a person may think it over. Whoever is on the gateway's page by then may finish there.
LIFE = timedelta(hours=1)
# From the moment the money was taken.
TEMPORARY_ID_LIFE = timedelta(minutes=15)
_PREFIX = "pay"


class CheckoutStatus(StrEnum):
    OPEN = "open"
    ORDERED = "ordered"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    scope: Scope
    id: str
    offset_link_id: str
    status: CheckoutStatus
    requested_quantity_grams: int | None
    requested_value_minor: int | None
    bundle_selection: list[dict[str, Any]]
    # The total that the person was shown when the checkout began, and then what was ordered.
    total_cost_minor: int
    currency: str
    email: str
    external_id: str | None
    redirect_url: str | None
    redirect_label: str | None
    order_id: str | None
    created_at: datetime
    expires_at: datetime


def new_token() -> str:
    """What the address of a checkout ends in: whoever has it may pay, and sees what was paid."""
    return new_secret_id(_PREFIX)


def is_token(text: str) -> bool:
    return is_id(_PREFIX, text)


def hash_token(token: str) -> bytes:
    """128 random bits need no salt."""
    return hashlib.sha256(token.encode()).digest()


def temporary_id_of(token: str) -> str:
    """A UUIDv4 that follows from the token, so that it is stored nowhere and still shown again after a reload."""
    digest = hmac.digest(token.encode(), b"temporary id", "sha256")
    return str(uuid.UUID(bytes=digest[:16], version=4))


def hash_temporary_id(temporary_id: str) -> bytes:
    return hashlib.sha256(temporary_id.lower().encode()).digest()

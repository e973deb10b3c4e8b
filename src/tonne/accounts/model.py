"""Organisations, accounts and keys as values."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from tonne.base.scope import Mode, Scope


class AccountKind(StrEnum):
    ACCOUNT = "account"
    CLIENT_ACCOUNT = "client_account"


class PaymentMethod(StrEnum):
    INVOICE = "invoice"
    CARD = "card"


@dataclass(frozen=True, slots=True)
class Organisation:
    id: str
    name: str
    fee_rate: Fraction
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Account:
    scope: Scope
    kind: AccountKind
    name: str
    currency: str
    beneficiary: str
    payment_method: PaymentMethod
    created_at: datetime
    # Whether its orders go on by themselves: in test mode they may wait for the test helpers instead.
    auto_advance: bool = True


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms an account buys. `default_selection` is the account's, else its organisation's, else None."""

    currency: str
    payment_method: PaymentMethod
    fee_rate: Fraction
    default_selection: list[dict[str, Any]] | None
    auto_advance: bool = True


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is listed: the secret itself is shown once and never stored."""

    id: str
    scope: Scope
    name: str
    last_four: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


def new_secret(mode: Mode) -> str:
    """`tonne_test_` or `tonne_live_`, then 256 random bits."""
    return f"tonne_{mode}_{secrets.token_urlsafe(32)}"

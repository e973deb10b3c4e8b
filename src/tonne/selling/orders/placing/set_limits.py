"""Change the limits of accounts and API keys."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS, format_money, parse_decimal, scaled
from tonne.platform.values.context import Actor, Scope
from tonne.platform.values.replace import replace
from tonne.platform.web.fields import described
from tonne.selling.accounts import limit_store
from tonne.selling.accounts.errors import KeyNotFound
from tonne.selling.accounts.limit_store import AccountLimits
from tonne.selling.accounts.lookup import require_account_any_account
from tonne.selling.accounts.store import lock_account
from tonne.selling.orders.errors import LimitAmountInvalid
from tonne.selling.orders.placing.spending import forget_spending

NONE = "none"
_MONTHLY_LIMIT = described(
    "How much it may order per calendar month (UTC), such as 1000.00, or none.",
    label="Monthly spending limit",
    hint="Orders above it are refused until the next calendar month (UTC). Empty: no limit.",
)
_MINIMUM_ORDER = described(
    "Smallest total of an order, such as 5.00; none: that of the settings.",
    label="Smallest order",
    hint="Empty: that of the settings.",
)


class LimitChange(Struct, frozen=True, kw_only=True):
    """Amounts as text, in the account's currency, or `none`. Fields that are None keep their value."""

    monthly_limit: Annotated[str | None, _MONTHLY_LIMIT] = None
    minimum_order: Annotated[str | None, _MINIMUM_ORDER] = None


async def set_account_limits(
    tx: Connection, scope: Scope, change: LimitChange, *, actor: Actor, now: datetime
) -> AccountLimits:
    """Takes effect once every process has read the account again, within seconds."""
    await lock_account(tx, scope)
    currency = (await require_account_any_account(tx, scope.account_id)).currency
    old = await limit_store.find_limits(tx, scope)
    new = replace(
        old,
        monthly_limit_minor=_changed(old.monthly_limit_minor, change.monthly_limit, currency),
        minimum_order_minor=_changed(old.minimum_order_minor, change.minimum_order, currency),
    )
    await limit_store.set_limits(tx, scope, new)
    await forget_spending(tx, scope.account_id)
    await audit.record(
        tx,
        scope,
        "account.limits_changed",
        actor=actor,
        at=now,
        before=_audited(old, currency),
        after=_audited(new, currency),
    )
    return new


async def set_key_limit(tx: Connection, key_id: str, amount: str, *, actor: Actor, now: datetime) -> str:
    """Returns the new limit for people, such as `100.00 EUR` or `none`."""
    found = await limit_store.lock_key_any_account(tx, key_id)
    if found is None:
        raise KeyNotFound(f"There is no API key {key_id}. Run `tonne key list` to see the keys of an organisation.")
    minor = _changed(None, amount, found.currency)
    await limit_store.set_key_limit(tx, found.scope.organisation_id, key_id, minor)
    await forget_spending(tx, found.subject_id)
    await audit.record(
        tx,
        found.scope,
        "api_key.limit_changed",
        actor=actor,
        at=now,
        subject_id=key_id,
        before={"monthly_limit": _text(found.limit_minor, found.currency)},
        after={"monthly_limit": _text(minor, found.currency)},
    )
    return _text(minor, found.currency) or NONE


def _changed(old: int | None, text: str | None, currency: str) -> int | None:
    if text is None:
        return old
    if text == NONE:
        return None
    number: Decimal | None = parse_decimal(text)
    minor = None if number is None else scaled(number, DECIMALS[currency])
    if minor is None:
        raise LimitAmountInvalid(f"Give an amount in {currency} such as {format_money(100_000, currency)}, or {NONE}.")
    return minor


def _audited(limits: AccountLimits, currency: str) -> dict[str, str | None]:
    return {
        "monthly_limit": _text(limits.monthly_limit_minor, currency),
        "minimum_order": _text(limits.minimum_order_minor, currency),
    }


def _text(minor: int | None, currency: str) -> str | None:
    return None if minor is None else f"{format_money(minor, currency)} {currency}"

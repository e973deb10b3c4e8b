"""Enforces spending limits: orders of a calendar month (UTC), of an account or an API key.

An order counts with what is to be paid for it, when it is placed; one that waits for a price counts when it is priced,
even if that exceeds the limit. Cancelled and failed orders do not count. Neither do orders that customers pay at
checkout. Orders of one subject with a limit are placed one after the other: a transaction locks the row that counts
them until it commits. Others are not affected.
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS, format_money, parse_decimal, scaled
from tonne.platform.values.context import By, Scope, replace, to_wire
from tonne.platform.values.spending_limit import SpendingLimit, month_of, next_month
from tonne.platform.web.fields import described
from tonne.selling.accounts import limit_store
from tonne.selling.accounts.errors import KeyNotFound
from tonne.selling.accounts.limit_store import AccountLimits
from tonne.selling.accounts.lookup import require_account_any_account
from tonne.selling.accounts.store import lock_account
from tonne.selling.orders.errors import LimitAmountInvalid, SpendingLimitReached
from tonne.selling.orders.model import Order


async def count_spending(
    tx: Connection, order: Order, limits: Sequence[SpendingLimit], *, is_refusing: bool = True
) -> None:
    """Count an order that this transaction has just inserted or priced. Raises if it exceeds one of the limits.

    `limits` are in a fixed order, so that two transactions cannot deadlock.
    """
    if order.priced is None or order.is_paid_at_checkout:
        return
    amount = order.priced.total_cost_minor if order.amount_due_minor is None else order.amount_due_minor
    month = month_of(order.created_at)
    for limit in limits:
        if limit.currency != order.currency:
            if is_refusing:
                raise SpendingLimitReached(
                    f"The {limit.named} has a monthly limit in {limit.currency}, so it cannot order in "
                    f"{order.currency}. Use a key without a limit."
                )
            continue
        spent = await _add(tx, order, limit, month, amount)
        if spent > limit.limit_minor:
            # Some of the orders may have been cancelled since they were counted.
            spent = await _recount(tx, order, limit, month)
        if spent > limit.limit_minor and is_refusing:
            raise _reached(limit, month, spent - amount, amount)


def _reached(limit: SpendingLimit, month: date, spent_minor: int, amount_minor: int) -> SpendingLimitReached:
    def money(minor: int) -> str:
        return f"{format_money(minor, limit.currency)} {limit.currency}"

    return SpendingLimitReached(
        f"The {limit.named} may order for {money(limit.limit_minor)} per calendar month (UTC). {money(spent_minor)} "
        f"are spent in {month:%Y-%m}, and this order of {money(amount_minor)} would exceed the limit. It resets at "
        f"{to_wire(next_month(month))}."
    )


ADD_SPENDING = """
UPDATE monthly_spending SET spent_minor = spent_minor + $3 WHERE subject_id = $1 AND month = $2 RETURNING spent_minor
"""


async def _add(tx: Connection, order: Order, limit: SpendingLimit, month: date, amount_minor: int) -> int:
    spent: int | None = await tx.fetchval(ADD_SPENDING, limit.subject_id, month, amount_minor)
    return await _begin(tx, order, limit, month, amount_minor) if spent is None else spent


# Another transaction may insert the row meanwhile: then this order is added to it.
BEGIN_SPENDING = """
INSERT INTO monthly_spending (subject_id, month, spent_minor) VALUES ($1, $2, $3)
ON CONFLICT (subject_id, month) DO UPDATE SET spent_minor = monthly_spending.spent_minor + $4 RETURNING spent_minor
"""


async def _begin(tx: Connection, order: Order, limit: SpendingLimit, month: date, amount_minor: int) -> int:
    """The first order of the month since the limit was set."""
    so_far = await sum_spending(tx, order.scope.organisation_id, limit.subject_id, month)
    return int(await tx.fetchval(BEGIN_SPENDING, limit.subject_id, month, so_far, amount_minor))


SET_SPENDING = "UPDATE monthly_spending SET spent_minor = $3 WHERE subject_id = $1 AND month = $2"


async def _recount(tx: Connection, order: Order, limit: SpendingLimit, month: date) -> int:
    """The caller has the row's lock, so this sees all orders that were counted."""
    spent = await sum_spending(tx, order.scope.organisation_id, limit.subject_id, month)
    await tx.execute(SET_SPENDING, limit.subject_id, month, spent)
    return spent


SUM_SPENDING = """
SELECT coalesce(sum(orders.total_cost_minor + orders.billing_adjustment_minor + coalesce(orders.tax_minor, 0)),
                0)::bigint
FROM accounts JOIN orders ON orders.account_id = accounts.id
WHERE accounts.organisation_id = $1 AND (accounts.id = $2 OR orders.placed_by_key IN (
      SELECT id FROM api_keys WHERE organisation_id = $1 AND coalesce(limit_key_id, id) = $2))
  AND (NOT starts_with($2, 'acc_') OR accounts.id = $2)
  AND orders.created_at >= $3 AND orders.created_at < $4 AND orders.status NOT IN ('cancelled', 'failed')
  AND orders.offset_link_id IS NULL AND orders.total_cost_minor IS NOT NULL
"""


async def sum_spending(connection: Connection, organisation_id: str, subject_id: str, month: date) -> int:
    """What an account, or an API key of the organisation and the keys of its rotations, has ordered in a month."""
    start = datetime.fromisoformat(f"{month.isoformat()}T00:00:00+00:00")
    return int(await connection.fetchval(SUM_SPENDING, organisation_id, subject_id, start, next_month(month)))


FORGET_SPENDING = "DELETE FROM monthly_spending WHERE subject_id = $1"


async def forget_spending(tx: Connection, subject_id: str) -> None:
    """After a change of the limit: orders placed without a limit were not counted."""
    await tx.execute(FORGET_SPENDING, subject_id)


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


async def set_account_limits(tx: Connection, scope: Scope, change: LimitChange, *, by: By) -> AccountLimits:
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
        by=by,
        before=_audited(old, currency),
        after=_audited(new, currency),
    )
    return new


async def set_key_limit(tx: Connection, key_id: str, amount: str, *, by: By) -> str:
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
        by=by,
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

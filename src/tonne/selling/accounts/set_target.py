"""Set the yearly target and the budget of an organisation."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit.record import record
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import By, Tenant


class YearlyTarget(Struct, frozen=True):
    """What an organisation plans to buy and to spend in a calendar year. Both parts are optional."""

    target_grams: int | None = None
    budget_minor: int | None = None
    budget_currency: str | None = None


FIND_TARGET = """
SELECT target_grams, budget_minor, budget_currency FROM yearly_targets WHERE organisation_id = $1 AND mode = $2
"""


async def find_target(connection: Connection, tenant: Tenant) -> YearlyTarget:
    row = await connection.fetchrow(FIND_TARGET, *tenant)
    return YearlyTarget() if row is None else YearlyTarget(**row)


# Locked, so that the audit entry has the values that this change replaces.
LOCK_TARGET = """
SELECT target_grams, budget_minor, budget_currency FROM yearly_targets
WHERE organisation_id = $1 AND mode = $2 FOR UPDATE
"""


async def lock_target(tx: Connection, tenant: Tenant) -> YearlyTarget:
    row = await tx.fetchrow(LOCK_TARGET, *tenant)
    return YearlyTarget() if row is None else YearlyTarget(**row)


SAVE_TARGET = """
INSERT INTO yearly_targets (organisation_id, mode, target_grams, budget_minor, budget_currency, updated_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (organisation_id, mode) DO UPDATE SET target_grams = excluded.target_grams,
    budget_minor = excluded.budget_minor, budget_currency = excluded.budget_currency, updated_at = excluded.updated_at
"""


async def save_target(tx: Connection, tenant: Tenant, target: YearlyTarget, now: datetime) -> None:
    await tx.execute(SAVE_TARGET, *tenant, target.target_grams, target.budget_minor, target.budget_currency, now)


async def set_target(tx: Connection, tenant: Tenant, target: YearlyTarget, *, by: By) -> None:
    """Replaces the target. Without values, it is removed."""
    before = await lock_target(tx, tenant)
    await save_target(tx, tenant, target, by.at)
    await record(tx, tenant, "organisation.target_changed", by=by, before=_values(before), after=_values(target))


def _values(target: YearlyTarget) -> dict[str, str | None]:
    currency = target.budget_currency
    budget = None if target.budget_minor is None or currency is None else format_money(target.budget_minor, currency)
    return {
        "target": None if target.target_grams is None else format_tonnes(target.target_grams),
        "budget": budget,
        "budget_currency": currency,
    }

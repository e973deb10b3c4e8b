"""Set the yearly target and the budget of an organisation."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit.record import record
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Actor, Mode
from tonne.selling.accounts.target_store import YearlyTarget, lock_target, save_target


async def set_target(
    tx: Connection, organisation_id: str, mode: Mode, target: YearlyTarget, *, actor: Actor, now: datetime
) -> None:
    """Replaces the target. Without values, it is removed."""
    before = await lock_target(tx, organisation_id, mode)
    await save_target(tx, organisation_id, mode, target, now)
    await record(
        tx,
        organisation_id,
        "organisation.target_changed",
        actor=actor,
        at=now,
        mode=mode,
        before=_values(before),
        after=_values(target),
    )


def _values(target: YearlyTarget) -> dict[str, str | None]:
    currency = target.budget_currency
    budget = None if target.budget_minor is None or currency is None else format_money(target.budget_minor, currency)
    return {
        "target": None if target.target_grams is None else format_tonnes(target.target_grams),
        "budget": budget,
        "budget_currency": currency,
    }

"""A test helper: simulate short supply for one test account."""

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import By, Scope
from tonne.selling.accounts import store
from tonne.selling.orders.queue import wake_short


async def simulate_supply(tx: Connection, scope: Scope, available_grams: int | None, *, by: By) -> None:
    """From now on, the account's orders above this quantity are short of supply, and wait. None ends the simulation.

    Orders that wait are checked again.
    """
    await wake_short(tx, scope)
    await store.lock_account(tx, scope)
    before = (await store.find_terms(tx, scope)).simulated_supply_grams
    await store.set_simulated_supply(tx, scope, available_grams)
    await audit.record(
        tx,
        scope,
        "account.supply_simulated",
        by=by,
        before={"available_quantity": _tonnes(before)},
        after={"available_quantity": _tonnes(available_grams)},
    )


def _tonnes(grams: int | None) -> str | None:
    return None if grams is None else format_tonnes(grams)

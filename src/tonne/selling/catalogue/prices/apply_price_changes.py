"""A job of the worker: applies scheduled prices."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from tonne.platform.db.batches import RETRY_AFTER, run_claimed
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Actor, ActorKind, Clock
from tonne.selling.catalogue.prices.change_price import change_price
from tonne.selling.catalogue.prices.price_change_store import PriceChange, claim_changes, mark_applied, postpone_changes

BATCH = 100
JOB = Actor(ActorKind.SYSTEM, "apply_price_changes")


class ApplyPriceChanges:
    EVERY_S: ClassVar[int] = 2

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run_once(self) -> bool:
        """Apply those whose time has come; false if there are none."""
        return await run_claimed(
            self._database,
            lambda tx, limit: claim_changes(tx, self._clock(), limit),
            self._apply,
            lambda tx, changes: postpone_changes(tx, changes, self._clock() + RETRY_AFTER),
            limit=BATCH,
            failure_event="price_change_not_applied",
            describe=lambda change: {"price_change_id": change.id},
        )

    async def _apply(self, tx: Connection, changes: Sequence[PriceChange]) -> None:
        for change in changes:
            await apply_price_change(tx, change, self._clock())


async def apply_price_change(tx: Connection, change: PriceChange, now: datetime, *, actor: Actor = JOB) -> None:
    """The caller has locked the change."""
    await change_price(tx, change.mode, change.bundle_id, change.unit_price_minor, actor=actor, now=now)
    await mark_applied(tx, change, now)

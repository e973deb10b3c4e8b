"""A job of the worker: applies scheduled prices."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from tonne.platform.db.batches import RETRY_AFTER, run_claimed
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Actor, ActorKind, Clock, Mode
from tonne.selling.catalogue.errors import BundleNotFound
from tonne.selling.catalogue.imports.store import acquire_import_lock, raise_version
from tonne.selling.catalogue.prices.price_change_store import (
    PriceChange,
    claim_changes,
    find_price,
    mark_applied,
    postpone_changes,
    save_price,
)


async def change_price(
    tx: Connection, mode: Mode, bundle_id: str, unit_price_minor: int, *, actor: Actor, now: datetime
) -> None:
    """Waits for a running import, which may set the price as well."""
    await acquire_import_lock(tx)
    bundle = await find_price(tx, mode, bundle_id)
    if bundle is None:
        raise BundleNotFound("There is no bundle with this id in this mode.")
    if bundle.unit_price_minor == unit_price_minor:
        return
    await save_price(tx, mode, bundle_id, unit_price_minor)
    await raise_version(tx, mode)
    before, after = (
        Decimal(minor).scaleb(-DECIMALS[bundle.currency]) for minor in (bundle.unit_price_minor, unit_price_minor)
    )
    await audit.record(
        tx,
        None,
        "bundle.changed",
        actor=actor,
        at=now,
        subject_id=bundle_id,
        mode=mode,
        before={"unit_price": before},
        after={"unit_price": after},
        currency=bundle.currency,
    )


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

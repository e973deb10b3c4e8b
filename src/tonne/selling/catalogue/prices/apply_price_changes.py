"""A job of the worker: applies scheduled prices. With their SQL."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from msgspec import Struct

from tonne.platform.db.batches import RETRY_AFTER, RowJob, run_claimed
from tonne.platform.db.database import Connection, value_of, value_or_none
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Actor, ActorKind, By, Mode
from tonne.selling.catalogue.errors import BundleNotFound
from tonne.selling.catalogue.imports.store import acquire_import_lock, raise_version


class PriceChange(Struct, frozen=True):
    id: str
    mode: Mode
    bundle_id: str
    unit_price_minor: int
    starts_at: datetime
    created_at: datetime
    created_by: str
    applied_at: datetime | None = None
    cancelled_at: datetime | None = None

    @property
    def is_waiting(self) -> bool:
        return self.applied_at is None and self.cancelled_at is None


# The fields of PriceChange.
_CHANGE = """id, mode, bundle_id, unit_price_minor, starts_at, created_at, created_by, applied_at, cancelled_at"""
INSERT_CHANGE = """
INSERT INTO price_changes (id, mode, bundle_id, unit_price_minor, starts_at, created_at, created_by, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $5) ON CONFLICT DO NOTHING RETURNING true
"""


async def insert_change(tx: Connection, change: PriceChange) -> bool:
    """False if the bundle has a change at this time already."""
    values = (change.id, change.mode, change.bundle_id, change.unit_price_minor)
    times = (change.starts_at, change.created_at, change.created_by)
    return await tx.fetchval(INSERT_CHANGE, *values, *times) is True


LIST_CHANGES = f"""
SELECT {_CHANGE} FROM price_changes WHERE mode = $1 ORDER BY next_attempt_at IS NULL, starts_at DESC, id DESC LIMIT $2
"""  # noqa: S608 - a constant


async def list_changes(connection: Connection, mode: Mode, limit: int) -> list[PriceChange]:
    """Those that wait first, otherwise the newest first."""
    return [value_of(PriceChange, row) for row in await connection.fetch(LIST_CHANGES, mode, limit)]


LOCK_CHANGE = f"SELECT {_CHANGE} FROM price_changes WHERE mode = $1 AND id = $2 FOR UPDATE"  # noqa: S608 - a constant


async def lock_change(tx: Connection, mode: Mode, change_id: str) -> PriceChange | None:
    return value_or_none(PriceChange, await tx.fetchrow(LOCK_CHANGE, mode, change_id))


MARK_CANCELLED = "UPDATE price_changes SET cancelled_at = $3, next_attempt_at = NULL WHERE mode = $1 AND id = $2"


async def mark_cancelled(tx: Connection, change: PriceChange, now: datetime) -> None:
    await tx.execute(MARK_CANCELLED, change.mode, change.id, now)


CLAIM_CHANGES = f"""
SELECT {_CHANGE} FROM price_changes WHERE next_attempt_at <= $1
ORDER BY next_attempt_at, starts_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - a constant


async def claim_changes(tx: Connection, now: datetime, limit: int) -> list[PriceChange]:
    """Lock those whose time has come, in the order of their times."""
    return [value_of(PriceChange, row) for row in await tx.fetch(CLAIM_CHANGES, now, limit)]


MARK_APPLIED = "UPDATE price_changes SET applied_at = $3, next_attempt_at = NULL WHERE mode = $1 AND id = $2"


async def mark_applied(tx: Connection, change: PriceChange, now: datetime) -> None:
    await tx.execute(MARK_APPLIED, change.mode, change.id, now)


POSTPONE_CHANGES = "UPDATE price_changes SET next_attempt_at = $2 WHERE id = ANY ($1::text[]) AND applied_at IS NULL"


async def postpone_changes(tx: Connection, changes: Sequence[PriceChange], until: datetime) -> None:
    await tx.execute(POSTPONE_CHANGES, [change.id for change in changes], until)


class BundlePrice(Struct, frozen=True):
    currency: str
    unit_price_minor: int


FIND_PRICE = "SELECT currency, unit_price_minor FROM bundles JOIN catalogues USING (mode) WHERE mode = $1 AND id = $2"


async def find_price(tx: Connection, mode: Mode, bundle_id: str) -> BundlePrice | None:
    row = await tx.fetchrow(FIND_PRICE, mode, bundle_id)
    return None if row is None else BundlePrice(**row)


SAVE_PRICE = "UPDATE bundles SET unit_price_minor = $3 WHERE mode = $1 AND id = $2"


async def save_price(tx: Connection, mode: Mode, bundle_id: str, unit_price_minor: int) -> None:
    await tx.execute(SAVE_PRICE, mode, bundle_id, unit_price_minor)


async def change_price(tx: Connection, mode: Mode, bundle_id: str, unit_price_minor: int, *, by: By) -> None:
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
        by=by,
        subject_id=bundle_id,
        mode=mode,
        before={"unit_price": before},
        after={"unit_price": after},
        currency=bundle.currency,
    )


BATCH = 100
JOB = Actor(ActorKind.SYSTEM, "apply_price_changes")


class ApplyPriceChanges(RowJob, frozen=True):
    EVERY_S: ClassVar[int] = 2

    async def run_once(self) -> bool:
        """Apply those whose time has come; false if there are none."""
        return await run_claimed(
            self.database,
            lambda tx, limit: claim_changes(tx, self.clock(), limit),
            self._apply,
            lambda tx, changes: postpone_changes(tx, changes, self.clock() + RETRY_AFTER),
            limit=BATCH,
            failure_event="price_change_not_applied",
            describe=lambda change: {"price_change_id": change.id},
        )

    async def _apply(self, tx: Connection, changes: Sequence[PriceChange]) -> None:
        for change in changes:
            await apply_price_change(tx, change, by=JOB.at(self.clock()))


async def apply_price_change(tx: Connection, change: PriceChange, *, by: By) -> None:
    """The caller has locked the change."""
    await change_price(tx, change.mode, change.bundle_id, change.unit_price_minor, by=by)
    await mark_applied(tx, change, by.at)

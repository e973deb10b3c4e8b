"""SQL of what registries show otherwise than the books."""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import By, Mode, new_id


class Cause(StrEnum):
    # Of a lot.
    DIFFERENCE = "difference"
    # What the account has, and no lot.
    SURPLUS = "surplus"
    # The registry says that it has fewer units than it was asked to retire.
    REFUSED = "refused"
    # Units of a lot that was invalidated while the registry was retiring them.
    INVALID = "invalid"


class Resolution(StrEnum):
    # The difference stays, and is expected from now on.
    EXPLAINED = "explained"
    # The difference should be gone.
    CORRECTED = "corrected"


class ComparedAccount(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def unit_grams(self) -> int: ...


class SeenDrift(Struct, frozen=True, kw_only=True):
    """`units` are in our books and not at the registry; fewer than none: the other way round.

    `is_certain`: it need not be seen twice. A surplus has a holding and no lot. `unit_grams`: if not as in its account.
    """

    units: int
    lot_id: str | None = None
    holding_id: str | None = None
    cause: Cause = Cause.DIFFERENCE
    is_certain: bool = False
    unit_grams: int | None = None

    @property
    def subject_id(self) -> str:
        return self.lot_id or self.holding_id or ""


class Drift(Struct, frozen=True):
    id: str
    lot_id: str | None
    holding_id: str | None
    units: int
    confirmed_at: datetime | None


_SEEN = "lot_id, holding_id, units, cause, is_certain, unit_grams"
# The difference that a comparison finds is exact; a refusal says only what was asked for.
NOTE_DRIFTS = f"""
INSERT INTO registry_drifts (mode, registry_account, unit_grams, seen_at, confirmed_at, id, cause, lot_id, holding_id,
                             units)
SELECT $1, $2, coalesce(unit_grams, $3), $4::timestamptz, CASE WHEN is_certain THEN $4::timestamptz END, id, cause,
       lot_id, holding_id, units
FROM unnest($5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[], $10::boolean[],
            $11::bigint[]) AS new (id, {_SEEN})
ON CONFLICT (registry_account, (coalesce(lot_id, holding_id))) WHERE closed_at IS NULL DO UPDATE
    SET confirmed_at = coalesce(registry_drifts.confirmed_at, excluded.confirmed_at,
                                CASE WHEN registry_drifts.units = excluded.units THEN excluded.seen_at END),
        cause = excluded.cause, units = excluded.units
RETURNING id, lot_id, holding_id, units, confirmed_at
"""  # noqa: S608 - a constant


async def note_drifts(
    tx: Connection, account: ComparedAccount, seen: Sequence[SeenDrift], now: datetime
) -> list[Drift]:
    """A difference that is seen twice is confirmed. Returns those that are confirmed now."""
    ids = [new_id("drf") for _ in seen]
    rows = await tx.fetch(NOTE_DRIFTS, account.mode, account.id, account.unit_grams, now, ids, *columns(seen, _SEEN))
    return [drift for drift in (Drift(**row) for row in rows) if drift.confirmed_at == now]


# What was seen once and is gone was under way. A surplus that is gone was imported, or has left the account.
FORGET_DRIFTS = """
DELETE FROM registry_drifts WHERE registry_account = $1 AND closed_at IS NULL
  AND (confirmed_at IS NULL OR cause = 'surplus') AND coalesce(lot_id, holding_id) <> ALL ($2::text[])
"""


async def forget_drifts(tx: Connection, registry_account: str, kept: Collection[str]) -> None:
    """`kept` are the lots and holdings that differ, or that may."""
    await tx.execute(FORGET_DRIFTS, registry_account, list(kept))


EXPLAINED_SURPLUS = """
SELECT holding_id, sum(units)::bigint AS units FROM registry_drifts
WHERE registry_account = $1 AND resolution = 'explained' AND cause = 'surplus' GROUP BY holding_id
"""


async def read_explained_surplus(connection: Connection, registry_account: str) -> dict[str, int]:
    """Units by holding, below 0."""
    return {row["holding_id"]: row["units"] for row in await connection.fetch(EXPLAINED_SURPLUS, registry_account)}


class OpenDrift(Struct, frozen=True):
    """A confirmed drift, for the operator. `pause_reason` is that of its lot."""

    id: str
    cause: Cause
    registry_account: str
    lot_id: str | None
    holding_id: str | None
    serial: str | None
    units: int
    unit_grams: int
    seen_at: datetime
    paused_at: datetime | None
    pause_reason: str | None


LIST_OPEN = """
SELECT drift.id, drift.cause, drift.registry_account, drift.lot_id, drift.holding_id, lot.serial, drift.units,
       drift.unit_grams, drift.seen_at, lot.paused_at, lot.pause_reason
FROM registry_drifts drift LEFT JOIN lots lot ON lot.mode = drift.mode AND lot.id = drift.lot_id
WHERE drift.closed_at IS NULL AND drift.confirmed_at IS NOT NULL AND ($1::mode IS NULL OR drift.mode = $1)
  AND ($2::text IS NULL OR drift.id = $2 OR drift.lot_id = $2)
ORDER BY drift.seen_at, drift.id LIMIT 100
"""


async def list_open_drifts(
    connection: Connection, mode: Mode | None = None, drift_or_lot_id: str | None = None
) -> list[OpenDrift]:
    """Oldest first."""
    return [OpenDrift(**row) for row in await connection.fetch(LIST_OPEN, mode, drift_or_lot_id)]


CLOSE_DRIFT = """
UPDATE registry_drifts SET resolution = $2, closed_at = $3, closed_by = $4, closed_reason = $5
WHERE id = $1 AND closed_at IS NULL
"""


async def close_drift(tx: Connection, drift_id: str, resolution: Resolution, *, reason: str, by: By) -> None:
    await tx.execute(CLOSE_DRIFT, drift_id, resolution, by.at, str(by.actor), reason)

"""SQL of accounts at registries: what the books have of each lot, and how that differs from what the registry shows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, optional, value_of
from tonne.platform.values.context import By, Mode, new_id
from tonne.supply.registries.gateway import RegistryAccount


class Resolution(StrEnum):
    # The difference stays, and is expected from now on.
    EXPLAINED = "explained"
    # The difference should be gone.
    CORRECTED = "corrected"


SAVE_ACCOUNTS = """
INSERT INTO registry_accounts (id, mode, adapter) SELECT id, mode::mode, adapter
FROM unnest($1::text[], $2::text[], $3::text[]) AS new (id, mode, adapter) ON CONFLICT (id) DO NOTHING
"""


async def save_accounts(tx: Connection, accounts: Iterable[RegistryAccount]) -> None:
    """Those of the settings. An instruction names one."""
    await tx.execute(SAVE_ACCOUNTS, *columns(list(accounts), "id, mode, adapter"))


CLAIM_ACCOUNTS = """
UPDATE registry_accounts SET next_look_at = $2
FROM (SELECT id FROM registry_accounts WHERE next_look_at <= $1 AND id = ANY ($3::text[])
      FOR NO KEY UPDATE SKIP LOCKED) due
WHERE registry_accounts.id = due.id RETURNING registry_accounts.id
"""


async def claim_accounts(tx: Connection, ids: Collection[str], now: datetime, every: timedelta) -> list[str]:
    """Those that are due, and next after this time."""
    return [row["id"] for row in await tx.fetch(CLAIM_ACCOUNTS, now, now + every, list(ids))]


HASTEN_LOOK = "UPDATE registry_accounts SET next_look_at = '-infinity' WHERE id = $1 RETURNING mode"


async def hasten_look(tx: Connection, registry_account: str) -> Mode | None:
    """Compare the account at the next run of the job. Returns its mode, None if there is none."""
    return optional(Mode, await tx.fetchval(HASTEN_LOOK, registry_account))


class LotBooks(Struct, frozen=True):
    """The units of a lot that are not retired here. `asked_units` may be retired there already.

    `explained_units` is a difference that a person has explained. `is_moving`: an answer was booked during the look.
    """

    lot_id: str
    holding_id: str
    unit_grams: int
    here_units: int
    asked_units: int
    explained_units: int
    is_moving: bool


# Retired grams are computed from those that are not: there are always few of them.
READ_BOOKS = """
SELECT lot.id AS lot_id, lot.holding_id, lot.unit_grams,
       (lot.quantity_grams - lot.allocated_grams + coalesce(waiting.grams, 0)) / lot.unit_grams AS here_units,
       coalesce(busy.unit_count, 0) AS asked_units, coalesce(explained.units, 0)::bigint AS explained_units,
       EXISTS (SELECT FROM registry_instructions done
               WHERE done.mode = lot.mode AND done.lot_id = lot.id AND done.closed_at >= $3) AS is_moving
FROM lots lot
LEFT JOIN (SELECT lot_id, sum(quantity_grams)::bigint AS grams
           FROM (SELECT lot_id, quantity_grams FROM parcels WHERE mode = $1 AND status = 'to_retire'
                 UNION ALL
                 SELECT lot_id, quantity_grams FROM parcels WHERE mode = $1 AND status = 'open') unretired
           GROUP BY lot_id) waiting ON waiting.lot_id = lot.id
LEFT JOIN registry_instructions busy
       ON busy.mode = lot.mode AND busy.lot_id = lot.id AND busy.state IN ('recorded', 'asked', 'pending')
LEFT JOIN (SELECT lot_id, sum(units) AS units FROM registry_drifts
           WHERE registry_account = $2 AND resolution = 'explained' GROUP BY lot_id) explained
       ON explained.lot_id = lot.id
WHERE lot.mode = $1 AND lot.registry_account = $2 AND lot.invalidated_at IS NULL
"""


async def read_books_any_account(
    connection: Connection, mode: Mode, registry_account: str, since: datetime
) -> list[LotBooks]:
    """Of all lots of the account."""
    return [LotBooks(**row) for row in await connection.fetch(READ_BOOKS, mode, registry_account, since)]


class Drift(Struct, frozen=True):
    """`units` of the lot are in our books and not at the registry; fewer than none: the other way round."""

    id: str
    mode: Mode
    registry_account: str
    lot_id: str
    units: int
    seen_at: datetime
    confirmed_at: datetime | None
    closed_at: datetime | None


_DRIFT = "id, mode, registry_account, lot_id, units, seen_at, confirmed_at, closed_at"
NOTE_DRIFTS = f"""
INSERT INTO registry_drifts (id, mode, registry_account, lot_id, units, seen_at)
SELECT id, $1, $2, lot_id, units, $3 FROM unnest($4::text[], $5::text[], $6::bigint[]) AS new (id, lot_id, units)
ON CONFLICT (mode, lot_id) WHERE closed_at IS NULL DO UPDATE
    SET confirmed_at = CASE WHEN registry_drifts.units = excluded.units OR registry_drifts.confirmed_at IS NOT NULL
                            THEN coalesce(registry_drifts.confirmed_at, excluded.seen_at) END,
        units = excluded.units
RETURNING {_DRIFT}
"""  # noqa: S608 - a constant


async def note_drifts(
    tx: Connection, mode: Mode, registry_account: str, differences: Mapping[str, int], now: datetime
) -> list[Drift]:
    """Units that a lot has here and not there. A difference that is seen twice is confirmed."""
    new = ([new_id("drf") for _ in differences], list(differences), list(differences.values()))
    return [Drift(**row) for row in await tx.fetch(NOTE_DRIFTS, mode, registry_account, now, *new)]


# What was seen once and is gone was under way.
FORGET_DRIFTS = """
DELETE FROM registry_drifts WHERE registry_account = $1 AND confirmed_at IS NULL AND closed_at IS NULL
  AND lot_id = ANY ($2::text[])
"""


async def forget_drifts(tx: Connection, registry_account: str, lot_ids: Sequence[str]) -> None:
    await tx.execute(FORGET_DRIFTS, registry_account, list(lot_ids))


NOTE_LOOK = """
UPDATE registry_accounts SET looked_at = $2, problem = NULL, here_grams = $3, there_grams = $4 WHERE id = $1
"""
NOTE_PROBLEM = "UPDATE registry_accounts SET problem = $2 WHERE id = $1"


async def note_look(tx: Connection, account_id: str, looked_at: datetime, here_grams: int, there_grams: int) -> None:
    await tx.execute(NOTE_LOOK, account_id, looked_at, here_grams, there_grams)


async def note_problem(tx: Connection, account_id: str, problem: str) -> None:
    """The account could not be read: the last look that worked stays."""
    await tx.execute(NOTE_PROBLEM, account_id, problem)


CLOSE_DRIFT = """
UPDATE registry_drifts SET resolution = $2, closed_at = $3, closed_by = $4, closed_reason = $5
WHERE lot_id = $1 AND closed_at IS NULL RETURNING id
"""


async def close_drift(tx: Connection, lot_id: str, resolution: Resolution, *, reason: str, by: By) -> str | None:
    """The id of the open drift of the lot; None if there is none."""
    closed: str | None = await tx.fetchval(CLOSE_DRIFT, lot_id, resolution, by.at, str(by.actor), reason)
    return closed


class AccountState(Struct, frozen=True):
    """`drift_grams` is the sum of all confirmed differences, `asked_since` when the oldest open request was sent."""

    id: str
    mode: Mode
    adapter: str
    looked_at: datetime | None
    problem: str | None
    here_grams: int
    there_grams: int
    open_requests: int
    asked_since: datetime | None
    drift_grams: int


LIST_ACCOUNTS = """
SELECT account.id, account.mode, account.adapter, account.looked_at, account.problem,
       account.here_grams, account.there_grams,
       (SELECT count(*) FROM registry_instructions busy
        WHERE busy.registry_account = account.id AND busy.closed_at IS NULL) AS open_requests,
       (SELECT min(sent_at) FROM registry_instructions busy
        WHERE busy.registry_account = account.id AND busy.state IN ('asked', 'pending')) AS asked_since,
       (SELECT coalesce(sum(abs(drift.units) * lot.unit_grams), 0)::bigint FROM registry_drifts drift
        JOIN lots lot ON lot.mode = drift.mode AND lot.id = drift.lot_id
        WHERE drift.registry_account = account.id AND drift.closed_at IS NULL AND drift.confirmed_at IS NOT NULL
       ) AS drift_grams
FROM registry_accounts account ORDER BY account.id
"""


async def list_accounts(connection: Connection) -> list[AccountState]:
    return [value_of(AccountState, row) for row in await connection.fetch(LIST_ACCOUNTS)]

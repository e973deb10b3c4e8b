"""SQL of accounts at registries: what the books have of each lot, and how that differs from what the registry shows."""

from collections.abc import Collection, Iterable
from datetime import date, datetime, timedelta

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, optional, value_of
from tonne.platform.values.context import Mode
from tonne.supply.registries.gateway import RegistryAccount
from tonne.supply.retirements.confirmations.work_list import IS_HELD, READY_SINCE

# So many requests in succession without a definite answer stop the requests to an account.
STOP_AFTER = 5
LOOK_WHILE_STOPPED = timedelta(minutes=1)
# Locks only what changes: other transactions have locked lots and parcels when they come to accounts.
SAVE_ACCOUNTS = """
INSERT INTO registry_accounts (id, mode, adapter, expires_on) SELECT id, mode::mode, adapter, expires_on
FROM unnest($1::text[], $2::text[], $3::text[], $4::date[]) AS new (id, mode, adapter, expires_on)
WHERE NOT EXISTS (SELECT FROM registry_accounts old
                  WHERE old.id = new.id AND old.expires_on IS NOT DISTINCT FROM new.expires_on)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET expires_on = excluded.expires_on
"""


async def save_accounts(tx: Connection, accounts: Iterable[RegistryAccount]) -> None:
    """Those of the settings. An instruction names one."""
    await tx.execute(SAVE_ACCOUNTS, *columns(list(accounts), "id, mode, adapter, expires_on"))


CLAIM_ACCOUNTS = """
UPDATE registry_accounts SET next_look_at = CASE WHEN stopped_at IS NULL THEN $2 ELSE $1 + $4::interval END
FROM (SELECT id FROM registry_accounts WHERE next_look_at <= $1 AND id = ANY ($3::text[])
      FOR NO KEY UPDATE SKIP LOCKED) due
WHERE registry_accounts.id = due.id RETURNING registry_accounts.id
"""


async def claim_accounts(tx: Connection, ids: Collection[str], now: datetime, every: timedelta) -> list[str]:
    """Those that are due, and next after this time; sooner, if nothing is asked of them until a look works."""
    rows = await tx.fetch(CLAIM_ACCOUNTS, now, now + every, list(ids), LOOK_WHILE_STOPPED)
    return [row["id"] for row in rows]


# `$2`: whether one of the requests had a definite answer, otherwise how many had none.
NOTE_ANSWERS = """
UPDATE registry_accounts
SET failures = CASE WHEN $2 THEN 0 ELSE failures + $3 END,
    stopped_at = CASE WHEN NOT $2 AND failures + $3 >= $4 THEN coalesce(stopped_at, $5) ELSE stopped_at END,
    next_look_at = CASE WHEN NOT $2 AND failures + $3 >= $4 THEN least(next_look_at, $5 + $6::interval)
                   ELSE next_look_at END,
    problem = CASE WHEN NOT $2 AND failures + $3 >= $4 THEN $7 ELSE problem END
FROM (SELECT id, stopped_at IS NULL AS was_asked FROM registry_accounts
      WHERE id = $1 AND adapter <> 'simulated' AND ($3 > 0 OR failures > 0) FOR NO KEY UPDATE) before
WHERE registry_accounts.id = before.id
RETURNING before.was_asked AND stopped_at IS NOT NULL
"""


async def note_answers(
    tx: Connection, account_id: str, *, worked: bool, failed: int, problem: str, now: datetime
) -> bool:
    """Stop asking an account of which nothing has been learnt for a while: true if it is stopped now, and was not.

    Simulated ones fail by intention.
    """
    rest = (STOP_AFTER, now, LOOK_WHILE_STOPPED, problem[:500])
    return bool(await tx.fetchval(NOTE_ANSWERS, account_id, worked, 0 if worked else failed, *rest))


HASTEN_LOOK = """
UPDATE registry_accounts SET next_look_at = '-infinity', compared_at = NULL WHERE id = $1 RETURNING mode
"""


async def hasten_look(tx: Connection, registry_account: str) -> Mode | None:
    """Compare all holdings of the account at the next run of the job. Returns its mode, None if there is none."""
    return optional(Mode, await tx.fetchval(HASTEN_LOOK, registry_account))


class LotBooks(Struct, frozen=True, kw_only=True):
    """The units of a lot that are not retired here.

    `asked_units` may be retired there already, and `desk_units` too: a person retires them. `explained_units` is a
    difference that a person has explained. `is_moving`: an answer was booked during the look. Of a lot that was
    invalidated it does not matter how many units are there.
    """

    lot_id: str
    holding_id: str
    here_units: int
    asked_units: int
    desk_units: int
    explained_units: int
    is_moving: bool
    is_invalid: bool


# Retired grams are computed from those that are not: there are always few of them.
READ_BOOKS = """
SELECT lot.id AS lot_id, lot.holding_id,
       (lot.quantity_grams - lot.allocated_grams + coalesce(waiting.grams, 0)) / lot.unit_grams AS here_units,
       coalesce(busy.unit_count, 0) AS asked_units, coalesce(waiting.desk_grams, 0) / lot.unit_grams AS desk_units,
       coalesce(explained.units, 0)::bigint AS explained_units,
       EXISTS (SELECT FROM registry_instructions done
               WHERE done.mode = lot.mode AND done.lot_id = lot.id AND done.closed_at >= $3) AS is_moving,
       lot.invalidated_at IS NOT NULL AS is_invalid
FROM lots lot
LEFT JOIN (SELECT lot_id, sum(quantity_grams)::bigint AS grams,
                  (sum(quantity_grams) FILTER (WHERE is_at_desk))::bigint AS desk_grams
           FROM (SELECT lot_id, quantity_grams, desk_note IS NOT NULL OR exported_at IS NOT NULL AS is_at_desk
                 FROM parcels WHERE mode = $1 AND status = 'to_retire'
                 UNION ALL
                 SELECT lot_id, quantity_grams, false FROM parcels WHERE mode = $1 AND status = 'open') unretired
           GROUP BY lot_id) waiting ON waiting.lot_id = lot.id
LEFT JOIN registry_instructions busy
       ON busy.mode = lot.mode AND busy.lot_id = lot.id AND busy.state IN ('recorded', 'asked', 'pending')
LEFT JOIN (SELECT lot_id, sum(units) AS units FROM registry_drifts
           WHERE registry_account = $2 AND resolution = 'explained' AND cause = 'difference' GROUP BY lot_id) explained
       ON explained.lot_id = lot.id
WHERE lot.mode = $1 AND lot.registry_account = $2
"""


async def read_books_any_account(
    connection: Connection, mode: Mode, registry_account: str, since: datetime
) -> list[LotBooks]:
    """Of all lots of the account."""
    return [LotBooks(**row) for row in await connection.fetch(READ_BOOKS, mode, registry_account, since)]


FIND_UNKNOWN = """
SELECT reference FROM unnest($2::text[]) AS seen (reference)
WHERE NOT EXISTS (SELECT FROM registry_instructions ours
                  WHERE ours.registry_account = $1 AND ours.reference = seen.reference)
"""


async def find_unknown(connection: Connection, registry_account: str, references: Collection[str]) -> set[str]:
    """Those of the references that are not of our requests."""
    return {row["reference"] for row in await connection.fetch(FIND_UNKNOWN, registry_account, list(references))}


NOTE_LOOK = """
UPDATE registry_accounts
SET looked_at = $2, problem = NULL, failures = 0, stopped_at = NULL, here_grams = $3, there_grams = $4,
    compared_at = CASE WHEN $5 THEN $2 ELSE compared_at END
WHERE id = $1
"""
NOTE_PROBLEM = "UPDATE registry_accounts SET problem = $2 WHERE id = $1"


async def note_look(
    tx: Connection, account_id: str, looked_at: datetime, *, here_grams: int, there_grams: int, is_compared: bool
) -> None:
    """`is_compared`: holding by holding."""
    await tx.execute(NOTE_LOOK, account_id, looked_at, here_grams, there_grams, is_compared)


async def note_problem(tx: Connection, account_id: str, problem: str) -> None:
    """The account could not be read: the last look that worked stays."""
    await tx.execute(NOTE_PROBLEM, account_id, problem)


class AccountState(Struct, frozen=True):
    """`drift_grams` is the sum of all confirmed differences, `asked_since` when the oldest open request was sent.

    `has_drift`: there is a difference, confirmed or not. `waiting_since`: of credits that the registry is to retire.
    """

    id: str
    mode: Mode
    adapter: str
    looked_at: datetime | None
    compared_at: datetime | None
    problem: str | None
    stopped_at: datetime | None
    expires_on: date | None
    here_grams: int
    there_grams: int
    open_requests: int
    asked_since: datetime | None
    drift_grams: int
    has_drift: bool
    waiting_since: datetime | None


LIST_ACCOUNTS = f"""
SELECT account.id, account.mode, account.adapter, account.looked_at, account.compared_at,
       account.problem, account.stopped_at, account.expires_on,
       account.here_grams, account.there_grams,
       (SELECT count(*) FROM registry_instructions busy
        WHERE busy.registry_account = account.id AND busy.state IN ('recorded', 'asked', 'pending')) AS open_requests,
       (SELECT min(sent_at) FROM registry_instructions busy
        WHERE busy.registry_account = account.id AND busy.state IN ('asked', 'pending')) AS asked_since,
       (SELECT coalesce(sum(abs(drift.units) * drift.unit_grams), 0)::bigint FROM registry_drifts drift
        WHERE drift.registry_account = account.id AND drift.closed_at IS NULL AND drift.confirmed_at IS NOT NULL
       ) AS drift_grams,
       EXISTS (SELECT FROM registry_drifts drift
               WHERE drift.registry_account = account.id AND drift.closed_at IS NULL) AS has_drift,
       (SELECT min({READY_SINCE}) FROM parcels parcel JOIN lots lot USING (mode)
        WHERE lot.id = parcel.lot_id AND parcel.mode = account.mode AND parcel.status = 'to_retire'
          AND parcel.desk_note IS NULL AND parcel.exported_at IS NULL
          AND lot.registry_account = account.id AND lot.paused_at IS NULL AND NOT {IS_HELD}
       ) AS waiting_since
FROM registry_accounts account ORDER BY account.id
"""  # noqa: S608 - constants


async def list_states_any_account(connection: Connection) -> list[AccountState]:
    return [value_of(AccountState, row) for row in await connection.fetch(LIST_ACCOUNTS)]

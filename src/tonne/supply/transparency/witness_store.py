"""What each witness has cosigned of a log, and since when it has not."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.supply.transparency.witness_outcomes import Cosigned, NotCosigned


class WitnessState(Struct, frozen=True):
    """`size` is the tree of its last cosignature. `next_attempt_at` is set while it fails."""

    vkey: str
    size: int
    next_attempt_at: datetime | None
    failures: int


READ_STATES = """
SELECT vkey, size, next_attempt_at, failures FROM log_witnesses WHERE log_id = $1
"""


async def read_states(connection: Connection, log_id: int) -> dict[str, WitnessState]:
    return {row["vkey"]: WitnessState(*row) for row in await connection.fetch(READ_STATES, log_id)}


RECORD_COSIGNATURE = """
INSERT INTO log_witnesses (log_id, vkey, size, cosigned_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (log_id, vkey) DO UPDATE
SET size = excluded.size, cosigned_at = excluded.cosigned_at,
    failing_since = NULL, failures = 0, problem = NULL, detail = NULL, next_attempt_at = NULL
WHERE log_witnesses.size <= excluded.size
"""


async def record_cosignature(tx: Connection, log_id: int, vkey: str, cosigned: Cosigned, now: datetime) -> None:
    """An earlier checkpoint than the last one changes nothing: two workers may ask at the same time."""
    await tx.execute(RECORD_COSIGNATURE, log_id, vkey, cosigned.size, now)


RECORD_FAILURE = """
INSERT INTO log_witnesses (log_id, vkey, failing_since, failures, problem, detail, next_attempt_at)
VALUES ($1, $2, $5, 1, $3, $4, $6)
ON CONFLICT (log_id, vkey) DO UPDATE
SET failing_since = coalesce(log_witnesses.failing_since, excluded.failing_since),
    failures = log_witnesses.failures + 1, problem = excluded.problem, detail = excluded.detail,
    next_attempt_at = excluded.next_attempt_at
"""


async def record_failure(
    tx: Connection, log_id: int, vkey: str, failed: NotCosigned, *, now: datetime, next_attempt_at: datetime
) -> None:
    await tx.execute(RECORD_FAILURE, log_id, vkey, failed.problem, failed.detail, now, next_attempt_at)


FORGET_OTHERS = "DELETE FROM log_witnesses WHERE log_id = $1 AND vkey <> ALL ($2::text[])"


async def forget_others(tx: Connection, log_id: int, vkeys: Sequence[str]) -> None:
    """Remove what is known of witnesses that the settings no longer name: nobody waits for them."""
    await tx.execute(FORGET_OTHERS, log_id, vkeys)


class LatestCheckpoint(Struct, frozen=True):
    log_id: int
    note: str


READ_LATEST_CHECKPOINTS = """
SELECT log.id, latest.note FROM logs log
CROSS JOIN LATERAL (SELECT note FROM log_checkpoints WHERE log_id = log.id ORDER BY size DESC LIMIT 1) AS latest
WHERE log.closed_at IS NULL
"""


async def read_latest_checkpoints(connection: Connection) -> list[LatestCheckpoint]:
    """The latest checkpoints of all open logs."""
    return [LatestCheckpoint(*row) for row in await connection.fetch(READ_LATEST_CHECKPOINTS)]


ADD_WITNESSES = """
INSERT INTO log_witnesses (log_id, vkey, next_attempt_at)
SELECT log_id, vkey, $3 FROM unnest($1::bigint[]) AS log_id CROSS JOIN unnest($2::text[]) AS vkey
ON CONFLICT (log_id, vkey) DO NOTHING
"""


async def add_witnesses(tx: Connection, log_ids: Sequence[int], vkeys: Sequence[str], now: datetime) -> None:
    """New witnesses are due at once: a log without new entries would not ask them."""
    await tx.execute(ADD_WITNESSES, log_ids, vkeys, now)


CLAIM_DUE = """
UPDATE log_witnesses SET next_attempt_at = $4
WHERE log_id = ANY ($1::bigint[]) AND vkey = ANY ($2::text[]) AND next_attempt_at <= $3
RETURNING log_id, vkey, size
"""


async def claim_due(
    tx: Connection, log_ids: Sequence[int], vkeys: Sequence[str], *, now: datetime, until: datetime
) -> list[tuple[int, str, int]]:
    """Witnesses to ask now: log, key and the size that they have cosigned. Other workers do not ask them `until`."""
    return [tuple(row) for row in await tx.fetch(CLAIM_DUE, log_ids, vkeys, now, until)]

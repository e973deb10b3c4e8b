"""SQL of `doubtful_lines`: lines of statements that may be transfers which were imported in another format."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg
import msgspec

from tonne.money.bank.formats.identity import Identified
from tonne.money.bank.formats.statement import StatementFormat, StatementLine
from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import Actor, Mode, new_id


class DoubtfulLine(msgspec.Struct, frozen=True):
    """`transfer_id` is the transfer that it resembles."""

    id: str
    transfer_id: str
    mode: Mode
    format: StatementFormat
    line: StatementLine
    imported_at: datetime


def _doubtful(row: asyncpg.Record) -> DoubtfulLine:
    line = msgspec.json.decode(row["line"], type=StatementLine)
    return value_of(DoubtfulLine, row, line=line)


FIND_COUNTED = "SELECT fingerprint FROM doubtful_lines WHERE fingerprint = ANY ($1::bytea[]) AND is_same IS NOT false"


async def find_doubted_any_account(tx: Connection, fingerprints: Sequence[bytes]) -> set[bytes]:
    """Those of the fingerprints that wait for a decision, or were decided to be another transfer's line."""
    return {row["fingerprint"] for row in await tx.fetch(FIND_COUNTED, fingerprints)}


INSERT_DOUBTFUL = """
INSERT INTO doubtful_lines (id, transfer_id, fingerprint, mode, format, line, imported_at, imported_by)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, $8) ON CONFLICT (fingerprint) DO NOTHING
"""


async def insert_doubtful(
    tx: Connection,
    found: Sequence[tuple[Identified, bytes]],
    mode: Mode,
    format_: StatementFormat,
    *,
    actor: Actor,
    now: datetime,
) -> None:
    for each, fingerprint in found:
        line = msgspec.json.encode(each.line).decode()
        values = (new_id("dbt"), each.transfer_id, fingerprint, mode, format_, line, now, str(actor))
        await tx.execute(INSERT_DOUBTFUL, *values)


_LINE = """
id, transfer_id, mode, format, line::text AS line, imported_at FROM doubtful_lines WHERE is_same IS NULL
"""
LIST_DOUBTFUL = f"SELECT {_LINE} AND ($1::text IS NULL OR mode = $1) ORDER BY imported_at, id"


async def list_doubtful_any_account(connection: Connection, mode: Mode | None) -> list[DoubtfulLine]:
    """Those that wait for a decision, oldest first."""
    return [_doubtful(row) for row in await connection.fetch(LIST_DOUBTFUL, mode)]


LOCK_DOUBTFUL = f"SELECT {_LINE} AND id = $1 FOR NO KEY UPDATE"


async def lock_doubtful_any_account(tx: Connection, line_id: str) -> DoubtfulLine | None:
    row = await tx.fetchrow(LOCK_DOUBTFUL, line_id)
    return None if row is None else _doubtful(row)


DECIDE = "UPDATE doubtful_lines SET is_same = $2, decided_at = $3, decided_by = $4 WHERE id = $1"


async def mark_decided_any_account(tx: Connection, line_id: str, *, is_same: bool, actor: Actor, now: datetime) -> None:
    await tx.execute(DECIDE, line_id, is_same, now, str(actor))

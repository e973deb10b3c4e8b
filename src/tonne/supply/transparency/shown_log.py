"""What pages show of the log: where a certificate is in it, and the newest checkpoint."""

from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, optional, value_of
from tonne.platform.values.context import Mode
from tonne.supply.transparency.model import log_path
from tonne_verify.notes import split_note


class ShownLog(Struct, frozen=True):
    """A checkpoint. `position` is that of the certificate's entry, if one was asked for."""

    origin: str
    path: str
    size: int
    published_at: datetime
    witnesses: tuple[str, ...]
    position: int | None = None


FIND_ENTRY = """
SELECT log.origin, log.mode, log.generation, statement.position, checkpoint.size, checkpoint.note,
       checkpoint.published_at
FROM log_statements statement
JOIN logs log ON log.id = statement.log_id
JOIN LATERAL (SELECT size, note, published_at FROM log_checkpoints
              WHERE log_checkpoints.log_id = statement.log_id AND size > statement.position
                AND (log.closed_at IS NULL OR size = log.published_size)
              ORDER BY size LIMIT 1) AS checkpoint ON true
WHERE statement.mode = $1 AND statement.kind = 'certificate.issued' AND statement.subject = $2
"""


async def find_shown_entry(connection: Connection, mode: Mode, number: str) -> ShownLog | None:
    """Where a certificate is in the log. None until a checkpoint covers it. Knowing the number is the permission."""
    return optional(_shown, await connection.fetchrow(FIND_ENTRY, mode, number))


FIND_NEWEST = """
SELECT log.origin, log.mode, log.generation, NULL::bigint AS position, checkpoint.size, checkpoint.note,
       checkpoint.published_at
FROM logs log JOIN log_checkpoints checkpoint ON checkpoint.log_id = log.id
WHERE log.mode = $1 AND log.closed_at IS NULL ORDER BY checkpoint.size DESC LIMIT 1
"""


async def find_shown_log(connection: Connection, mode: Mode) -> ShownLog | None:
    """The newest checkpoint of the open log. None before the first one."""
    return optional(_shown, await connection.fetchrow(FIND_NEWEST, mode))


def _shown(row: asyncpg.Record) -> ShownLog:
    _, signatures = split_note(row["note"])
    signers = dict.fromkeys(line.split(" ")[1] for line in signatures)
    # The server stores only signatures that it has verified.
    witnesses = tuple(name for name in signers if name != row["origin"])
    return value_of(ShownLog, row, path=f"{log_path(Mode(row['mode']), row['generation'])}/", witnesses=witnesses)

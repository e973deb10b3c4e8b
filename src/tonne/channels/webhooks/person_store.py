"""Erases what receivers answered to events of a person's order: they may have repeated the data."""

from collections.abc import Sequence

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope

ERASE_ANSWERS = """
UPDATE webhook_attempts SET answer = $4
WHERE organisation_id = $1 AND positions && $3::bigint[] AND answer <> '' AND answer <> $4
  AND webhook_id IN (SELECT id FROM webhooks WHERE organisation_id = $1 AND mode = $2)
"""


async def erase_answers(tx: Connection, scope: Scope, positions: Sequence[int], text: str) -> int:
    """Replace the answers to requests with events at these positions. Returns their number."""
    done = await tx.execute(ERASE_ANSWERS, scope.organisation_id, scope.mode, positions, text)
    return int(done.rpartition(" ")[2])

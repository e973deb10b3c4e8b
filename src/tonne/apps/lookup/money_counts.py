"""How much money needs an operator, for the first page."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class OpenMoney(Struct, frozen=True):
    """Counts above `MOST` are not exact. `evidence_due` is the first deadline of an open dispute."""

    transfers: int
    doubtful: int
    returns: int
    approvals: int
    refunds: int
    disputes: int
    evidence_due: datetime | None


MOST = 1_000
COUNT_OPEN = f"""
SELECT (SELECT count(*) FROM (SELECT FROM bank_transfers WHERE state IN ('unmatched', 'overpaid') AND mode = $1
                              LIMIT {MOST}) AS each)::integer AS transfers,
       (SELECT count(*) FROM (SELECT FROM doubtful_lines WHERE is_same IS NULL AND mode = $1
                              LIMIT {MOST}) AS each)::integer AS doubtful,
       (SELECT count(*) FROM (SELECT FROM transfer_returns sent
                              JOIN bank_transfers transfer ON transfer.id = sent.transfer_id
                              WHERE sent.status IN ('planned', 'exported') AND transfer.mode = $1
                              LIMIT {MOST}) AS each)::integer AS returns,
       (SELECT count(*) FROM (SELECT FROM refunds WHERE state = 'approval' AND mode = $1
                              LIMIT {MOST}) AS each)::integer AS approvals,
       (SELECT count(*) FROM (SELECT FROM refunds WHERE state IN ('due', 'pending') AND mode = $1
                              LIMIT {MOST}) AS each)::integer AS refunds,
       count(*)::integer AS disputes, min(disputes.evidence_due) AS evidence_due
FROM disputes WHERE disputes.state = 'opened' AND disputes.mode = $1
"""  # noqa: S608 - a number


async def count_open_money(connection: Connection, mode: Mode) -> OpenMoney:
    row = await connection.fetchrow(COUNT_OPEN, mode)
    if row is None:
        raise LookupError("an aggregate returns one row")
    return OpenMoney(**row)

"""The audit log of all organisations, page by page, for the operator.

A filter that matches little must not read the whole log for one page: each page reads a limited number of entries, and
the next one goes on from there.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of
from tonne.platform.events.audit.store import AuditFilter, StoredEntry, entry_of
from tonne.platform.values.paging import Position

# Entries that are read for one page.
SCANNED = 10_000
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


class AuditPage(Struct, frozen=True):
    """`next_start` is where the next page begins; None: these are the last entries."""

    entries: Sequence[StoredEntry]
    next_start: Position | None


_COLUMNS = "actor, address, organisation_id, mode, action, subject_id, before, after, details"


def _scan(condition: str) -> str:
    """The matching entries among the next ones that meet a condition, and the last one that was read."""
    return f"""
    SELECT id, at AS created_at, {_COLUMNS}, number, is_match FROM (
        SELECT id, at, {_COLUMNS}, row_number() OVER (ORDER BY at DESC, id DESC) AS number,
               ($6::text IS NULL OR organisation_id = $6) AND ($7::text IS NULL OR subject_id = $7)
               AND ($8::text IS NULL OR starts_with(action, $8)) AND ($9::text IS NULL OR strpos(actor, $9) > 0)
               AND ($10::text IS NULL OR mode = $10 OR mode IS NULL) AS is_match
        FROM (SELECT id, at, {_COLUMNS} FROM audit_log
              WHERE {condition} AND (at, id) < ($2, $3) AND at >= $4 AND at < $5
              ORDER BY at DESC, id DESC LIMIT {SCANNED}) AS read
    ) AS scanned
    WHERE is_match OR number = {SCANNED}
    ORDER BY at DESC, id DESC LIMIT $11
    """  # noqa: S608 - only our own conditions


SCAN_ALL = _scan("$1::text IS NULL")
SCAN_ORGANISATION = _scan("organisation_id = $1")
SCAN_SUBJECT = _scan("subject_id = $1")


async def search_entries_any_account(
    connection: Connection, organisation_id: str | None, conditions: AuditFilter, start: Position, limit: int
) -> AuditPage:
    """`conditions.actor` is a part of the name. Entries without a mode concern both."""
    statement, scanned_id = SCAN_ALL, None
    if conditions.subject_id is not None:
        statement, scanned_id = SCAN_SUBJECT, conditions.subject_id
    elif organisation_id is not None:
        statement, scanned_id = SCAN_ORGANISATION, organisation_id
    period = (start.created_at, start.id, conditions.since or _EARLIEST, conditions.until or _LATEST)
    filtered = parameters_of(conditions, "subject_id, action, actor, mode")
    rows = await connection.fetch(statement, scanned_id, *period, organisation_id, *filtered, limit + 1)
    matching = [row for row in rows if row["is_match"]]
    page = matching[:limit]
    last = None
    if len(matching) > limit:
        last = page[-1]
    elif rows and rows[-1]["number"] == SCANNED:
        last = rows[-1]
    return AuditPage(
        [entry_of(row) for row in page], None if last is None else Position(last["created_at"], last["id"])
    )

"""Reading the audit log. Nothing changes or deletes entries: the database refuses it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of, value_of
from tonne.platform.values.context import Actor, ActorKind, Mode, Scope
from tonne.platform.values.paging import START, Position

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


class StoredEntry(Struct, frozen=True, kw_only=True):
    id: str
    created_at: datetime
    actor: Actor
    organisation_id: str | None
    mode: Mode | None
    action: str
    subject_id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    details: dict[str, Any]


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries to list; None means all. `action` is a prefix. `since` is included, `until` is not."""

    subject_id: str | None = None
    action: str | None = None
    actor: str | None = None
    mode: Mode | None = None
    since: datetime | None = None
    until: datetime | None = None


_ENTRY = "id, at AS created_at, actor, address, organisation_id, mode, action, subject_id, before, after, details"
# Entries without a mode concern live mode too, but a test key may not read what concerns live mode.
LIST_ENTRIES = f"""
SELECT {_ENTRY} FROM audit_log
WHERE organisation_id = $1 AND (mode = $2 OR mode IS NULL AND $2 = 'live')
  AND (at, id) < ($3, $4) AND ($5::text IS NULL OR subject_id = $5) AND ($6::text IS NULL OR starts_with(action, $6))
  AND ($7::text IS NULL OR actor = $7) AND at >= $8 AND at < $9
ORDER BY at DESC, id DESC LIMIT $10
"""  # noqa: S608 - columns above


async def list_entries(
    connection: Connection, scope: Scope, conditions: AuditFilter, start: Position, limit: int
) -> list[StoredEntry]:
    """The entries of the organisation that a key of this mode may read, newest first."""
    place = (scope.organisation_id, scope.mode, start.created_at, start.id)
    rows = await connection.fetch(LIST_ENTRIES, *place, *_filtering(conditions), limit)
    return [entry_of(row) for row in rows]


LIST_ALL_ENTRIES = f"""
SELECT {_ENTRY} FROM audit_log
WHERE ($1::text IS NULL OR organisation_id = $1) AND ($2::text IS NULL OR mode = $2)
  AND (at, id) < ($3, $4) AND ($5::text IS NULL OR subject_id = $5) AND ($6::text IS NULL OR starts_with(action, $6))
  AND ($7::text IS NULL OR strpos(actor, $7) > 0) AND at >= $8 AND at < $9
ORDER BY at DESC, id DESC LIMIT $10
"""  # noqa: S608 - columns above


async def list_entries_any_account(
    connection: Connection, organisation_id: str | None, conditions: AuditFilter, limit: int
) -> list[StoredEntry]:
    """The entries of all organisations and of the operator. `conditions.actor` is a part of the name."""
    place = (organisation_id, conditions.mode, START.created_at, START.id)
    rows = await connection.fetch(LIST_ALL_ENTRIES, *place, *_filtering(conditions), limit)
    return [entry_of(row) for row in rows]


def _filtering(conditions: AuditFilter) -> tuple[Any, ...]:
    period = (conditions.since or _EARLIEST, conditions.until or _LATEST)
    return (conditions.subject_id, conditions.action, conditions.actor, *period)


def entry_of(row: asyncpg.Record | Mapping[str, Any]) -> StoredEntry:
    kind, _, name = row["actor"].partition(":")
    actor = Actor(ActorKind(kind), name, row["address"])
    documents = {name: json.loads(row[name] or "null") for name in ("before", "after", "details")}
    return value_of(StoredEntry, row, actor=actor, **documents)


# Entries that are read for one page.
SCANNED = 10_000


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

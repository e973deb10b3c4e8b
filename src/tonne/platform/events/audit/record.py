"""The audit log: append-only, written in the transaction that makes the change."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from tonne.platform.db.database import Connection, json_rows
from tonne.platform.process.progress import progress
from tonne.platform.values.context import By, Mode, Scope, new_id

Values = Mapping[str, Any]
# Rows per statement: a large import must not become one parameter of hundreds of megabytes.
BATCH = 5_000


class Entry(Struct, frozen=True, kw_only=True):
    """One change of one object. No value may contain a secret.

    An entry without an organisation is visible to the operator only; one without a mode concerns both modes. `before`
    is None for a new object, `after` for a deleted one. If both are given, only values that differ are stored.
    """

    action: str
    subject_id: str
    organisation_id: str | None = None
    mode: Mode | None = None
    before: Values | None = None
    after: Values | None = None
    details: Values = field(default_factory=dict)


class Place(Protocol):
    """Where a change happened: a `Scope`, or an object that belongs to an organisation and a mode."""

    @property
    def organisation_id(self) -> str | None: ...
    @property
    def mode(self) -> Mode: ...


def entry_in(
    place: Place,
    action: str,
    subject_id: str,
    *,
    before: Values | None = None,
    after: Values | None = None,
    **details: Any,
) -> Entry:
    return Entry(
        action=action,
        subject_id=subject_id,
        organisation_id=place.organisation_id,
        mode=place.mode,
        before=before,
        after=after,
        details=details,
    )


async def record(
    tx: Connection,
    owner: Place | str | None,
    action: str,
    *,
    by: By,
    subject_id: str | None = None,
    mode: Mode | None = None,
    before: Values | None = None,
    after: Values | None = None,
    **details: Any,
) -> None:
    """Append one entry, see `Entry`. `owner` is an organisation, or a place, which also states the mode.

    `subject_id` defaults to the organisation, or to the account of a scope. Nothing is written if `before` and `after`
    are given and equal: nothing changed.
    """
    if isinstance(owner, Scope):
        subject_id = subject_id or owner.account_id
    if owner is not None and not isinstance(owner, str):
        mode, owner = owner.mode, owner.organisation_id
    entry = Entry(
        action=action,
        subject_id=subject_id or owner or "",
        organisation_id=owner,
        mode=mode,
        before=before,
        after=after,
        details=details,
    )
    await record_all(tx, [entry], by=by)


APPEND_ENTRIES = """
INSERT INTO audit_log (id, at, actor, address, organisation_id, mode, action, subject_id, before, after, details)
SELECT id, $2, $3, $4, organisation_id, mode, action, subject_id, before, after, details
FROM jsonb_populate_recordset(NULL::audit_log, $1)
"""


async def record_all(tx: Connection, entries: Sequence[Entry], *, by: By) -> None:
    """Append many entries with few statements."""
    rows = [row for entry in entries if (row := _row(entry)) is not None]
    with progress("Recording the changes", len(rows)) as advance:
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            await tx.execute(APPEND_ENTRIES, json_rows(batch), by.at, str(by.actor), by.actor.address)
            advance(len(batch))


def _row(entry: Entry) -> dict[str, Any] | None:
    """The row to insert, None if nothing changed."""
    before, after = entry.before, entry.after
    if before is not None and after is not None:
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        if not names:
            return None
        before, after = ({name: values.get(name) for name in names} for values in (before, after))
    return {
        "id": new_id("aud"),
        "organisation_id": entry.organisation_id,
        "mode": entry.mode,
        "action": entry.action,
        "subject_id": entry.subject_id,
        "before": before,
        "after": after,
        "details": entry.details,
    }

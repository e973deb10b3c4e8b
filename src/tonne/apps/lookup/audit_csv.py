"""Entries of the audit log as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tonne.apps.lookup.audit_text import AuditRow
from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.platform.events.audit.store import StoredEntry
from tonne.platform.http.route import Response
from tonne.platform.values.context import to_wire

# Entries in one file, the newest.
MAX_EXPORTED = 5_000
_COLUMNS = (
    *("time", "actor", "actor_id", "address", "action", "subject_id", "organisation_id", "mode"),
    *("before", "after", "details", "id"),
)


def audit_csv(rows: Sequence[AuditRow], entries: Iterable[StoredEntry]) -> Response:
    """`rows` and `entries` are the same, in the same order: a row hides what its reader may not see."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for row, entry in zip(rows, entries, strict=True):
        cells = (
            *(to_wire(row.at), row.actor, row.actor_id, row.address, row.action, row.subject_id),
            *(row.organisation_id, row.mode, *map(_json, (entry.before, entry.after, entry.details)), row.id),
        )
        writer.writerow([escape_formula(cell or "") for cell in cells])
    headers = {"Content-Disposition": 'attachment; filename="audit-log.csv"', "Cache-Control": "no-store"}
    return Response(text.getvalue().encode(), media_type=b"text/csv; charset=utf-8", headers=headers)


def _json(values: dict[str, Any] | None) -> str:
    return json.dumps(values, ensure_ascii=False) if values else ""

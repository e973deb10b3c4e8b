"""The audit entries about an order and what belongs to it."""

import json
from collections.abc import Sequence

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_AUDIT_OF_SUBJECTS = """
SELECT at, actor, action, subject_id, before, after, details FROM audit_log
WHERE organisation_id = $1 AND subject_id = ANY ($2::text[]) ORDER BY at, id
"""


async def audit_timeline(connection: Connection, scope: Scope, subject_ids: Sequence[str]) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_AUDIT_OF_SUBJECTS, scope.organisation_id, subject_ids):
        before, after, details = (json.loads(row[name] or "{}") for name in ("before", "after", "details"))
        parts = [f"{name}: {_text(before.get(name))} → {_text(after.get(name))}" for name in {**before, **after}]
        parts += [f"{name}: {_text(value)}" for name, value in details.items() if value not in (None, "")]
        text = f"{row['action']}{': ' if parts else ''}{', '.join(parts)}"
        entry = TimelineEntry(at=row["at"], kind="audit", text=text, actor=row["actor"], subject_id=row["subject_id"])
        entries.append(entry)
    return entries


def _text(value: object) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

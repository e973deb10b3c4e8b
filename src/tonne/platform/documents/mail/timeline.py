"""The mails about an order and what belongs to it."""

from collections.abc import Sequence
from email import message_from_bytes
from email.policy import SMTP

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_MAILS_ABOUT = """
SELECT id, recipients, substring(message FROM 1 FOR 4096) AS head, created_at, sent_at, held_reason, last_error,
       attempts, next_attempt_at, discarded_at
FROM mails WHERE organisation_id = $1 AND subject_id = ANY ($2::text[]) ORDER BY created_at
"""


async def mail_timeline(connection: Connection, scope: Scope, subject_ids: Sequence[str]) -> list[TimelineEntry]:
    rows = await connection.fetch(LIST_MAILS_ABOUT, scope.organisation_id, subject_ids)
    return [entry for row in rows for entry in _entries(row)]


def _entries(row: asyncpg.Record) -> list[TimelineEntry]:
    subject = str(message_from_bytes(row["head"], policy=SMTP)["Subject"] or "")
    named = f"“{subject}” to {', '.join(row['recipients'])}"
    id_ = row["id"]
    queued = f"{named} is held: {row['held_reason']}" if row["held_reason"] else f"{named} queued"
    entries = [TimelineEntry(at=row["created_at"], kind="mail", text=queued, subject_id=id_)]
    if row["sent_at"] is not None:
        entries.append(TimelineEntry(at=row["sent_at"], kind="mail", text=f"{named} sent", subject_id=id_))
    elif row["discarded_at"] is not None:
        entries.append(TimelineEntry(at=row["discarded_at"], kind="mail", text=f"{named} discarded", subject_id=id_))
    elif row["last_error"] and row["next_attempt_at"] is None:
        failed = f"{named} failed after {row['attempts']} attempts: {row['last_error']}"
        entries.append(TimelineEntry(at=row["created_at"], kind="mail", text=failed, subject_id=id_))
    elif row["last_error"]:
        text = f"{named} is tried again. The last attempt failed: {row['last_error']}"
        planned = TimelineEntry(at=row["next_attempt_at"], kind="mail", text=text, subject_id=id_, is_planned=True)
        entries.append(planned)
    return entries

"""The audit log: append-only, written in the transaction that makes the change."""

import json
from datetime import datetime
from typing import Any

from tonne.base.ids import new_id
from tonne.db.pool import Connection

APPEND_ENTRY = """
INSERT INTO audit_log (organisation_id, id, at, actor, action, subject_id, details)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb)
"""


async def record(
    tx: Connection,
    organisation_id: str,
    action: str,
    *,
    actor: str,
    at: datetime,
    subject_id: str | None = None,
    **details: Any,
) -> None:
    """`subject_id` defaults to the organisation. `details` must never hold a secret."""
    subject_id = subject_id or organisation_id
    entry_id = new_id("aud")
    await tx.execute(APPEND_ENTRY, organisation_id, entry_id, at, actor, action, subject_id, json.dumps(details))

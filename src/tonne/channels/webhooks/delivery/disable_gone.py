"""Disable a webhook whose receiver answers with 410, if the webhook asks for that."""

from datetime import datetime
from typing import Any

import structlog

from tonne.channels.webhooks.delivery.alerts import mail_gone
from tonne.channels.webhooks.model import DisabledReason, Lease
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import job_actor

ACTOR = job_actor("deliver_webhooks")

_log = structlog.get_logger()

# The cursor stays where it is: enabling the webhook again sends all events after it.
DISABLE = """
WITH parked AS (UPDATE webhook_parked SET suspended = true WHERE organisation_id = $1 AND webhook_id = $2)
UPDATE webhooks SET enabled = false, disabled_reason = $5, version = version + 1
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND version = $4 AND enabled AND disable_on_gone
RETURNING clock_timestamp()
"""


async def disable_gone(tx: Connection, lease: Lease, settings: Settings) -> bool:
    """Disable the webhook, record it and mail the admins. False if it did not ask for that, or has changed."""
    now: datetime | None = await tx.fetchval(DISABLE, *lease.fence, DisabledReason.GONE)
    if now is None:
        return False
    _log.warning("webhook_gone", webhook_id=lease.id, organisation_id=lease.organisation_id)
    change: dict[str, Any] = {"before": {"enabled": True}, "after": {"enabled": False}, "reason": DisabledReason.GONE}
    await audit.record(tx, lease, "webhook.disabled", actor=ACTOR, at=now, subject_id=lease.id, **change)
    await mail_gone(tx, lease, settings)
    return True

"""Mail to an organisation's admins when a receiver has been failing for a long time, or wants no more events."""

from datetime import datetime
from typing import Any

import structlog

from tonne.channels.webhooks.delivery.outcomes import Retry
from tonne.channels.webhooks.delivery.schedule import ALERT_AFTER
from tonne.channels.webhooks.model import DisabledReason, Lease
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import fact_lines, join_blocks
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.documents.mail.send_mail import compose_mail, is_mail_address
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import job_actor
from tonne.platform.values.language import N_
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.accounts.lookup import find_language

# Disable a webhook whose receiver answers with 410, if the webhook asks for that.

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
    await audit.record(tx, lease, "webhook.disabled", by=ACTOR.at(now), subject_id=lease.id, **change)
    await mail_gone(tx, lease, settings)
    return True


# Finds and counts a due alert in one statement, so that each is sent once.
COUNT_ALERT = """
UPDATE webhooks SET alerts_sent = alerts_sent + 1
WHERE organisation_id = $1 AND id = $2 AND alerts_sent < cardinality($3::interval[])
  AND failing_since + ($3::interval[])[alerts_sent + 1] <= clock_timestamp()
RETURNING failing_since
"""


async def alert_if_due(tx: Connection, lease: Lease, outcome: Retry, settings: Settings) -> None:
    spans = [span * settings.webhook_time_scale for span in ALERT_AFTER]
    since = await tx.fetchval(COUNT_ALERT, lease.organisation_id, lease.id, spans)
    if since is not None:
        problem = N_("Your webhook %(webhook)s (%(mode)s mode) has not accepted events since %(since)s.")
        await _mail_admins(tx, lease, problem, outcome, since=since, settings=settings)


COUNT_PARKED_ALERT = """
UPDATE webhook_parked SET alerts_sent = alerts_sent + 1
WHERE organisation_id = $1 AND webhook_id = $2 AND account_id = $3 AND alerts_sent < cardinality($4::interval[])
  AND parked_at + ($4::interval[])[alerts_sent + 1] <= clock_timestamp()
RETURNING parked_at, (SELECT event.id FROM events event WHERE event.organisation_id = $1 AND event.mode = $5
                      AND event.position = webhook_parked.position) AS event_id
"""


async def alert_parked_if_due(
    tx: Connection, lease: Lease, account_id: str, outcome: Retry, settings: Settings
) -> None:
    spans = [span * settings.webhook_time_scale for span in ALERT_AFTER]
    row = await tx.fetchrow(COUNT_PARKED_ALERT, lease.organisation_id, lease.id, account_id, spans, lease.mode)
    if row is not None:
        problem = N_(
            "Your webhook %(webhook)s (%(mode)s mode) has refused event %(event)s of account %(account)s since"
            " %(since)s."
        )
        details = {"event": row["event_id"], "account": account_id}
        await _mail_admins(tx, lease, problem, outcome, since=row["parked_at"], settings=settings, **details)


async def _mail_admins(
    tx: Connection, lease: Lease, problem: str, outcome: Retry, *, since: datetime, settings: Settings, **details: str
) -> None:
    wording = wording_in(await find_language(tx, lease.organisation_id))
    _ = wording.translate
    facts = [(_("Receiver"), lease.url), (_("Last response"), str(outcome.status or outcome.error))]
    blocks = [
        _(problem, webhook=lease.id, mode=lease.mode, since=wording.minute(since), **details),
        fact_lines(facts),
        _(
            "No event is lost. Tonne keeps them in order and sends them as soon as the receiver returns a 2xx status."
            " It retries at least once an hour."
        ),
        _(
            "GET %(url)s returns the recorded attempts.",
            url=f"{settings.base_url}/v1/webhooks/{lease.id}/attempts",
        ),
    ]
    await _enqueue(
        tx, lease, _("Webhook %(webhook)s is failing", webhook=lease.id), blocks, wording=wording, settings=settings
    )


async def mail_gone(tx: Connection, lease: Lease, settings: Settings) -> None:
    """Tonne has disabled the webhook, because its receiver answered with 410."""
    wording = wording_in(await find_language(tx, lease.organisation_id))
    _ = wording.translate
    blocks = [
        _(
            "The receiver of your webhook %(webhook)s (%(mode)s mode) answered with status 410: it does not want any"
            " more events. Tonne has disabled the webhook.",
            webhook=lease.id,
            mode=lease.mode,
        ),
        fact_lines([(_("Receiver"), lease.url)]),
        _(
            "No event is lost. If you enable the webhook again, Tonne continues with the first event that the receiver"
            " has not accepted. If you do not need it any more, delete it."
        ),
    ]
    await _enqueue(
        tx, lease, _("Webhook %(webhook)s was disabled", webhook=lease.id), blocks, wording=wording, settings=settings
    )


FIND_ADMINS = "SELECT email FROM organisation_admins WHERE organisation_id = $1 ORDER BY email"


async def _enqueue(
    tx: Connection, lease: Lease, subject: str, blocks: list[str], *, wording: LocalWording, settings: Settings
) -> None:
    found = [row["email"] for row in await tx.fetch(FIND_ADMINS, lease.organisation_id)]
    if admins := [email for email in found if is_mail_address(email)]:
        message = compose_mail(settings, admins, subject, join_blocks(blocks), wording=wording)
        await enqueue(tx, lease.organisation_id, admins, message)

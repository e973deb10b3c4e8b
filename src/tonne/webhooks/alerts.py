"""Mail to an organisation's admins when a receiver has been failing for a long time."""

from datetime import UTC, datetime

from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.gateways.mail import compose_mail, is_mail_address
from tonne.gateways.mail_layout import fact_lines
from tonne.gateways.outbox import enqueue
from tonne.receipts.order_mails import in_words
from tonne.webhooks.model import Lease
from tonne.webhooks.outcomes import Retry
from tonne.webhooks.schedule import ALERT_AFTER

# Counts the alert in the same statement, so that each is sent once.
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
        await _mail_admins(tx, lease, f"has not accepted events since {_minute(since)}", outcome, settings)


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
        what = f"has refused event {row['event_id']} of account {account_id} since {_minute(row['parked_at'])}"
        await _mail_admins(tx, lease, what, outcome, settings)


FIND_ADMINS = "SELECT email FROM organisation_admins WHERE organisation_id = $1 ORDER BY email"


async def _mail_admins(tx: Connection, lease: Lease, what: str, outcome: Retry, settings: Settings) -> None:
    found = [row["email"] for row in await tx.fetch(FIND_ADMINS, lease.organisation_id)]
    admins = [email for email in found if is_mail_address(email)]
    if not admins:
        return
    facts = [("Receiver", lease.url), ("Last response", str(outcome.status or outcome.error))]
    text = (
        f"Your webhook {lease.id} ({lease.mode} mode) {what}.\n\n"
        f"{fact_lines(facts)}\n"
        "No event is lost. Tonne keeps them in order and sends them as soon as the receiver returns a 2xx status. It"
        " retries at least once an hour.\n\n"
        f"GET {settings.base_url}/v1/webhooks/{lease.id}/attempts returns the recorded attempts.\n"
    )
    message = compose_mail(settings, admins, f"Webhook {lease.id} is failing", text)
    await enqueue(tx, lease.organisation_id, admins, message)


def _minute(moment: datetime) -> str:
    """`16 November 2026, 09:30 UTC`"""
    return f"{in_words(moment.astimezone(UTC))}, {moment.astimezone(UTC):%H:%M} UTC"

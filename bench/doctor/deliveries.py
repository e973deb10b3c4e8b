"""A webhook for each organisation that has received all events, with the attempts that delivered them."""

from bench.environment import SECRET_KEY, Environment
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import job_actor

BATCH = 100
WEBHOOKS = "SELECT count(*) FROM webhooks"
MOVE_TO_THE_END = """
UPDATE webhooks SET cursor_position = stream.last_position FROM event_streams stream
WHERE stream.organisation_id = webhooks.organisation_id AND stream.mode = webhooks.mode
"""
# Every event was sent in a full batch, right after the last event of the batch.
ATTEMPTS = """
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, acknowledged, duration_ms)
SELECT webhook.organisation_id, webhook.id, 'att_' || lpad(first::text, 26, '0'), event.sequence + interval '20 ms',
       ARRAY(SELECT generate_series(first, event.position)), 200, true, 20
FROM webhooks webhook CROSS JOIN LATERAL generate_series(1, webhook.cursor_position, $1::int) AS first
JOIN events event ON event.organisation_id = webhook.organisation_id AND event.mode = webhook.mode
  AND event.position = least(first + $1::int - 1, webhook.cursor_position)
"""


async def deliver_all(environment: Environment) -> None:
    box = SecretBox.from_settings(Settings(secret_key=SECRET_KEY))
    async with environment.connection() as tx, tx.transaction():
        if not await tx.fetchval(WEBHOOKS):
            for tenant in environment.tenants:
                url = "https://receiver.example/events"
                await register_webhook(tx, tenant.scope, WebhookRequest(url), box=box, by=job_actor("bench").now())
            await tx.execute("UPDATE webhook_scopes SET from_position = 0")
        await tx.execute("DELETE FROM webhook_attempts")
        await tx.execute(MOVE_TO_THE_END)
        await tx.execute(ATTEMPTS, BATCH)

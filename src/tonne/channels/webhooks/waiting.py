"""The queues of deliveries, and what `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime

from tonne.platform.db.queues import MAX_COUNTED, Queue, Topic, WaitingCheck, queue_of
from tonne.platform.keys.secret_box import SecretBox, SecretKeyMissing
from tonne.platform.settings.settings import Settings


def _configured_keys(settings: Settings, _: datetime) -> Sequence[object]:
    try:
        return (list(SecretBox.from_settings(settings).key_ids),)
    except SecretKeyMissing:
        return ([],)


# Webhooks with events that wait, found as workers find them: idle ones cost nothing.
_BEHIND = f"""
    (SELECT id FROM webhooks WHERE due_at IS NOT NULL AND enabled AND deleted_at IS NULL
     UNION
     SELECT webhook.id FROM event_streams stream JOIN webhooks webhook USING (organisation_id, mode)
     WHERE stream.last_sequence > now() - interval '1 minute' AND webhook.enabled
       AND webhook.deleted_at IS NULL AND webhook.cursor_position < stream.last_position
     LIMIT {MAX_COUNTED // 10}) AS candidate
"""  # noqa: S608 - a number


def _events(name: str, webhooks: str) -> Queue:
    """The events that wait for those webhooks which `webhooks` selects; those of parked accounts excepted."""
    return Queue(
        name,
        f"""
        SELECT webhook.mode, sum(stream.last_position - webhook.cursor_position) AS depth, min(next.sequence) AS since,
               min(greatest(next.sequence, webhook.next_attempt_at)) FILTER (WHERE webhook.enabled) AS due
        FROM {webhooks} JOIN event_streams stream USING (organisation_id, mode)
        CROSS JOIN LATERAL (
            SELECT event.sequence FROM events event
            WHERE event.organisation_id = webhook.organisation_id AND event.mode = webhook.mode
              AND event.position > webhook.cursor_position
            ORDER BY event.position LIMIT 1
        ) AS next
        WHERE webhook.deleted_at IS NULL AND webhook.cursor_position < stream.last_position
        GROUP BY webhook.mode
        """,  # noqa: S608 - constants
    )


# Every event that a webhook has not got waits for one of four reasons: for a worker, for a receiver that fails, because
# its account is parked, or because the webhook is disabled.
QUEUES = (
    _events(
        "events",
        f"{_BEHIND} JOIN webhooks webhook ON webhook.id = candidate.id AND webhook.enabled "
        "AND webhook.failing_since IS NULL",
    ),
    _events(
        "events_failing",
        "(SELECT * FROM webhooks "
        "WHERE due_at IS NOT NULL AND failing_since IS NOT NULL AND enabled AND deleted_at IS NULL) AS webhook",
    ),
    Queue(
        "events_parked",
        """
        SELECT webhook.mode, count(*) AS depth, min(coalesce(event.sequence, parked.parked_at)) AS since,
               NULL::timestamptz AS due
        FROM webhook_parked parked JOIN webhooks webhook
          ON webhook.organisation_id = parked.organisation_id AND webhook.id = parked.webhook_id
        LEFT JOIN events event ON event.organisation_id = webhook.organisation_id AND event.mode = webhook.mode
          AND event.position = parked.position
        WHERE webhook.enabled AND webhook.deleted_at IS NULL
        GROUP BY webhook.mode
        """,
    ),
    _events("events_disabled", "(SELECT * FROM webhooks WHERE NOT enabled AND deleted_at IS NULL) AS webhook"),
    queue_of(
        "failing_webhooks",
        "webhooks WHERE due_at IS NOT NULL AND failing_since IS NOT NULL AND enabled AND deleted_at IS NULL",
        since="failing_since",
        due=None,
    ),
    Queue(
        "parked_accounts",
        """
        SELECT webhook.mode, count(*) AS depth, min(parked.parked_at) AS since, min(parked.next_attempt_at) AS due
        FROM webhook_parked parked JOIN webhooks webhook
          ON webhook.organisation_id = parked.organisation_id AND webhook.id = parked.webhook_id
        WHERE webhook.enabled AND webhook.deleted_at IS NULL
        GROUP BY webhook.mode
        """,
    ),
)
WAITING = (
    WaitingCheck(
        "all secret keys of this database are configured",
        "A key is missing in the settings of this command. A server with the same settings does not start.",
        "Add the key to TONNE_SECRET_KEYS_OLD. `tonne secrets status` shows what it is needed for.",
        """
        SELECT format('key %s, recorded at %s', id, to_char(recorded_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM secret_keys WHERE id <> ALL ($1::text[]) ORDER BY recorded_at
        """,
        _configured_keys,
    ),
    WaitingCheck(
        "live webhooks deliver",
        "A receiver has refused all events for an hour or more. They are kept, and sent again with a back-off.",
        "Ask the owner to repair the receiver: `tonne org show` lists the admins of the organisation, who were mailed, "
        "too.",
        """
        SELECT format('webhook %s of organisation %s, since %s: %s failures, last %s', webhook.id,
                      webhook.organisation_id, to_char(webhook.failing_since, 'YYYY-MM-DD HH24:MI'), webhook.failures,
                      coalesce(last.error, last.status::text, 'unknown')) AS "where"
        FROM webhooks webhook
        LEFT JOIN LATERAL (SELECT attempt.error, attempt.status FROM webhook_attempts attempt
                           WHERE attempt.organisation_id = webhook.organisation_id AND attempt.webhook_id = webhook.id
                           ORDER BY attempt.at DESC LIMIT 1) last ON true
        WHERE webhook.mode = 'live' AND webhook.enabled AND webhook.deleted_at IS NULL
          AND webhook.failing_since < $1::timestamptz - interval '1 hour'
        ORDER BY webhook.failing_since
        """,
        topic=Topic.WEBHOOKS,
    ),
    WaitingCheck(
        "no account of a live webhook is parked for an hour",
        "A receiver refuses an event of an account, and accepts those of others. The account's events wait.",
        "Ask the owner to accept or to skip the event: `GET /v1/webhooks/{id}` shows it. `tonne org show` lists the "
        "admins of the organisation.",
        """
        SELECT format('account %s of webhook %s, since %s, at position %s', parked.account_id, parked.webhook_id,
                      to_char(parked.parked_at, 'YYYY-MM-DD HH24:MI'), parked.position) AS "where"
        FROM webhook_parked parked JOIN webhooks webhook
          ON webhook.organisation_id = parked.organisation_id AND webhook.id = parked.webhook_id
        WHERE webhook.mode = 'live' AND webhook.enabled AND webhook.deleted_at IS NULL
          AND parked.parked_at < $1::timestamptz - interval '1 hour'
        ORDER BY parked.parked_at
        """,
        topic=Topic.WEBHOOKS,
    ),
)

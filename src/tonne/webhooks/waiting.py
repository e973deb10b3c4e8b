"""What `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime

from tonne.base.secret_box import SecretBox, SecretKeyMissing
from tonne.base.settings import Settings
from tonne.db.waiting_check import WaitingCheck


def _configured_keys(settings: Settings, _: datetime) -> Sequence[object]:
    try:
        return (list(SecretBox.from_settings(settings).key_ids),)
    except SecretKeyMissing:
        return ([],)


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
    ),
)

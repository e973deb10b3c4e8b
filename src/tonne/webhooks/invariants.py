from tonne.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no webhook cursor skips an event",
        "A receiver did not get an event of its scope: it was neither acknowledged nor skipped, and its account is not "
        "parked.",
        # Old attempts are deleted, so only events younger than the oldest attempt can be checked.
        """
        WITH acknowledged AS (
            SELECT DISTINCT organisation_id, webhook_id, unnest(positions) AS position
            FROM webhook_attempts WHERE acknowledged
        ), oldest AS (
            SELECT organisation_id, webhook_id, min(at) AS at FROM webhook_attempts GROUP BY organisation_id, webhook_id
        )
        SELECT format('webhook %s, event %s at position %s', webhook.id, event.id, event.position) AS "where"
        FROM webhooks webhook
        LEFT JOIN oldest ON (oldest.organisation_id, oldest.webhook_id) = (webhook.organisation_id, webhook.id)
        JOIN events event ON (event.organisation_id, event.mode) = (webhook.organisation_id, webhook.mode)
                         AND event.position <= webhook.cursor_position
        JOIN LATERAL (SELECT account_ids FROM webhook_scopes scope
                      WHERE scope.organisation_id = webhook.organisation_id AND scope.webhook_id = webhook.id
                        AND scope.from_position <= event.position
                      ORDER BY from_position DESC LIMIT 1) scope ON true
        LEFT JOIN acknowledged ON (acknowledged.organisation_id, acknowledged.webhook_id, acknowledged.position)
                                = (webhook.organisation_id, webhook.id, event.position)
        WHERE webhook.deleted_at IS NULL AND acknowledged.position IS NULL
          AND (cardinality(scope.account_ids) = 0 OR event.account_id = ANY (scope.account_ids))
          AND (event.sequence > now() - interval '1 day' OR event.sequence > oldest.at)
          AND NOT EXISTS (SELECT FROM webhook_skips skip
                          WHERE (skip.organisation_id, skip.webhook_id, skip.position)
                              = (webhook.organisation_id, webhook.id, event.position))
          AND NOT EXISTS (SELECT FROM webhook_parked parked
                          WHERE parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id
                            AND parked.account_id = event.account_id AND parked.position <= event.position)
        """,
    ),
    Invariant(
        "no webhook is ahead of its stream",
        "A webhook's cursor is beyond the newest event: it would skip the next ones.",
        """
        SELECT format('webhook %s at %s of %s', webhook.id, webhook.cursor_position, stream.last_position) AS "where"
        FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
        WHERE webhook.cursor_position > stream.last_position
        """,
    ),
)

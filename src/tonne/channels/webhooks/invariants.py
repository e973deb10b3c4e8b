from tonne.channels.webhooks.model import types_of
from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no webhook cursor skips an event",
        "A receiver did not get an event of its scope: it was neither acknowledged nor skipped, and its account is not "
        "parked.",
        # Old attempts are deleted, so only events younger than the oldest attempt can be checked. The positions of an
        # attempt are in ascending order; mostly they have no gap, and make one range.
        f"""
        WITH acknowledged AS MATERIALIZED (
            SELECT organisation_id, webhook_id, range_agg(int8range(first, last, '[]')) AS positions
            FROM (SELECT organisation_id, webhook_id, positions[1] AS first, positions[cardinality(positions)] AS last
                  FROM webhook_attempts
                  WHERE acknowledged AND positions[cardinality(positions)] - positions[1] + 1 = cardinality(positions)
                  UNION ALL
                  SELECT organisation_id, webhook_id, each, each FROM webhook_attempts, unnest(positions) AS each
                  WHERE acknowledged AND positions[cardinality(positions)] - positions[1] + 1 <> cardinality(positions)
            ) batch GROUP BY organisation_id, webhook_id
        ), oldest AS MATERIALIZED (
            SELECT organisation_id, webhook_id, min(at) AS at FROM webhook_attempts GROUP BY organisation_id, webhook_id
        ), scope AS MATERIALIZED (
            SELECT organisation_id, webhook_id, account_ids, event_types, from_position,
                   lead(from_position) OVER (PARTITION BY organisation_id, webhook_id ORDER BY from_position)
                       AS next_position
            FROM webhook_scopes
        )
        SELECT format('webhook %s, event %s at position %s', webhook.id, event.id, event.position) AS "where"
        FROM webhooks webhook
        JOIN scope ON (scope.organisation_id, scope.webhook_id) = (webhook.organisation_id, webhook.id)
        LEFT JOIN oldest ON (oldest.organisation_id, oldest.webhook_id) = (webhook.organisation_id, webhook.id)
        LEFT JOIN acknowledged
          ON (acknowledged.organisation_id, acknowledged.webhook_id) = (webhook.organisation_id, webhook.id)
        JOIN events event ON (event.organisation_id, event.mode) = (webhook.organisation_id, webhook.mode)
                         AND event.position BETWEEN scope.from_position AND webhook.cursor_position
                         AND (scope.next_position IS NULL OR event.position < scope.next_position)
        WHERE webhook.deleted_at IS NULL AND (acknowledged.positions @> event.position) IS NOT TRUE
          AND ($1::timestamptz IS NULL OR event.sequence >= $1)
          AND (cardinality(scope.account_ids) = 0 OR event.account_id = ANY (scope.account_ids))
          AND event.event_type = ANY ({types_of("scope")})
          AND (event.sequence > now() - interval '1 day' OR event.sequence > oldest.at)
          AND NOT EXISTS (SELECT FROM webhook_skips skip
                          WHERE (skip.organisation_id, skip.webhook_id, skip.position)
                              = (webhook.organisation_id, webhook.id, event.position))
          AND NOT EXISTS (SELECT FROM webhook_parked parked
                          WHERE parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id
                            AND parked.account_id = event.account_id AND parked.position <= event.position)
        """,  # noqa: S608 - only the expression above is inserted
    ),
    Invariant(
        "no webhook waits for removed events",
        "Events were removed before a receiver got them.",
        """
        SELECT format('webhook %s at %s, events up to %s were removed', webhook.id,
                      least(webhook.cursor_position, parked.position - 1), stream.floor_position) AS "where"
        FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
        LEFT JOIN webhook_parked parked
          ON parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id
        WHERE webhook.deleted_at IS NULL
          AND least(webhook.cursor_position, parked.position - 1) < stream.floor_position
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
    Invariant(
        "streams record the types of events that webhooks name",
        "Events that a webhook names are not recorded, or events are recorded that no webhook names.",
        """
        SELECT format('stream of %s in %s mode records %s, webhooks name %s', stream.organisation_id, stream.mode,
                      stream.recorded_types, named.types) AS "where"
        FROM event_streams stream CROSS JOIN LATERAL (
            SELECT ARRAY (SELECT DISTINCT type FROM webhooks webhook CROSS JOIN unnest(webhook.event_types) AS type
                          WHERE webhook.organisation_id = stream.organisation_id AND webhook.mode = stream.mode
                            AND webhook.deleted_at IS NULL) AS types
        ) AS named
        WHERE NOT (stream.recorded_types @> named.types AND stream.recorded_types <@ named.types)
        """,
    ),
)

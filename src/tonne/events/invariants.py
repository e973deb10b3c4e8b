from tonne.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "stream positions are 1 to n without a gap",
        "An event is missing from its stream, or was written without its counter: receivers would miss it.",
        """
        SELECT format('organisation %s, %s mode: counter %s, highest position %s, %s events',
                      stream.organisation_id, stream.mode, stream.last_position, coalesce(max(event.position), 0),
                      count(event.position)) AS "where"
        FROM event_streams stream
        LEFT JOIN events event USING (organisation_id, mode)
        GROUP BY stream.organisation_id, stream.mode, stream.last_position
        HAVING stream.last_position <> coalesce(max(event.position), 0) OR stream.last_position <> count(event.position)
        """,
    ),
    Invariant(
        "every event belongs to a stream",
        "An event has no stream, so it would never be delivered.",
        """
        SELECT format('event %s of organisation %s', event.id, event.organisation_id) AS "where"
        FROM events event
        WHERE NOT EXISTS (SELECT FROM event_streams stream
                          WHERE (stream.organisation_id, stream.mode) = (event.organisation_id, event.mode))
        """,
    ),
    Invariant(
        "sequences increase strictly within an account",
        "Two events of an account are not in order: receivers that compare sequences would drop one.",
        """
        SELECT format('account %s at position %s', account_id, position) AS "where"
        FROM (SELECT account_id, position, sequence,
                     lag(sequence) OVER (PARTITION BY organisation_id, mode, account_id ORDER BY position) AS before
              FROM events) numbered
        WHERE sequence <= before
        """,
    ),
)

from tonne.platform.db.invariant import Invariant, SharedScan

# One row per stream; number 0 has the events without a stream. A number and a position make one key, which is sorted
# several times faster than the columns of the stream. Keys are compared across partitions, which no constraint does.
# Sequences that increase within a stream increase within its accounts: only other streams are examined by account.
# Events up to the floor of a stream were removed.
_STREAMS = SharedScan("""
    stream AS MATERIALIZED (
        SELECT organisation_id, mode, floor_position, last_position, last_sequence, row_number() OVER () AS number
        FROM event_streams
    ), held AS MATERIALIZED (
        SELECT key >> 40 AS number, count(*) AS events, min(key) & 1099511627775 AS first_position,
               max(key) & 1099511627775 AS last_position,
               bool_and(key = key_before + 1 OR key >> 40 <> key_before >> 40) AS is_gapless,
               bool_or(sequence <= sequence_before AND key >> 40 = key_before >> 40) AS is_unordered
        FROM (SELECT key, sequence, lag(key) OVER keys AS key_before, lag(sequence) OVER keys AS sequence_before
              FROM (SELECT (coalesce(stream.number, 0) << 40) + event.position AS key, event.sequence
                    FROM events event LEFT JOIN stream USING (organisation_id, mode)
                    WHERE ($1::timestamptz IS NULL OR event.sequence >= $1)
                      AND event.position > coalesce(stream.floor_position, 0) OFFSET 0) each
              WINDOW keys AS (ORDER BY key)) numbered
        GROUP BY key >> 40
    )
""")

INVARIANTS = (
    Invariant(
        "stream positions have no gap",
        "An event is missing from its stream, or was written twice or without its counter: receivers would miss it, or "
        "get it twice.",
        """
        SELECT format('organisation %s, %s mode: counter %s, %s events at the positions %s to %s',
                      stream.organisation_id, stream.mode, stream.last_position, coalesce(held.events, 0),
                      coalesce(held.first_position, 0), coalesce(held.last_position, 0)) AS "where"
        FROM stream LEFT JOIN held USING (number)
        WHERE held.last_position <> stream.last_position OR NOT held.is_gapless
           OR $1::timestamptz IS NULL AND held.first_position <> stream.floor_position + 1
           OR ($1 IS NULL OR stream.last_sequence >= $1)
              AND (held.events IS NULL) <> (stream.last_position = stream.floor_position)
        """,
        _STREAMS,
    ),
    Invariant(
        "no two events have the same id",
        "An event was written twice, into two partitions: receivers would take the second for a repetition.",
        # Ids are unique within a partition, and those of two partitions hardly overlap.
        """
        WITH part AS MATERIALIZED (
            SELECT tableoid AS partition, min(id) AS first, max(id) AS last FROM events GROUP BY tableoid
        ), common AS MATERIALIZED (
            SELECT one.partition, min(greatest(one.first, other.first)) AS first,
                   max(least(one.last, other.last)) AS last
            FROM part one JOIN part other ON one.partition <> other.partition AND one.first <= other.last
                                         AND other.first <= one.last
            GROUP BY one.partition
        )
        SELECT format('event %s of organisation %s', event.id, event.organisation_id) AS "where"
        FROM common JOIN events event ON event.tableoid = common.partition
                                     AND event.id BETWEEN common.first AND common.last
        GROUP BY event.organisation_id, event.mode, event.id HAVING count(*) > 1
        """,
    ),
    Invariant(
        "every event belongs to a stream",
        "An event has no stream, so it would never be delivered.",
        """
        SELECT format('event %s of organisation %s', event.id, event.organisation_id) AS "where"
        FROM events event
        WHERE EXISTS (SELECT FROM held WHERE held.number = 0)
          AND NOT EXISTS (SELECT FROM stream
                          WHERE (stream.organisation_id, stream.mode) = (event.organisation_id, event.mode))
        """,
        _STREAMS,
    ),
    Invariant(
        "sequences increase strictly within an account",
        "Two events of an account are not in order: receivers that compare sequences would drop one.",
        """
        SELECT format('account %s at position %s', account_id, position) AS "where"
        FROM (SELECT event.account_id, event.position, event.sequence,
                     lag(event.sequence) OVER (PARTITION BY event.organisation_id, event.mode, event.account_id
                                               ORDER BY event.position) AS before
              FROM held JOIN stream USING (number) JOIN events event USING (organisation_id, mode)
              WHERE held.is_unordered) numbered
        WHERE sequence <= before
        """,
        _STREAMS,
    ),
)

"""What `tonne doctor` warns of."""

from tonne.platform.db.queues import WaitingCheck

WAITING = (
    WaitingCheck(
        "erasures of persons are finished within an hour",
        "An erasure was interrupted, so a part of the person's data is still there.",
        "Repeat the request, or run `tonne person erase` again for the same person.",
        """
        SELECT format('erasure %s by %s, started at %s by %s', id, found_by,
                      to_char(started_at, 'YYYY-MM-DD HH24:MI'), started_by) AS "where"
        FROM erasures WHERE finished_at IS NULL AND started_at < $1::timestamptz - interval '1 hour'
        ORDER BY started_at
        """,
    ),
)

"""The queue of API keys that are about to expire, and what `tonne doctor` warns of."""

from tonne.platform.db.queues import Queue, Topic, WaitingCheck, queue_of

# In use, and not rotated. A key that a rotation has replaced may expire.
_EXPIRING = """
revoked_at IS NULL AND replaced_by IS NULL AND last_used_at > {now} - interval '7 days'
AND expires_at > {now} AND expires_at < {now} + interval '3 days'
"""

QUEUES: tuple[Queue, ...] = (
    queue_of(
        "expiring_keys",
        f"api_keys WHERE {_EXPIRING.format(now='now()')}",
        since="expires_at - interval '3 days'",
        due=None,
    ),
)
WAITING = (
    WaitingCheck(
        "live API keys in use are replaced three days before they expire",
        "A customer's program uses an API key that expires soon. Then its requests get 401.",
        "Ask the customer to rotate the key, or run `tonne key rotate`.",
        f"""
        SELECT format('key %s of organisation %s, account %s: used at %s, expires at %s', id, organisation_id,
                      default_account_id, to_char(last_used_at, 'YYYY-MM-DD HH24:MI'),
                      to_char(expires_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM api_keys WHERE mode = 'live' AND {_EXPIRING.format(now="$1::timestamptz")} ORDER BY expires_at, id
        """,  # noqa: S608 - the constant above
        topic=Topic.SERVICE,
    ),
)

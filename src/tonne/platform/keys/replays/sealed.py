"""The sealed responses to requests with an idempotency key."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="response to a request",
    action="idempotent_response.resealed",
    list_in_use="""
    SELECT id, response_box AS sealed FROM idempotent_responses WHERE response_box IS NOT NULL
    ORDER BY id LIMIT $1
    """,
    count="""
    SELECT substring(response_box FROM 1 FOR $1) AS header, count(*) AS count
    FROM idempotent_responses WHERE response_box IS NOT NULL GROUP BY 1
    """,
    lock_others="""
    SELECT organisation_id, owner_id, mode, route, key_digest, id, response_box AS sealed FROM idempotent_responses
    WHERE id > $1 AND response_box IS NOT NULL AND substring(response_box FROM 1 FOR $3) <> $2::bytea
    ORDER BY id LIMIT $4 FOR UPDATE
    """,
    update="""
    UPDATE idempotent_responses SET response_box = $5
    WHERE owner_id = $1 AND mode = $2 AND route = $3 AND key_digest = $4
    """,
    key=("owner_id", "mode", "route", "key_digest"),
)

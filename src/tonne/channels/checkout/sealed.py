"""The sealed tokens of checkouts that the API created."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="checkout",
    action="checkout.token_resealed",
    list_in_use="""
    SELECT id, token_box AS sealed FROM checkouts
    WHERE token_box IS NOT NULL AND status <> 'closed'
    ORDER BY id LIMIT $1
    """,
    count="""
    SELECT substring(token_box FROM 1 FOR $1) AS header, count(*) AS count
    FROM checkouts WHERE token_box IS NOT NULL GROUP BY 1
    """,
    lock_others="""
    SELECT organisation_id, mode, account_id, id, token_box AS sealed FROM checkouts
    WHERE id > $1 AND token_box IS NOT NULL AND substring(token_box FROM 1 FOR $3) <> $2::bytea
    ORDER BY id LIMIT $4 FOR UPDATE
    """,
    update="UPDATE checkouts SET token_box = $3 WHERE account_id = $1 AND id = $2",
    key=("account_id", "id"),
)

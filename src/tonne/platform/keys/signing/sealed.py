"""The sealed private keys with which the operator signs."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="signing key",
    action="signing_key.resealed",
    list_in_use="""
    SELECT id, private_box AS sealed FROM signing_keys
    WHERE private_box IS NOT NULL AND retired_at IS NULL
    ORDER BY id LIMIT $1
    """,
    count="""
    SELECT substring(private_box FROM 1 FOR $1) AS header, count(*) AS count
    FROM signing_keys WHERE private_box IS NOT NULL GROUP BY 1
    """,
    lock_others="""
    SELECT id, private_box AS sealed FROM signing_keys
    WHERE id > $1 AND private_box IS NOT NULL AND substring(private_box FROM 1 FOR $3) <> $2::bytea
    ORDER BY id LIMIT $4 FOR NO KEY UPDATE
    """,
    update="UPDATE signing_keys SET private_box = $2 WHERE id = $1",
)

"""The sealed secrets of authenticator apps."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="authenticator app of user",
    action="user.secret_resealed",
    list_in_use="""
    SELECT id, totp_box AS sealed FROM users
    WHERE totp_box IS NOT NULL
    ORDER BY id LIMIT $1
    """,
    count="""
    SELECT substring(totp_box FROM 1 FOR $1) AS header, count(*) AS count
    FROM users WHERE totp_box IS NOT NULL GROUP BY 1
    """,
    lock_others="""
    SELECT id, totp_box AS sealed FROM users
    WHERE id > $1 AND totp_box IS NOT NULL AND substring(totp_box FROM 1 FOR $3) <> $2::bytea
    ORDER BY id LIMIT $4 FOR NO KEY UPDATE
    """,
    update="UPDATE users SET totp_box = $2 WHERE id = $1",
)

"""The sealed secrets with which offset links verify signed queries."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="offset link",
    action="offset_link.secret_resealed",
    list_in_use="""
    SELECT organisation_id, id, secret_box AS sealed FROM offset_links WHERE secret_box IS NOT NULL
    UNION ALL
    SELECT organisation_id, id, old_secret_box FROM offset_links
    WHERE old_secret_box IS NOT NULL AND old_secret_until > clock_timestamp()
    ORDER BY id LIMIT $1
    """,
    count="""
    SELECT substring(sealed FROM 1 FOR $1) AS header, count(*) AS count
    FROM (SELECT secret_box FROM offset_links UNION ALL SELECT old_secret_box FROM offset_links) AS secrets (sealed)
    WHERE sealed IS NOT NULL GROUP BY 1
    """,
    # An older secret that has expired is removed.
    lock_others="""
    SELECT organisation_id, mode, account_id, id, secret_box AS sealed,
           ARRAY[CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END] AS old
    FROM offset_links
    WHERE id > $1
      AND (substring(secret_box FROM 1 FOR $3) <> $2::bytea OR substring(old_secret_box FROM 1 FOR $3) <> $2::bytea)
    ORDER BY id LIMIT $4 FOR UPDATE
    """,
    update="""
    UPDATE offset_links SET secret_box = $3, old_secret_box = $4,
                       old_secret_until = CASE WHEN $4::bytea IS NOT NULL THEN old_secret_until END
    WHERE account_id = $1 AND id = $2
    """,
    key=("account_id", "id"),
)

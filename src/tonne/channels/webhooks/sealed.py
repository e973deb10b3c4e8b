"""The sealed signing secrets of webhooks. Deleted webhooks keep theirs, but nothing uses it."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="webhook",
    action="webhook.secret_resealed",
    list_in_use="""
    SELECT organisation_id, id, secret_box AS sealed FROM webhooks WHERE deleted_at IS NULL
    UNION ALL
    SELECT organisation_id, id, old_secret_box FROM webhooks
    WHERE deleted_at IS NULL AND old_secret_box IS NOT NULL AND old_secret_until > clock_timestamp()
    UNION ALL
    SELECT organisation_id, id, older_secret_box FROM webhooks
    WHERE deleted_at IS NULL AND older_secret_box IS NOT NULL AND older_secret_until > clock_timestamp()
    ORDER BY id LIMIT $1
    """,
    count="""
    SELECT substring(sealed FROM 1 FOR $1) AS header, count(*) AS count
    FROM (SELECT secret_box FROM webhooks UNION ALL SELECT old_secret_box FROM webhooks
          UNION ALL SELECT older_secret_box FROM webhooks) AS secrets (sealed)
    WHERE sealed IS NOT NULL GROUP BY 1
    """,
    # An older secret that has expired is removed.
    lock_others="""
    SELECT organisation_id, mode, id, secret_box AS sealed,
           ARRAY[CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END,
                 CASE WHEN older_secret_until > clock_timestamp() THEN older_secret_box END] AS old
    FROM webhooks
    WHERE id > $1
      AND (substring(secret_box FROM 1 FOR $3) <> $2::bytea OR substring(old_secret_box FROM 1 FOR $3) <> $2::bytea
           OR substring(older_secret_box FROM 1 FOR $3) <> $2::bytea)
    ORDER BY id LIMIT $4 FOR UPDATE
    """,
    update="""
    UPDATE webhooks SET secret_box = $3, old_secret_box = $4, older_secret_box = $5,
                       old_secret_until = CASE WHEN $4::bytea IS NOT NULL THEN old_secret_until END,
                       older_secret_until = CASE WHEN $5::bytea IS NOT NULL THEN older_secret_until END
    WHERE organisation_id = $1 AND id = $2
    """,
    key=("organisation_id", "id"),
)

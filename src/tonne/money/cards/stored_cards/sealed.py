"""The sealed tokens of the links to the pages of cards."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="card page of account",
    action="card.link_resealed",
    list_in_use="""
    SELECT account_id AS id, token_box AS sealed FROM card_links
    WHERE token_box IS NOT NULL
    ORDER BY account_id LIMIT $1
    """,
    count="""
    SELECT substring(token_box FROM 1 FOR $1) AS header, count(*) AS count
    FROM card_links WHERE token_box IS NOT NULL GROUP BY 1
    """,
    lock_others="""
    SELECT organisation_id, mode, account_id AS id, token_box AS sealed FROM card_links
    WHERE account_id > $1 AND token_box IS NOT NULL AND substring(token_box FROM 1 FOR $3) <> $2::bytea
    ORDER BY account_id LIMIT $4 FOR UPDATE
    """,
    update="UPDATE card_links SET token_box = $2 WHERE account_id = $1",
)

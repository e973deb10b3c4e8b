"""SQL of sealed secrets and of the keys that they are sealed with, across all organisations.

Offset links have sealed secrets too. `checkout` seals them; here they are counted and checked, so that no key is
removed that they need.
"""

from collections.abc import Sequence

import asyncpg

from tonne.platform.db.pool import Connection
from tonne.platform.keys.secret_box import HEADER_BYTES, PREFIX

LOCK_KEYS = "SELECT pg_advisory_xact_lock(hashtext('tonne secret keys'))"


async def lock_keys(tx: Connection) -> None:
    """Serialises processes that start with different keys, and commands that change the recorded keys."""
    await tx.execute(LOCK_KEYS)


LIST_KEYS = "SELECT id FROM secret_keys ORDER BY id"


async def list_key_ids(connection: Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch(LIST_KEYS)]


RECORD_KEY = "INSERT INTO secret_keys (id) VALUES ($1) ON CONFLICT (id) DO NOTHING"


async def record_key(tx: Connection, key_id: str) -> None:
    await tx.execute(RECORD_KEY, key_id)


FORGET_KEYS = "DELETE FROM secret_keys WHERE NOT (id = ANY ($1)) RETURNING id"


async def forget_keys_except(tx: Connection, kept: Sequence[str]) -> list[str]:
    """The ids of the keys that were removed."""
    return sorted(row["id"] for row in await tx.fetch(FORGET_KEYS, list(kept)))


# Only values in use: of webhooks that are not deleted, of checkouts that are not closed, and old secrets within their
# overlap.
LIST_SECRETS = """
SELECT 'webhook' AS owner, id, secret_box AS sealed FROM webhooks WHERE deleted_at IS NULL
UNION ALL
SELECT 'webhook', id, old_secret_box FROM webhooks
WHERE deleted_at IS NULL AND old_secret_box IS NOT NULL AND old_secret_until > clock_timestamp()
UNION ALL
SELECT 'offset link', id, secret_box FROM offset_links WHERE secret_box IS NOT NULL
UNION ALL
SELECT 'offset link', id, old_secret_box FROM offset_links
WHERE old_secret_box IS NOT NULL AND old_secret_until > clock_timestamp()
UNION ALL
SELECT 'checkout', id, token_box FROM checkouts WHERE token_box IS NOT NULL AND status <> 'closed'
UNION ALL
SELECT 'page of order', order_id, token_box FROM order_links
UNION ALL
SELECT 'card page of account', account_id, token_box FROM card_links WHERE token_box IS NOT NULL
UNION ALL
SELECT 'authenticator app of user', id, totp_box FROM users WHERE totp_box IS NOT NULL
UNION ALL
SELECT 'signing key', id, private_box FROM signing_keys WHERE private_box IS NOT NULL AND retired_at IS NULL
ORDER BY id LIMIT $1
"""


async def list_secrets_any_account(connection: Connection, limit: int | None = None) -> Sequence[asyncpg.Record]:
    """The sealed secrets in use, each with the kind and id of its owner: a webhook, an offset link or a checkout."""
    return await connection.fetch(LIST_SECRETS, limit)


COUNT_SECRETS = """
SELECT CASE WHEN substring(sealed FROM 1 FOR $2) = $1::bytea
            THEN encode(substring(sealed FROM $2 + 1 FOR $3 - $2), 'hex') ELSE '' END AS key_id, count(*) AS count
FROM (SELECT secret_box FROM webhooks UNION ALL SELECT old_secret_box FROM webhooks UNION ALL
      SELECT secret_box FROM offset_links UNION ALL SELECT old_secret_box FROM offset_links UNION ALL
      SELECT token_box FROM checkouts UNION ALL SELECT token_box FROM order_links UNION ALL
      SELECT token_box FROM card_links UNION ALL SELECT totp_box FROM users UNION ALL
      SELECT private_box FROM signing_keys) AS secrets (sealed)
WHERE sealed IS NOT NULL GROUP BY 1
"""


async def count_secrets_any_account(connection: Connection) -> dict[str, int]:
    """How many values are sealed with each key, by its id. Values without the id of a key are counted under ''."""
    rows = await connection.fetch(COUNT_SECRETS, PREFIX, len(PREFIX), HEADER_BYTES)
    return {row["key_id"]: row["count"] for row in rows}


# Deleted webhooks too: afterwards, nothing in the database needs an old key.
LOCK_OTHERS = """
SELECT organisation_id, id, mode, secret_box,
       CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END AS old
FROM webhooks
WHERE (organisation_id, id) > ($1, $2)
  AND (substring(secret_box FROM 1 FOR $4) <> $3::bytea OR substring(old_secret_box FROM 1 FOR $4) <> $3::bytea)
ORDER BY organisation_id, id LIMIT $5 FOR UPDATE
"""


async def lock_sealed_otherwise_any_account(
    tx: Connection, after: tuple[str, str], header: bytes, limit: int
) -> Sequence[asyncpg.Record]:
    """The next webhooks with a value that does not start with `header`, locked. `old` is null once it has expired."""
    return await tx.fetch(LOCK_OTHERS, *after, header, HEADER_BYTES, limit)


REPLACE_SECRETS = """
UPDATE webhooks SET secret_box = $3, old_secret_box = $4, old_secret_until = CASE WHEN $4::bytea IS NULL THEN NULL
                                                                                     ELSE old_secret_until END
WHERE organisation_id = $1 AND id = $2
"""


async def replace_sealed(
    tx: Connection, organisation_id: str, webhook_id: str, sealed: bytes, old_sealed: bytes | None
) -> None:
    await tx.execute(REPLACE_SECRETS, organisation_id, webhook_id, sealed, old_sealed)


LIST_ORGANISATIONS = """
SELECT organisation_id FROM webhooks WHERE deleted_at IS NULL
UNION
SELECT organisation_id FROM offset_links WHERE secret_box IS NOT NULL ORDER BY organisation_id
"""


async def list_organisations_any_account(connection: Connection) -> list[str]:
    """The organisations that have sealed secrets."""
    return [row["organisation_id"] for row in await connection.fetch(LIST_ORGANISATIONS)]

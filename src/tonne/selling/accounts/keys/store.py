"""SQL for API keys."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.platform.db.database import Connection, optional, parameters_of
from tonne.platform.http.authenticator import KeyHolder
from tonne.platform.http.permissions import granted
from tonne.platform.values.context import Mode, Scope, Tenant
from tonne.platform.values.paging import Position
from tonne.selling.accounts.keys.restrictions import KeyRestrictions, KeyRight
from tonne.selling.accounts.model import AccountKind, ApiKey

INSERT_KEY = """
INSERT INTO api_keys (secret_hash, organisation_id, mode, default_account_id, id, name, last_four, created_at, rights,
                      monthly_limit_minor, created_by, limit_key_id, permissions, account_ids, networks, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
"""


async def insert_key(tx: Connection, key: ApiKey, secret_hash: bytes) -> None:
    scope = "organisation_id, mode, account_id"
    own = "id, name, last_four, created_at, rights, monthly_limit_minor, created_by, limit_key_id"
    restrictions = "permissions, account_ids, networks, expires_at"
    values = (
        *parameters_of(key.scope, scope),
        *parameters_of(key, own),
        *parameters_of(key.restrictions, restrictions),
    )
    await tx.execute(INSERT_KEY, secret_hash, *values)


FIND_VALID_KEY = """
SELECT key.id, key.organisation_id, key.default_account_id, key.mode, key.rights, key.permissions, key.account_ids,
       key.networks, account.closed_at IS NOT NULL OR organisation.closed_at IS NOT NULL AS is_closed
FROM api_keys key
JOIN accounts account ON account.organisation_id = key.organisation_id AND account.id = key.default_account_id
JOIN organisations organisation ON organisation.id = key.organisation_id
WHERE key.secret_hash = $1 AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > $2)
"""


async def find_valid_key(connection: Connection, secret_hash: bytes, now: datetime) -> KeyHolder | None:
    row = await connection.fetchrow(FIND_VALID_KEY, secret_hash, now)
    if row is None:
        return None
    scope = Scope(row["organisation_id"], row["default_account_id"], Mode(row["mode"]))
    accounts, permissions = row["account_ids"], row["permissions"]
    return KeyHolder(
        row["id"],
        scope,
        row["is_closed"],
        permissions=granted(None if permissions is None else tuple(permissions), tuple(row["rights"])),
        accounts=None if accounts is None else frozenset(accounts),
        networks=tuple(row["networks"]),
    )


_KEY = """
id, organisation_id, default_account_id, mode, name, last_four, created_at, last_used_at, revoked_at,
monthly_limit_minor, rights, permissions, account_ids, networks, expires_at, created_by, replaced_by, limit_key_id,
(SELECT account.currency FROM accounts account
 WHERE account.organisation_id = api_keys.organisation_id AND account.id = api_keys.default_account_id) AS currency
"""
LIST_KEYS = f"SELECT {_KEY} FROM api_keys WHERE organisation_id = $1 ORDER BY created_at, id"  # noqa: S608 - columns above


async def list_keys(connection: Connection, organisation_id: str) -> list[ApiKey]:
    return [_api_key(row) for row in await connection.fetch(LIST_KEYS, organisation_id)]


LIST_MODE_KEYS = f"""
SELECT {_KEY} FROM api_keys WHERE organisation_id = $1 AND mode = $2 AND (created_at, id) < ($3, $4)
ORDER BY created_at DESC, id DESC LIMIT $5
"""  # noqa: S608 - columns above


async def list_mode_keys(connection: Connection, tenant: Tenant, start: Position, limit: int) -> list[ApiKey]:
    """Newest first."""
    rows = await connection.fetch(LIST_MODE_KEYS, *tenant, start.created_at, start.id, limit)
    return [_api_key(row) for row in rows]


FIND_KEY = f"SELECT {_KEY} FROM api_keys WHERE organisation_id = $1 AND mode = $2 AND id = $3"  # noqa: S608 - columns above


async def find_key(connection: Connection, tenant: Tenant, key_id: str) -> ApiKey | None:
    return optional(_api_key, await connection.fetchrow(FIND_KEY, *tenant, key_id))


LOCK_KEY_ROW = f"""
SELECT {_KEY} FROM api_keys WHERE organisation_id = $1 AND mode = $2 AND id = $3 FOR NO KEY UPDATE OF api_keys
"""  # noqa: S608 - columns above


async def lock_key(tx: Connection, tenant: Tenant, key_id: str) -> ApiKey | None:
    return optional(_api_key, await tx.fetchrow(LOCK_KEY_ROW, *tenant, key_id))


FIND_TENANT_OF_KEY = "SELECT organisation_id, mode FROM api_keys WHERE id = $1"


async def find_tenant_of_key_any_account(connection: Connection, key_id: str) -> Tenant | None:
    """The organisation and mode of a key."""
    row = await connection.fetchrow(FIND_TENANT_OF_KEY, key_id)
    return None if row is None else Tenant(row["organisation_id"], Mode(row["mode"]))


COUNT_KEYS = """
SELECT count(*) FROM api_keys
WHERE organisation_id = $1 AND mode = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)
"""


async def count_working_keys(connection: Connection, tenant: Tenant, now: datetime) -> int:
    return int(await connection.fetchval(COUNT_KEYS, *tenant, now))


FIND_KEY_KIND = """
SELECT account.kind FROM api_keys
JOIN accounts account ON account.organisation_id = api_keys.organisation_id AND account.id = default_account_id
WHERE api_keys.organisation_id = $1 AND api_keys.id = $2
"""


async def find_key_kind(connection: Connection, organisation_id: str, key_id: str) -> AccountKind | None:
    """The kind of the key's own account, which is not always the account that a request acts for."""
    kind = await connection.fetchval(FIND_KEY_KIND, organisation_id, key_id)
    return None if kind is None else AccountKind(kind)


FIND_KEY_RIGHTS = "SELECT rights FROM api_keys WHERE organisation_id = $1 AND id = $2 AND revoked_at IS NULL"


async def find_key_rights(connection: Connection, organisation_id: str, key_id: str) -> list[KeyRight]:
    """Read with every request that needs a right: a revoked key must not keep it in a cache."""
    return list(map(KeyRight, await connection.fetchval(FIND_KEY_RIGHTS, organisation_id, key_id) or []))


COUNT_ACCOUNTS = "SELECT count(*) FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = ANY($3)"


async def count_accounts(connection: Connection, tenant: Tenant, ids: Sequence[str]) -> int:
    """How many of these accounts exist."""
    return int(await connection.fetchval(COUNT_ACCOUNTS, *tenant, ids))


LIST_ACCOUNT_NAMES = "SELECT id, name FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = ANY($3)"


async def list_account_names(connection: Connection, tenant: Tenant, ids: Sequence[str]) -> list[tuple[str, str]]:
    rows = await connection.fetch(LIST_ACCOUNT_NAMES, *tenant, ids)
    return [(row["id"], row["name"]) for row in rows]


LIST_FIRST_ACCOUNTS = """
SELECT id, name FROM accounts WHERE organisation_id = $1 AND mode = $2 AND closed_at IS NULL
ORDER BY kind = 'client_account', created_at, id LIMIT $3
"""


async def list_first_accounts(connection: Connection, tenant: Tenant, limit: int) -> list[tuple[str, str]]:
    """Ids and names of open accounts, the organisation's own first."""
    rows = await connection.fetch(LIST_FIRST_ACCOUNTS, *tenant, limit)
    return [(row["id"], row["name"]) for row in rows]


SET_KEY_REVOKED = "UPDATE api_keys SET revoked_at = $3 WHERE organisation_id = $1 AND id = $2"


async def set_key_revoked(tx: Connection, key: ApiKey, revoked_at: datetime) -> None:
    await tx.execute(SET_KEY_REVOKED, key.scope.organisation_id, key.id, revoked_at)


SET_KEY_REPLACED = "UPDATE api_keys SET replaced_by = $3, expires_at = $4 WHERE organisation_id = $1 AND id = $2"


async def set_key_replaced(tx: Connection, key: ApiKey, replaced_by: str, expires_at: datetime) -> None:
    await tx.execute(SET_KEY_REPLACED, key.scope.organisation_id, key.id, replaced_by, expires_at)


NOTE_USES = """
UPDATE api_keys SET last_used_at = greatest(last_used_at, used.at)
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS used (organisation_id, id, at)
WHERE api_keys.organisation_id = used.organisation_id AND api_keys.id = used.id
"""


async def note_uses(connection: Connection, uses: Sequence[tuple[str, str, datetime]]) -> None:
    """The rows are sorted so that processes lock them in the same order: otherwise they could deadlock."""
    organisations, ids, moments = zip(*sorted(uses), strict=True)
    await connection.execute(NOTE_USES, organisations, ids, moments)


def _api_key(row: asyncpg.Record) -> ApiKey:
    values = dict(row)
    scope = Scope(values.pop("organisation_id"), values.pop("default_account_id"), Mode(values.pop("mode")))
    permissions, accounts = values.pop("permissions"), values.pop("account_ids")
    restrictions = KeyRestrictions(
        None if permissions is None else tuple(permissions),
        None if accounts is None else tuple(accounts),
        tuple(values.pop("networks")),
        values.pop("expires_at"),
    )
    rights = tuple(map(KeyRight, values.pop("rights")))
    return ApiKey(scope=scope, rights=rights, restrictions=restrictions, **values)

"""SQL for offset links."""

import json
from typing import Any

import asyncpg
from msgspec.structs import asdict

from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.db.database import Connection, parameters_of, scope_of, value_of
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import Position

_SETTINGS = """title, message, bundle_selection, preset_quantity_grams, preset_value_minor, amount_editable,
       min_quantity_grams, max_quantity_grams, min_value_minor, max_value_minor, redirect_url, redirect_label, enabled,
       expires_at, beneficiary, language"""
_COLUMNS = f"organisation_id, mode, account_id, id, created_at, {_SETTINGS}"
_SETTING_NAMES = [name.strip() for name in _SETTINGS.split(",")]
_KEY = "scope.organisation_id, scope.mode, scope.account_id, id"
INSERT_LINK = f"""
INSERT INTO offset_links (organisation_id, mode, account_id, id, {_SETTINGS}, created_at, secret_box)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
"""  # noqa: S608 - columns above


async def insert_link(tx: Connection, link: OffsetLink, sealed_secret: bytes) -> None:
    await tx.execute(INSERT_LINK, *parameters_of(link, _KEY), *_settings(link), link.created_at, sealed_secret)


UPDATE_LINK = f"""
UPDATE offset_links SET ({_SETTINGS})
     = ($5, $6, $7::jsonb, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4
"""  # noqa: S608 - columns above


async def update_link(tx: Connection, link: OffsetLink) -> None:
    scope = link.scope
    await tx.execute(UPDATE_LINK, scope.organisation_id, scope.mode, scope.account_id, link.id, *_settings(link))


FIND_LINK = f"""
SELECT {_COLUMNS}
FROM offset_links WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4
"""  # noqa: S608 - columns above


async def find_link(connection: Connection, scope: Scope, link_id: str) -> OffsetLink | None:
    row = await connection.fetchrow(FIND_LINK, scope.organisation_id, scope.mode, scope.account_id, link_id)
    return None if row is None else _link(row)


LOCK_LINK = f"""
SELECT {_COLUMNS}
FROM offset_links WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4 FOR UPDATE
"""  # noqa: S608 - columns above


async def lock_link(tx: Connection, scope: Scope, link_id: str) -> OffsetLink | None:
    row = await tx.fetchrow(LOCK_LINK, scope.organisation_id, scope.mode, scope.account_id, link_id)
    return None if row is None else _link(row)


FIND_LINK_BY_ID = f"""
SELECT {_COLUMNS}
FROM offset_links WHERE id = $1
"""  # noqa: S608 - columns above


async def find_link_any_account(connection: Connection, link_id: str) -> OffsetLink | None:
    """For the public page and the operator, who know only the id."""
    row = await connection.fetchrow(FIND_LINK_BY_ID, link_id)
    return None if row is None else _link(row)


LIST_LINKS = f"""
SELECT {_COLUMNS}
FROM offset_links
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND (created_at, id) < ($4, $5)
ORDER BY created_at DESC, id DESC LIMIT $6
"""  # noqa: S608 - columns above


async def list_links(connection: Connection, scope: Scope, start: Position, limit: int) -> list[OffsetLink]:
    rows = await connection.fetch(
        LIST_LINKS, scope.organisation_id, scope.mode, scope.account_id, start.created_at, start.id, limit
    )
    return [_link(row) for row in rows]


def _settings(link: OffsetLink) -> list[Any]:
    """The values of INSERT_LINK and UPDATE_LINK, from $5 on."""
    values = {**asdict(link), "bundle_selection": link.bundle_selection and json.dumps(link.bundle_selection)}
    return [values[name] for name in _SETTING_NAMES]


def _link(row: asyncpg.Record) -> OffsetLink:
    selection = row["bundle_selection"]
    return value_of(OffsetLink, row, scope=scope_of(row), bundle_selection=selection and json.loads(selection))

"""SQL for Sustainability pages: settings and slugs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from tonne.channels.public_pages.model import PageSection, SustainabilityPage
from tonne.platform.db.database import Connection, parameters_of, scope_of, value_of
from tonne.platform.values.context import Mode, Scope

SHOWS_CERTIFICATES = """
SELECT page.enabled AND 'certificates' = ANY (page.sections) AND account.external_pages_visibility <> 'private'
FROM sustainability_pages page JOIN accounts account ON account.id = page.account_id
WHERE page.organisation_id = $1 AND page.mode = $2 AND page.account_id = $3
"""


async def shows_certificates(connection: Connection, scope: Scope) -> bool:
    """Whether the account publishes its certificates."""
    return await connection.fetchval(SHOWS_CERTIFICATES, scope.organisation_id, scope.mode, scope.account_id) is True


_PAGE = """page.organisation_id, page.mode, page.account_id, page.slug, page.enabled, page.title, page.description,
       page.sections, page.updated_at, page.title_format, page.description_format,
       account.logo_version, account.language, account.external_pages_visibility AS visibility"""
FIND_PAGE = f"""
SELECT {_PAGE}
FROM sustainability_pages page JOIN accounts account ON account.id = page.account_id
WHERE page.organisation_id = $1 AND page.mode = $2 AND page.account_id = $3
"""  # noqa: S608 - columns above


async def find_page(connection: Connection, scope: Scope) -> SustainabilityPage | None:
    row = await connection.fetchrow(FIND_PAGE, scope.organisation_id, scope.mode, scope.account_id)
    return None if row is None else _page(row)


class PageOwner(NamedTuple):
    account_name: str
    organisation_name: str
    beneficiary: str
    logo_version: str | None
    currency: str


FIND_OWNER = """
SELECT account.name AS account_name, organisation.name AS organisation_name, account.beneficiary, account.logo_version,
       account.currency
FROM accounts account JOIN organisations organisation ON organisation.id = account.organisation_id
WHERE account.organisation_id = $1 AND account.mode = $2 AND account.id = $3
"""


async def find_owner(connection: Connection, scope: Scope) -> PageOwner:
    row = await connection.fetchrow(FIND_OWNER, scope.organisation_id, scope.mode, scope.account_id)
    if row is None:
        raise LookupError(f"no account {scope.account_id}")
    return PageOwner(**row)


FIND_TAKEN = "SELECT slug FROM sustainability_slugs WHERE mode = $1 AND slug = ANY ($2)"


async def find_taken(connection: Connection, scope: Scope, slugs: Sequence[str]) -> set[str]:
    """Those of `slugs` that any account of this mode has or had."""
    return {row["slug"] for row in await connection.fetch(FIND_TAKEN, scope.mode, slugs)}


TAKE_SLUG = """
INSERT INTO sustainability_slugs (mode, slug, account_id, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (mode, slug) DO NOTHING
"""
OWNS_SLUG = "SELECT account_id = $3 FROM sustainability_slugs WHERE mode = $1 AND slug = $2"


async def take_slug(tx: Connection, scope: Scope, slug: str, now: datetime) -> bool:
    """Whether the account now owns the slug. A concurrent transaction that takes the same slug waits here."""
    await tx.execute(TAKE_SLUG, scope.mode, slug, scope.account_id, now)
    return await tx.fetchval(OWNS_SLUG, scope.mode, slug, scope.account_id) is True


COUNT_SLUGS = "SELECT count(*) FROM sustainability_slugs WHERE account_id = $1"


async def count_slugs(tx: Connection, scope: Scope) -> int:
    count: int = await tx.fetchval(COUNT_SLUGS, scope.account_id)
    return count


SAVE_PAGE = """
INSERT INTO sustainability_pages (account_id, organisation_id, mode, slug, enabled, title, description, sections,
                                  title_format, description_format, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (account_id) DO UPDATE SET slug = excluded.slug, enabled = excluded.enabled, title = excluded.title,
    description = excluded.description, sections = excluded.sections, updated_at = excluded.updated_at,
    title_format = excluded.title_format, description_format = excluded.description_format
"""


async def save_page(tx: Connection, scope: Scope, page: SustainabilityPage, now: datetime) -> None:
    """Saves everything but the logo."""
    shown = parameters_of(page, "slug, enabled, title, description, sections, title_format, description_format")
    await tx.execute(SAVE_PAGE, scope.account_id, scope.organisation_id, scope.mode, *shown, now)


FIND_BY_SLUG = f"""
SELECT {_PAGE}
FROM sustainability_pages page JOIN accounts account ON account.id = page.account_id
WHERE page.enabled AND account.external_pages_visibility <> 'private'
  AND page.account_id = (SELECT account_id FROM sustainability_slugs WHERE mode = $1 AND slug = $2)
"""  # noqa: S608 - columns above


async def find_enabled_any_account(connection: Connection, mode: Mode, slug: str) -> SustainabilityPage | None:
    """The enabled page that has this slug, or had it before it was renamed."""
    row = await connection.fetchrow(FIND_BY_SLUG, mode, slug)
    return None if row is None else _page(row)


FIND_BY_HANDLE = f"""
SELECT {_PAGE}
FROM sustainability_pages page JOIN accounts account ON account.id = page.account_id
WHERE page.enabled AND account.external_pages_visibility <> 'private'
  AND account.organisation_id = $1 AND account.mode = $2 AND lower(account.handle) = lower($3)
"""  # noqa: S608 - columns above


async def find_by_handle_any_account(
    connection: Connection, organisation_id: str, mode: Mode, handle: str
) -> SustainabilityPage | None:
    """The enabled page of the account that has this handle."""
    row = await connection.fetchrow(FIND_BY_HANDLE, organisation_id, mode, handle)
    return None if row is None else _page(row)


def _page(row: asyncpg.Record) -> SustainabilityPage:
    sections = tuple(each for each in PageSection if each in row["sections"])
    return value_of(SustainabilityPage, row, scope=scope_of(row), sections=sections)

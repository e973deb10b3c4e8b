"""SQL for Sustainability pages: settings, slugs and figures."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

import asyncpg

from tonne.base.paging import Position
from tonne.base.scope import Mode, Scope
from tonne.db.pool import Connection
from tonne.sustainability.model import Logo, PageSection, SustainabilityPage

SHOWS_CERTIFICATES = """
SELECT enabled AND 'certificates' = ANY (sections) FROM sustainability_pages
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3
"""


async def shows_certificates(connection: Connection, scope: Scope) -> bool:
    """Whether the account publishes its certificates."""
    return await connection.fetchval(SHOWS_CERTIFICATES, scope.organisation_id, scope.mode, scope.account_id) is True


_PAGE = """organisation_id, mode, account_id, slug, enabled, title, description, sections, updated_at,
       left(encode(sha256(logo), 'hex'), 12) AS logo_version"""
FIND_PAGE = f"""
SELECT {_PAGE}
FROM sustainability_pages WHERE organisation_id = $1 AND mode = $2 AND account_id = $3
"""  # noqa: S608 - columns above


async def find_page(connection: Connection, scope: Scope) -> SustainabilityPage | None:
    row = await connection.fetchrow(FIND_PAGE, scope.organisation_id, scope.mode, scope.account_id)
    return None if row is None else _page(row)


class PageOwner(NamedTuple):
    account_name: str
    organisation_name: str
    beneficiary: str


FIND_OWNER = """
SELECT account.name AS account_name, organisation.name AS organisation_name, account.beneficiary
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
                                  updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (account_id) DO UPDATE SET slug = excluded.slug, enabled = excluded.enabled, title = excluded.title,
    description = excluded.description, sections = excluded.sections, updated_at = excluded.updated_at
"""


async def save_page(tx: Connection, scope: Scope, page: SustainabilityPage, now: datetime) -> None:
    """Saves everything but the logo."""
    await tx.execute(
        SAVE_PAGE,
        *(scope.account_id, scope.organisation_id, scope.mode, page.slug, page.enabled, page.title),
        *(page.description, list(page.sections), now),
    )


SAVE_LOGO = "UPDATE sustainability_pages SET logo = $2, logo_media_type = $3 WHERE account_id = $1"


async def save_logo(tx: Connection, scope: Scope, logo: Logo | None) -> None:
    content, media_type = (None, None) if logo is None else (logo.content, logo.media_type)
    await tx.execute(SAVE_LOGO, scope.account_id, content, media_type)


FIND_BY_SLUG = f"""
SELECT {_PAGE}
FROM sustainability_pages
WHERE enabled AND account_id = (SELECT account_id FROM sustainability_slugs WHERE mode = $1 AND slug = $2)
"""  # noqa: S608 - columns above


async def find_enabled_any_account(connection: Connection, mode: Mode, slug: str) -> SustainabilityPage | None:
    """The enabled page that has this slug, or had it before it was renamed."""
    row = await connection.fetchrow(FIND_BY_SLUG, mode, slug)
    return None if row is None else _page(row)


FIND_LOGO = "SELECT logo_media_type, logo FROM sustainability_pages WHERE account_id = $1 AND logo IS NOT NULL"


async def find_logo(connection: Connection, scope: Scope) -> Logo | None:
    row = await connection.fetchrow(FIND_LOGO, scope.account_id)
    return None if row is None else Logo(row["logo_media_type"], row["logo"])


class Retired(NamedTuple):
    """The total retired in a month, from a bundle or for a project: exactly one of the three is set."""

    month: date | None
    bundle_id: str | None
    project_id: str | None
    name: str
    project_type: str
    grams: int


# Bundles and projects that have left the catalogue keep the name they had in their latest month.
SUM_RETIRED = """
SELECT month, bundle_id, project_id,
       (CASE WHEN grouping(project_id) = 0 THEN array_agg(project_name ORDER BY month DESC)
             ELSE array_agg(bundle_name ORDER BY month DESC) END)[1] AS name,
       (array_agg(project_type ORDER BY month DESC))[1] AS project_type, sum(grams)::bigint AS grams
FROM retired_totals WHERE account_id = $1
GROUP BY GROUPING SETS ((month), (bundle_id), (project_id))
ORDER BY month, sum(grams) DESC, bundle_id, project_id
"""


async def sum_retired(connection: Connection, scope: Scope) -> list[Retired]:
    """Months in order, then bundles and projects, each with the largest first."""
    return [Retired(**row) for row in await connection.fetch(SUM_RETIRED, scope.account_id)]


LIST_CERTIFICATES = """
SELECT number, issued_at, record FROM certificates
WHERE account_id = $1 AND (issued_at, number) < ($2, $3) AND state = 'valid' AND is_public
ORDER BY issued_at DESC, number DESC LIMIT $4
"""


async def list_certificates(
    connection: Connection, scope: Scope, start: Position, limit: int
) -> list[tuple[Position, bytes]]:
    """The valid ones that name nobody in private, newest first, each with its record."""
    rows = await connection.fetch(LIST_CERTIFICATES, scope.account_id, start.created_at, start.id, limit)
    return [(Position(row["issued_at"], row["number"]), row["record"]) for row in rows]


def _page(row: asyncpg.Record) -> SustainabilityPage:
    values = dict(row)
    scope = Scope(values.pop("organisation_id"), values.pop("account_id"), Mode(values.pop("mode")))
    stored = values.pop("sections")
    return SustainabilityPage(scope=scope, sections=tuple(each for each in PageSection if each in stored), **values)

"""SQL that reads the catalogue."""

import json
from collections.abc import Iterable
from typing import Any

import asyncpg

from tonne.base.mass import MAX_GRAMS
from tonne.base.scope import Mode
from tonne.catalog.model import Bundle, BundleProject, Catalogue, ExchangeRate, Project
from tonne.db.pool import Connection

FIND_VERSION = "SELECT version FROM catalogues WHERE mode = $1"


async def find_version(connection: Connection, mode: Mode) -> int | None:
    version: int | None = await connection.fetchval(FIND_VERSION, mode)
    return version


LOAD_CATALOGUE = "SELECT currency, version, default_bundle_selection FROM catalogues WHERE mode = $1"
LOAD_PROJECTS = """
SELECT id, registry, registry_project_id, name, slug, country, type, methodology, mechanism, description, image,
       registry_url, created_at
FROM projects WHERE mode = $1
"""
LOAD_BUNDLES = """
SELECT id, slug, name, description, primary_image, unit_price_minor, enabled, created_at FROM bundles WHERE mode = $1
ORDER BY position, slug
"""
LOAD_MEMBERS = """
SELECT bundle_id, project_id, weight FROM bundle_projects WHERE mode = $1 ORDER BY bundle_id, position
"""


async def load_catalogue(tx: Connection, mode: Mode, base_url: str) -> Catalogue | None:
    """The catalogue of one mode; None before the first import. Call it in a snapshot for a consistent result."""
    head = await tx.fetchrow(LOAD_CATALOGUE, mode)
    if head is None:
        return None
    projects = {row["id"]: _project(row, base_url) for row in await tx.fetch(LOAD_PROJECTS, mode)}
    free = await load_free_grams_any_account(tx, mode, projects)
    members: dict[str, list[BundleProject]] = {}
    for row in await tx.fetch(LOAD_MEMBERS, mode):
        project_id = row["project_id"]
        member = BundleProject(projects[project_id], row["weight"], free.get(project_id, 0))
        members.setdefault(row["bundle_id"], []).append(member)
    bundles = {
        row["id"]: _bundle(row, tuple(members.get(row["id"], ())), base_url)
        for row in await tx.fetch(LOAD_BUNDLES, mode)
    }
    rates = await load_rates(tx, mode, head["currency"])
    selection: list[dict[str, Any]] | None = json.loads(head["default_bundle_selection"] or "null")
    return Catalogue(mode, head["currency"], head["version"], selection, projects, bundles, rates)


LOAD_RATES = """
SELECT DISTINCT ON (quote) base, quote, rate, source, as_of FROM exchange_rates
WHERE mode = $1 AND base = $2 AND as_of <= now() ORDER BY quote, as_of DESC
"""


async def load_rates(tx: Connection, mode: Mode, currency: str) -> dict[str, ExchangeRate]:
    """The newest rates that are not in the future, by target currency."""
    return {row["quote"]: ExchangeRate(**row) for row in await tx.fetch(LOAD_RATES, mode, currency)}


LOAD_FREE = """
SELECT lots.project_id, greatest(0, lots.grams - coalesce(holds.grams, 0))::bigint AS free_grams
FROM (SELECT project_id, sum(quantity_grams - allocated_grams) AS grams FROM lots WHERE mode = $1 GROUP BY project_id)
     AS lots
LEFT JOIN (SELECT project_id, sum(reserved_grams) AS grams FROM supply_holds WHERE mode = $1 GROUP BY project_id)
     AS holds USING (project_id)
"""


async def load_free_grams_any_account(connection: Connection, mode: Mode, projects: Iterable[str]) -> dict[str, int]:
    """Grams that are neither allocated nor held, by project. `retirements` owns these tables.

    Test supply does not run out: every project has enough for the largest order.
    """
    if mode is Mode.TEST:
        return dict.fromkeys(projects, MAX_GRAMS)
    return {row["project_id"]: row["free_grams"] for row in await connection.fetch(LOAD_FREE, mode)}


def _absolute(image: str | None, base_url: str) -> str | None:
    return base_url + image if image and image.startswith("/") else image


def _project(row: asyncpg.Record, base_url: str) -> Project:
    return Project(**{**row, "image": _absolute(row["image"], base_url)})


def _bundle(row: asyncpg.Record, members: tuple[BundleProject, ...], base_url: str) -> Bundle:
    return Bundle(**{**row, "primary_image": _absolute(row["primary_image"], base_url)}, projects=members)

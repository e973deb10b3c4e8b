"""SQL that reads the catalogue."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg
import msgspec
from msgspec import structs

from tonne.platform.db.database import Connection, optional
from tonne.platform.values.amounts import MAX_GRAMS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.details import BundleDetails, ProjectDetails
from tonne.selling.catalogue.model import Bundle, BundleProject, Catalogue, ExchangeRate, Project, VintageSupply
from tonne.selling.catalogue.pictures.model import PictureSize
from tonne.selling.catalogue.pictures.pictures import CARD, WIDE, imported_url

T = TypeVar("T", bound=msgspec.Struct)

FIND_VERSION = "SELECT version FROM catalogues WHERE mode = $1"


async def find_version(connection: Connection, mode: Mode) -> int | None:
    return optional(int, await connection.fetchval(FIND_VERSION, mode))


LOAD_CATALOGUE = "SELECT currency, version, default_bundle_selection FROM catalogues WHERE mode = $1"
LOAD_PROJECTS = """
SELECT id, registry, registry_project_id, name, slug, country, type, methodology, mechanism, description, image,
       registry_url, created_at, picture, details
FROM projects WHERE mode = $1
"""
LOAD_BUNDLES = """
SELECT id, slug, name, description, primary_image, unit_price_minor, enabled, created_at, picture, details, disabled_at
FROM bundles WHERE mode = $1 ORDER BY position, slug
"""
LOAD_MEMBERS = """
SELECT bundle_id, project_id, weight FROM bundle_projects WHERE mode = $1 ORDER BY bundle_id, position
"""


async def load_catalogue(
    tx: Connection, mode: Mode, base_url: str, vintages: dict[str, list[VintageSupply]] | None = None
) -> Catalogue | None:
    """The catalogue of one mode; None before the first import. Call it in a snapshot for a consistent result.

    `vintages` is free supply. Without it, live bundles have none.
    """
    vintages = vintages or {}
    head = await tx.fetchrow(LOAD_CATALOGUE, mode)
    if head is None:
        return None
    projects = {row["id"]: _project(row, base_url) for row in await tx.fetch(LOAD_PROJECTS, mode)}
    free = supply_of(mode, projects, vintages)
    members: dict[str, list[BundleProject]] = {}
    for row in await tx.fetch(LOAD_MEMBERS, mode):
        project_id = row["project_id"]
        member = BundleProject(projects[project_id], row["weight"], *free.get(project_id, (0, 0)))
        members.setdefault(row["bundle_id"], []).append(member)
    bundles = {
        row["id"]: _bundle(row, tuple(members.get(row["id"], ())), base_url)
        for row in await tx.fetch(LOAD_BUNDLES, mode)
    }
    rates = await load_rates(tx, mode, head["currency"])
    selection: list[dict[str, Any]] | None = json.loads(head["default_bundle_selection"] or "null")
    return Catalogue(mode, head["currency"], head["version"], selection, projects, bundles, rates, vintages=vintages)


LOAD_RATES = """
SELECT DISTINCT ON (quote) base, quote, rate, source, as_of FROM exchange_rates
WHERE mode = $1 AND base = $2 AND as_of <= now() ORDER BY quote, as_of DESC
"""


async def load_rates(tx: Connection, mode: Mode, currency: str) -> dict[str, ExchangeRate]:
    """The newest rates that are not in the future, by target currency."""
    return {row["quote"]: ExchangeRate(**row) for row in await tx.fetch(LOAD_RATES, mode, currency)}


def supply_of(
    mode: Mode, projects: Iterable[str], vintages: Mapping[str, Sequence[VintageSupply]]
) -> dict[str, tuple[int, int]]:
    """Free and pending grams. Test supply does not run out: every project has enough for the largest order."""
    if mode is Mode.TEST:
        return dict.fromkeys(projects, (MAX_GRAMS, 0))
    return {
        project_id: (sum(each.free_grams for each in supplies), sum(each.pending_grams for each in supplies))
        for project_id, supplies in vintages.items()
    }


def _image(named: str | None, picture: str | None, base_url: str, size: PictureSize = WIDE) -> str | None:
    """For the API: the URL in the imported file, or else the imported picture."""
    return _absolute(imported_url(picture, size) if picture and not named else named, base_url)


def _absolute(url: str | None, base_url: str) -> str | None:
    return base_url + url if url and url.startswith("/") else url


def _with_absolute(entries: list[T] | None, field: str, base_url: str) -> list[T] | None:
    return entries and [structs.replace(each, **{field: _absolute(getattr(each, field), base_url)}) for each in entries]


def _project(row: asyncpg.Record, base_url: str) -> Project:
    named, picture = row["image"], row["picture"]
    details = msgspec.json.decode(row["details"], type=ProjectDetails)
    return Project(
        **{
            **row,
            "image": _image(named, picture, base_url),
            "thumbnail": _image(named, picture, base_url, CARD),
            "details": structs.replace(
                details,
                logo=_absolute(details.logo, base_url),
                media=_with_absolute(details.media, "url", base_url),
                impact_summary=_with_absolute(details.impact_summary, "image_url", base_url),
                datasets=_with_absolute(details.datasets, "thumbnail_url", base_url),
                links=_with_absolute(details.links, "favicon_url", base_url),
            ),
        }
    )


def _bundle(row: asyncpg.Record, members: tuple[BundleProject, ...], base_url: str) -> Bundle:
    named, picture = row["primary_image"], row["picture"]
    return Bundle(
        **{
            **row,
            "primary_image": _image(named, picture, base_url),
            "thumbnail": _image(named, picture, base_url, CARD),
            "details": msgspec.json.decode(row["details"], type=BundleDetails),
        },
        projects=members,
    )

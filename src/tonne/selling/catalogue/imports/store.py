"""SQL of the catalogue import."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from tonne.platform.db.database import Connection, json_rows
from tonne.platform.db.session_settings import lift_limits
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.details import BundleDetails, ProjectDetails
from tonne.selling.catalogue.imports.plan import BundleProjectRow, BundleRow, DefaultRow, ExchangeRateRow
from tonne.selling.catalogue.imports.project_rows import ProjectRow
from tonne.selling.catalogue.imports.rate_changes import KnownRate

# Any number that no other lock uses. Both modes share it, because serial numbers are unique across modes.
_LOCK = 7_405_610_215
Ids = Mapping[tuple[Any, ...], str]

ACQUIRE_LOCK = "SELECT pg_advisory_xact_lock($1)"


async def acquire_import_lock(tx: Connection) -> None:
    """Wait for other changes to a catalogue, and block new ones until this transaction ends.

    The usual timeouts are for requests: an import may wait for another one, and may take long to validate its files.
    """
    await lift_limits(tx)
    await tx.execute(ACQUIRE_LOCK, _LOCK)


class StoredChoice(msgspec.Struct, omit_defaults=True):
    """An element of a stored default selection."""

    bundle_id: str
    percentage: str | None = None


class CatalogueHead(msgspec.Struct, frozen=True):
    """`version` is None before the first import."""

    mode: Mode
    currency: str
    version: int | None
    default_selection: list[StoredChoice]


FIND_CATALOGUE = "SELECT currency, version, default_bundle_selection FROM catalogues WHERE mode = $1"


async def find_catalogue(tx: Connection, mode: Mode) -> CatalogueHead | None:
    row = await tx.fetchrow(FIND_CATALOGUE, mode)
    if row is None:
        return None
    selection = msgspec.json.decode(row["default_bundle_selection"] or "[]", type=list[StoredChoice])
    return CatalogueHead(mode, row["currency"], row["version"], selection)


# At version 0: the import that creates it raises it to 1.
CREATE_CATALOGUE = "INSERT INTO catalogues (mode, currency, version) VALUES ($1, $2, 0)"


async def create_catalogue(tx: Connection, mode: Mode, currency: str) -> None:
    await tx.execute(CREATE_CATALOGUE, mode, currency)


RAISE_VERSION = "UPDATE catalogues SET version = version + 1 WHERE mode = $1 RETURNING version"


async def raise_version(tx: Connection, mode: Mode) -> int:
    version: int = await tx.fetchval(RAISE_VERSION, mode)
    return version


SAVE_DEFAULTS = "UPDATE catalogues SET default_bundle_selection = $2 WHERE mode = $1"


async def save_defaults(tx: Connection, mode: Mode, rows: Iterable[DefaultRow], bundle_ids: Ids) -> None:
    selection = [StoredChoice(bundle_ids[(row.bundle_slug,)], row.percentage) for row in rows]
    await tx.execute(SAVE_DEFAULTS, mode, msgspec.json.encode(selection).decode())


READ_PROJECTS = """
SELECT id, registry, registry_project_id, name, slug, country, type, methodology, mechanism, granularity_grams,
       description, image, registry_url, details
FROM projects WHERE mode = $1
"""


async def read_projects(tx: Connection, mode: Mode) -> dict[str, ProjectRow]:
    """By id."""
    rows = [dict(row) for row in await tx.fetch(READ_PROJECTS, mode)]
    return {row.pop("id"): ProjectRow(**_fields_of(row.pop("details"), ProjectDetails), **row) for row in rows}


SAVE_PROJECTS = """
INSERT INTO projects (mode, id, registry, registry_project_id, name, slug, country, type, methodology, mechanism,
                      granularity_grams, description, image, registry_url, details, created_at)
SELECT $1, id, registry, registry_project_id, name, slug, country, type, methodology, mechanism, granularity_grams,
       description, image, registry_url, details, $2
FROM jsonb_populate_recordset(NULL::projects, $3)
ON CONFLICT (mode, registry, registry_project_id) DO UPDATE SET
    name = excluded.name, slug = excluded.slug, country = excluded.country, type = excluded.type,
    methodology = excluded.methodology, mechanism = excluded.mechanism, granularity_grams = excluded.granularity_grams,
    description = excluded.description, image = excluded.image, registry_url = excluded.registry_url,
    details = excluded.details
"""


async def save_projects(tx: Connection, mode: Mode, rows: Iterable[ProjectRow], ids: Ids, now: datetime) -> None:
    projects = ({**asdict(row), "id": ids[row.key], "details": _details_of(row, ProjectDetails)} for row in rows)
    await tx.execute(SAVE_PROJECTS, mode, now, json_rows(projects))


READ_BUNDLES = """
SELECT id, slug, name, description, primary_image, unit_price_minor, enabled, position, details
FROM bundles WHERE mode = $1
"""


async def read_bundles(tx: Connection, mode: Mode, currency: str) -> dict[str, BundleRow]:
    """By id."""
    rows = [dict(row) for row in await tx.fetch(READ_BUNDLES, mode)]
    digits = DECIMALS[currency]
    return {
        row.pop("id"): BundleRow(
            unit_price=Decimal(row.pop("unit_price_minor")).scaleb(-digits),
            **_fields_of(row.pop("details"), BundleDetails),
            **row,
        )
        for row in rows
    }


SAVE_BUNDLES = """
INSERT INTO bundles (mode, id, slug, name, description, primary_image, unit_price_minor, enabled, position, details,
                     created_at)
SELECT $1, id, slug, name, description, primary_image, unit_price_minor, enabled, position, details, $2
FROM jsonb_populate_recordset(NULL::bundles, $3)
ON CONFLICT (mode, slug) DO UPDATE SET
    name = excluded.name, description = excluded.description, primary_image = excluded.primary_image,
    unit_price_minor = excluded.unit_price_minor, enabled = excluded.enabled, position = excluded.position,
    details = excluded.details,
    disabled_at = CASE WHEN excluded.enabled THEN NULL WHEN bundles.enabled THEN $2 ELSE bundles.disabled_at END
"""


async def save_bundles(tx: Connection, head: CatalogueHead, rows: Iterable[BundleRow], ids: Ids, now: datetime) -> None:
    digits = DECIMALS[head.currency]
    bundles = (
        {
            **asdict(row),
            "id": ids[row.key],
            "unit_price_minor": int(row.unit_price.scaleb(digits)),
            "details": _details_of(row, BundleDetails),
        }
        for row in rows
    )
    await tx.execute(SAVE_BUNDLES, head.mode, now, json_rows(bundles))


Details = TypeVar("Details", ProjectDetails, BundleDetails)


def _details_of(row: ProjectRow | BundleRow, kind: type[Details]) -> Details:
    return kind(**{name: getattr(row, name) for name in kind.__struct_fields__})


def _fields_of(details: str, kind: type[Details]) -> dict[str, Any]:
    return structs.asdict(msgspec.json.decode(details, type=kind))


READ_BUNDLE_PROJECTS = """
SELECT bundles.slug AS bundle_slug, projects.registry, projects.registry_project_id, weight, bundle_projects.position
FROM bundle_projects
JOIN bundles ON bundles.mode = bundle_projects.mode AND bundles.id = bundle_id
JOIN projects ON projects.mode = bundle_projects.mode AND projects.id = project_id
WHERE bundle_projects.mode = $1 AND bundles.slug = ANY ($2)
"""


async def read_bundle_projects(tx: Connection, mode: Mode, bundle_slugs: Collection[str]) -> list[BundleProjectRow]:
    return [BundleProjectRow(**row) for row in await tx.fetch(READ_BUNDLE_PROJECTS, mode, bundle_slugs)]


# Otherwise orders would make up for the past of a new project, or of one with a new weight, before they follow the
# weights. Sorted to prevent deadlocks with workers.
RESTART_WEIGHTS = """
UPDATE bundle_projects SET drawn_grams = 0
WHERE (mode, bundle_id, project_id) IN (
    SELECT mode, bundle_id, project_id FROM bundle_projects WHERE mode = $1 AND bundle_id = ANY ($2::text[])
    ORDER BY bundle_id, project_id FOR UPDATE)
"""
REMOVE_BUNDLE_PROJECTS = """
DELETE FROM bundle_projects USING jsonb_populate_recordset(NULL::bundle_projects, $2) AS old
WHERE bundle_projects.mode = $1 AND bundle_projects.bundle_id = old.bundle_id
  AND bundle_projects.project_id = old.project_id
"""
SAVE_BUNDLE_PROJECTS = """
INSERT INTO bundle_projects (mode, bundle_id, project_id, weight, position)
SELECT $1, bundle_id, project_id, weight, position FROM jsonb_populate_recordset(NULL::bundle_projects, $2)
ON CONFLICT (mode, bundle_id, project_id) DO UPDATE SET weight = excluded.weight, position = excluded.position
"""


async def save_bundle_projects(
    tx: Connection,
    mode: Mode,
    rows: Collection[BundleProjectRow],
    removed: Collection[BundleProjectRow],
    *,
    bundle_ids: Ids,
    project_ids: Ids,
) -> None:
    await tx.execute(RESTART_WEIGHTS, mode, [bundle_ids[(row.bundle_slug,)] for row in (*rows, *removed)])
    for statement, changed in ((REMOVE_BUNDLE_PROJECTS, removed), (SAVE_BUNDLE_PROJECTS, rows)):
        records = (
            {**asdict(row), "bundle_id": bundle_ids[(row.bundle_slug,)], "project_id": project_ids[row.project_key]}
            for row in changed
        )
        await tx.execute(statement, mode, json_rows(records))


READ_EXCHANGE_RATES = """
SELECT base, quote, rate, source, as_of
FROM exchange_rates JOIN unnest($2::text[], $3::text[], $4::timestamptz[]) AS named (base, quote, as_of)
    USING (base, quote, as_of)
WHERE mode = $1
"""


async def read_exchange_rates(tx: Connection, mode: Mode, rows: list[ExchangeRateRow]) -> list[ExchangeRateRow]:
    """The stored rates that have the keys of `rows`."""
    keys = ([row.base for row in rows], [row.quote for row in rows], [row.as_of for row in rows])
    return [ExchangeRateRow(**row) for row in await tx.fetch(READ_EXCHANGE_RATES, mode, *keys)]


READ_NEAREST_RATES = """
SELECT named.base, named.quote, named.as_of AS row_as_of, near.rate, near.as_of
FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS named (base, quote, as_of)
CROSS JOIN LATERAL (
    (SELECT rate, as_of FROM exchange_rates
     WHERE mode = $1 AND base = named.base AND quote = named.quote AND exchange_rates.as_of <= named.as_of
     ORDER BY exchange_rates.as_of DESC LIMIT 1)
    UNION ALL
    (SELECT rate, as_of FROM exchange_rates
     WHERE mode = $1 AND base = named.base AND quote = named.quote AND exchange_rates.as_of > named.as_of
     ORDER BY exchange_rates.as_of LIMIT 1)
    LIMIT 1
) AS near
"""


async def read_nearest_rates(
    tx: Connection, mode: Mode, rows: list[ExchangeRateRow]
) -> dict[tuple[Any, ...], KnownRate]:
    """By the key of a row: the newest stored rate up to its time, or else the oldest one after it."""
    keys = ([row.base for row in rows], [row.quote for row in rows], [row.as_of for row in rows])
    return {
        (found["base"], found["quote"], found["row_as_of"]): KnownRate(found["rate"], found["as_of"])
        for found in await tx.fetch(READ_NEAREST_RATES, mode, *keys)
    }


SAVE_EXCHANGE_RATES = """
INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source)
SELECT $1, base, quote, as_of, rate, source FROM jsonb_populate_recordset(NULL::exchange_rates, $2)
ON CONFLICT (mode, base, quote, as_of) DO UPDATE SET rate = excluded.rate, source = excluded.source
"""


async def save_exchange_rates(tx: Connection, mode: Mode, rows: Iterable[ExchangeRateRow]) -> None:
    await tx.execute(SAVE_EXCHANGE_RATES, mode, json_rows(map(asdict, rows)))

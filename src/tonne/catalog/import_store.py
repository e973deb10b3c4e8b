"""SQL of the catalogue's import: what is stored already, and what changes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tonne.base.scope import Mode
from tonne.catalog.csv_rows import BundleProjectRow, BundleRow, DefaultRow, ExchangeRateRow, ProjectKey, ProjectRow
from tonne.db.pool import Connection

# Any number, the same in every process. One lock for both modes, since serial numbers are unique across them.
_LOCK = 7_405_610_215

LIFT_TIMEOUTS = """
SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)
"""
TAKE_TURN = "SELECT pg_advisory_xact_lock($1)"


async def take_turn(tx: Connection) -> None:
    """Wait until no other change to a catalogue is under way, and hold the next one off until this transaction ends.

    The usual limits are for requests: an operator's import may wait for another, and may take its time to judge a file.
    """
    await tx.execute(LIFT_TIMEOUTS)
    await tx.execute(TAKE_TURN, _LOCK)


@dataclass(frozen=True, slots=True)
class CatalogueHead:
    currency: str
    version: int
    # As stored: elements with bundle_id and, for all or for none, percentage.
    default_selection: list[dict[str, str]]


FIND_CATALOGUE = "SELECT currency, version, default_bundle_selection FROM catalogues WHERE mode = $1"


async def find_catalogue(tx: Connection, mode: Mode) -> CatalogueHead | None:
    row = await tx.fetchrow(FIND_CATALOGUE, mode)
    if row is None:
        return None
    return CatalogueHead(row["currency"], row["version"], json.loads(row["default_bundle_selection"] or "[]"))


# At version 0, which the import that creates it raises to 1.
CREATE_CATALOGUE = "INSERT INTO catalogues (mode, currency, version) VALUES ($1, $2, 0)"


async def create_catalogue(tx: Connection, mode: Mode, currency: str) -> None:
    await tx.execute(CREATE_CATALOGUE, mode, currency)


RAISE_VERSION = "UPDATE catalogues SET version = version + 1 WHERE mode = $1 RETURNING version"


async def raise_version(tx: Connection, mode: Mode) -> int:
    version: int = await tx.fetchval(RAISE_VERSION, mode)
    return version


SAVE_DEFAULTS = "UPDATE catalogues SET default_bundle_selection = $2 WHERE mode = $1"


async def save_defaults(tx: Connection, mode: Mode, rows: Iterable[DefaultRow], bundle_ids: Mapping[str, str]) -> None:
    selection = [
        {"bundle_id": bundle_ids[row.bundle_slug]} | ({"percentage": row.percentage} if row.percentage else {})
        for row in rows
    ]
    await tx.execute(SAVE_DEFAULTS, mode, json.dumps(selection))


READ_PROJECTS = """
SELECT id, registry, registry_project_id, name, slug, country, type, methodology, mechanism, granularity_grams,
       description, image, registry_url
FROM projects WHERE mode = $1
"""


async def read_projects(tx: Connection, mode: Mode) -> dict[str, ProjectRow]:
    """By id."""
    rows = [dict(row) for row in await tx.fetch(READ_PROJECTS, mode)]
    return {row.pop("id"): ProjectRow(**row) for row in rows}


SAVE_PROJECT = """
INSERT INTO projects (mode, id, registry, registry_project_id, name, slug, country, type, methodology, mechanism,
                      granularity_grams, description, image, registry_url, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (mode, registry, registry_project_id) DO UPDATE SET
    name = excluded.name, slug = excluded.slug, country = excluded.country, type = excluded.type,
    methodology = excluded.methodology, mechanism = excluded.mechanism, granularity_grams = excluded.granularity_grams,
    description = excluded.description, image = excluded.image, registry_url = excluded.registry_url
"""


async def save_projects(
    tx: Connection, mode: Mode, rows: Iterable[ProjectRow], ids: Mapping[ProjectKey, str], now: datetime
) -> None:
    await tx.executemany(
        SAVE_PROJECT,
        [
            (
                mode,
                ids[row.key],
                row.registry,
                row.registry_project_id,
                row.name,
                row.slug,
                row.country,
                row.type,
                row.methodology,
                row.mechanism,
                row.granularity_grams,
                row.description,
                row.image,
                row.registry_url,
                now,
            )
            for row in rows
        ],
    )


READ_BUNDLES = """
SELECT id, slug, name, description, primary_image, unit_price_minor, enabled, position FROM bundles WHERE mode = $1
"""


async def read_bundles(tx: Connection, mode: Mode) -> dict[str, BundleRow]:
    """By id."""
    rows = [dict(row) for row in await tx.fetch(READ_BUNDLES, mode)]
    return {row.pop("id"): BundleRow(**row) for row in rows}


SAVE_BUNDLE = """
INSERT INTO bundles (mode, id, slug, name, description, primary_image, unit_price_minor, enabled, position, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (mode, slug) DO UPDATE SET
    name = excluded.name, description = excluded.description, primary_image = excluded.primary_image,
    unit_price_minor = excluded.unit_price_minor, enabled = excluded.enabled, position = excluded.position
"""


async def save_bundles(
    tx: Connection, mode: Mode, rows: Iterable[BundleRow], ids: Mapping[str, str], now: datetime
) -> None:
    await tx.executemany(
        SAVE_BUNDLE,
        [
            (
                mode,
                ids[row.slug],
                row.slug,
                row.name,
                row.description,
                row.primary_image,
                row.unit_price_minor,
                row.enabled,
                row.position,
                now,
            )
            for row in rows
        ],
    )


READ_BUNDLE_PROJECTS = """
SELECT bundles.slug AS bundle_slug, projects.registry, projects.registry_project_id, weight, bundle_projects.position
FROM bundle_projects
JOIN bundles ON bundles.mode = bundle_projects.mode AND bundles.id = bundle_id
JOIN projects ON projects.mode = bundle_projects.mode AND projects.id = project_id
WHERE bundle_projects.mode = $1 AND bundles.slug = ANY ($2)
"""


async def read_bundle_projects(tx: Connection, mode: Mode, bundle_slugs: Iterable[str]) -> list[BundleProjectRow]:
    rows = await tx.fetch(READ_BUNDLE_PROJECTS, mode, list(bundle_slugs))
    return [BundleProjectRow(**row) for row in rows]


REMOVE_BUNDLE_PROJECT = "DELETE FROM bundle_projects WHERE mode = $1 AND bundle_id = $2 AND project_id = $3"


async def remove_bundle_projects(tx: Connection, mode: Mode, ids: Iterable[tuple[str, str]]) -> None:
    """`ids` are pairs of bundle and project."""
    await tx.executemany(REMOVE_BUNDLE_PROJECT, [(mode, bundle_id, project_id) for bundle_id, project_id in ids])


SAVE_BUNDLE_PROJECT = """
INSERT INTO bundle_projects (mode, bundle_id, project_id, weight, position) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (mode, bundle_id, project_id) DO UPDATE SET weight = excluded.weight, position = excluded.position
"""


async def save_bundle_projects(
    tx: Connection,
    mode: Mode,
    rows: Iterable[BundleProjectRow],
    bundle_ids: Mapping[str, str],
    project_ids: Mapping[ProjectKey, str],
) -> None:
    await tx.executemany(
        SAVE_BUNDLE_PROJECT,
        [(mode, bundle_ids[row.bundle_slug], project_ids[row.project_key], row.weight, row.position) for row in rows],
    )


READ_EXCHANGE_RATES = """
SELECT base, quote, rate, source, as_of
FROM exchange_rates JOIN unnest($2::text[], $3::text[], $4::timestamptz[]) AS named (base, quote, as_of)
    USING (base, quote, as_of)
WHERE mode = $1
"""


async def read_exchange_rates(tx: Connection, mode: Mode, rows: list[ExchangeRateRow]) -> list[ExchangeRateRow]:
    """Those stored under the keys of `rows`."""
    keys = ([row.base for row in rows], [row.quote for row in rows], [row.as_of for row in rows])
    return [ExchangeRateRow(**row) for row in await tx.fetch(READ_EXCHANGE_RATES, mode, *keys)]


SAVE_EXCHANGE_RATE = """
INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (mode, base, quote, as_of) DO UPDATE SET rate = excluded.rate, source = excluded.source
"""


async def save_exchange_rates(tx: Connection, mode: Mode, rows: Iterable[ExchangeRateRow]) -> None:
    await tx.executemany(
        SAVE_EXCHANGE_RATE, [(mode, row.base, row.quote, row.as_of, row.rate, row.source) for row in rows]
    )

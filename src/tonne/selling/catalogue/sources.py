"""The projects behind bundles, as allocation needs them, and how much orders have drawn on each."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Mode


class BundleSource(Struct, frozen=True):
    """A project of a bundle. `drawn_grams` is what its orders were meant to get of the project, minus what is common to
    all projects of the bundle in proportion to their weights."""

    bundle_id: str
    project_id: str
    weight: int
    drawn_grams: int
    granularity_grams: int
    name: str
    type: str
    slug: str
    position: int
    # URL or path of an image.
    logo: str | None


# The fields of BundleSource.
_SOURCE = """share.bundle_id, project.id AS project_id, share.weight, share.drawn_grams, project.granularity_grams, \
project.name, project.type, project.slug, share.position, project.details ->> 'logo' AS logo"""
FIND_SOURCES = f"""
SELECT {_SOURCE}
FROM bundle_projects share JOIN projects project ON project.mode = share.mode AND project.id = share.project_id
WHERE share.mode = $1 AND share.bundle_id = ANY ($2::text[])
"""  # noqa: S608 - a constant


async def find_sources(connection: Connection, mode: Mode, bundle_ids: Iterable[str]) -> list[BundleSource]:
    """The projects of these bundles, each bundle's in the order of the catalogue."""
    return _sorted([BundleSource(**row) for row in await connection.fetch(FIND_SOURCES, mode, sorted(set(bundle_ids)))])


# Sorted to prevent deadlocks between workers, and with imports. Without the lock, two workers would count from the same
# drawn grams, and orders would no longer follow the weights.
LOCK_SOURCES = """
SELECT true FROM bundle_projects share
WHERE share.mode = $1 AND share.bundle_id = ANY ($2::text[])
ORDER BY share.bundle_id, share.project_id FOR NO KEY UPDATE OF share
"""


async def lock_sources(tx: Connection, mode: Mode, bundle_ids: Iterable[str]) -> list[BundleSource]:
    """As `find_sources`, and locks what was drawn on them until the transaction ends."""
    ids = sorted(set(bundle_ids))
    await tx.execute(LOCK_SOURCES, mode, ids)
    # Read afterwards: an import may have changed the granularity while the statement above waited for it.
    return await find_sources(tx, mode, ids)


# All in one statement: two, each sorted by itself, could deadlock with a worker.
LOCK_MEMBERS = """
SELECT true FROM bundle_projects share
WHERE share.mode = $1 AND (share.bundle_id = ANY ($2::text[]) OR share.project_id = ANY ($3::text[]))
ORDER BY share.bundle_id, share.project_id FOR NO KEY UPDATE OF share
"""


async def lock_members(tx: Connection, mode: Mode, *, bundle_ids: Iterable[str], project_ids: Iterable[str]) -> None:
    """Wait for allocations from these bundles and projects, and block new ones until the transaction ends."""
    await tx.execute(LOCK_MEMBERS, mode, sorted(set(bundle_ids)), sorted(set(project_ids)))


def _sorted(sources: Sequence[BundleSource]) -> list[BundleSource]:
    return sorted(sources, key=lambda source: (source.bundle_id, source.position, source.project_id))


SAVE_DRAWN = """
UPDATE bundle_projects SET drawn_grams = new.drawn_grams
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS new (bundle_id, project_id, drawn_grams)
WHERE bundle_projects.mode = $1 AND bundle_projects.bundle_id = new.bundle_id
  AND bundle_projects.project_id = new.project_id
"""


async def save_drawn(tx: Connection, mode: Mode, sources: Sequence[BundleSource]) -> None:
    await tx.execute(SAVE_DRAWN, mode, *columns(sources, "bundle_id, project_id, drawn_grams"))

"""The operator's commands on bundles: putting a bundle on sale, or taking it off; and their SQL."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_or_none
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode
from tonne.selling.catalogue.errors import BundleNotFound
from tonne.selling.catalogue.imports.store import acquire_import_lock, raise_version


class ListedBundle(Struct, frozen=True):
    id: str
    slug: str
    name: str
    currency: str
    unit_price_minor: int
    enabled: bool


LIST_BUNDLES = """
SELECT id, slug, name, currency, unit_price_minor, enabled
FROM bundles JOIN catalogues USING (mode)
WHERE mode = $1
ORDER BY position, slug
"""


async def list_bundles(connection: Connection, mode: Mode) -> list[ListedBundle]:
    return [ListedBundle(**row) for row in await connection.fetch(LIST_BUNDLES, mode)]


class BundleSwitch(Struct, frozen=True):
    """The state that `switch_bundle` needs."""

    mode: Mode
    slug: str
    enabled: bool
    in_default_selection: bool


FIND_SWITCH = """
SELECT mode, slug, enabled,
       coalesce(default_bundle_selection @> jsonb_build_array(jsonb_build_object('bundle_id', id)), false)
           AS in_default_selection
FROM bundles JOIN catalogues USING (mode) WHERE id = $1
"""


async def find_switch(tx: Connection, bundle_id: str) -> BundleSwitch | None:
    return value_or_none(BundleSwitch, await tx.fetchrow(FIND_SWITCH, bundle_id))


SAVE_ENABLED = """
UPDATE bundles SET enabled = $3, disabled_at = CASE WHEN $3 THEN NULL ELSE $4::timestamptz END
WHERE mode = $1 AND id = $2
"""


async def save_enabled(tx: Connection, mode: Mode, bundle_id: str, *, enabled: bool, now: datetime) -> None:
    await tx.execute(SAVE_ENABLED, mode, bundle_id, enabled, now)


async def switch_bundle(tx: Connection, bundle_id: str, *, enabled: bool, by: By) -> BundleSwitch:
    """Returns the bundle as it was before. Waits for a running import."""
    await acquire_import_lock(tx)
    bundle = await find_switch(tx, bundle_id)
    if bundle is None:
        raise BundleNotFound("There is no bundle with this id: `tonne catalogue list` lists them.")
    if bundle.enabled != enabled:
        await save_enabled(tx, bundle.mode, bundle_id, enabled=enabled, now=by.at)
        await raise_version(tx, bundle.mode)
        await audit.record(
            tx,
            None,
            "bundle.enabled" if enabled else "bundle.disabled",
            by=by,
            subject_id=bundle_id,
            mode=bundle.mode,
            before={"enabled": bundle.enabled},
            after={"enabled": enabled},
            slug=bundle.slug,
        )
    return bundle

"""Put a bundle on sale, or take it off."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor
from tonne.selling.catalogue import bundle_store
from tonne.selling.catalogue.bundle_store import BundleSwitch
from tonne.selling.catalogue.errors import BundleNotFound
from tonne.selling.catalogue.imports.store import acquire_import_lock, raise_version


async def switch_bundle(tx: Connection, bundle_id: str, *, enabled: bool, actor: Actor, now: datetime) -> BundleSwitch:
    """Returns the bundle as it was before. Waits for a running import."""
    await acquire_import_lock(tx)
    bundle = await bundle_store.find_switch(tx, bundle_id)
    if bundle is None:
        raise BundleNotFound("There is no bundle with this id: `tonne catalogue list` lists them.")
    if bundle.enabled != enabled:
        await bundle_store.save_enabled(tx, bundle.mode, bundle_id, enabled=enabled, now=now)
        await raise_version(tx, bundle.mode)
        await audit.record(
            tx,
            None,
            "bundle.enabled" if enabled else "bundle.disabled",
            actor=actor,
            at=now,
            subject_id=bundle_id,
            mode=bundle.mode,
            before={"enabled": bundle.enabled},
            after={"enabled": enabled},
            slug=bundle.slug,
        )
    return bundle

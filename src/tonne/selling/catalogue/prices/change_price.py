"""Change the price of a bundle. Everything else of it stays as it is."""

from datetime import datetime
from decimal import Decimal

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Actor, Mode
from tonne.selling.catalogue.errors import BundleNotFound
from tonne.selling.catalogue.imports.store import acquire_import_lock, raise_version
from tonne.selling.catalogue.prices.price_change_store import find_price, save_price


async def change_price(
    tx: Connection, mode: Mode, bundle_id: str, unit_price_minor: int, *, actor: Actor, now: datetime
) -> None:
    """Waits for a running import, which may set the price as well."""
    await acquire_import_lock(tx)
    bundle = await find_price(tx, mode, bundle_id)
    if bundle is None:
        raise BundleNotFound("There is no bundle with this id in this mode.")
    if bundle.unit_price_minor == unit_price_minor:
        return
    await save_price(tx, mode, bundle_id, unit_price_minor)
    await raise_version(tx, mode)
    before, after = (
        Decimal(minor).scaleb(-DECIMALS[bundle.currency]) for minor in (bundle.unit_price_minor, unit_price_minor)
    )
    await audit.record(
        tx,
        None,
        "bundle.changed",
        actor=actor,
        at=now,
        subject_id=bundle_id,
        mode=mode,
        before={"unit_price": before},
        after={"unit_price": after},
        currency=bundle.currency,
    )

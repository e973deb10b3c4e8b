"""Schedule a new price of a bundle, or cancel it before it applies."""

from datetime import datetime, timedelta

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode, new_id, to_wire
from tonne.selling.catalogue.errors import BundleNotFound, PriceChangeConflict, PriceChangeNotFound
from tonne.selling.catalogue.imports.store import find_catalogue, read_bundles
from tonne.selling.catalogue.prices.apply_price_changes import PriceChange, insert_change, lock_change, mark_cancelled

MAX_AHEAD = timedelta(days=730)


async def schedule_price(
    tx: Connection,
    mode: Mode,
    bundle_id: str,
    unit_price_minor: int,
    starts_at: datetime,
    *,
    by: By,
) -> PriceChange:
    """The job `apply_price_changes` applies it at `starts_at`. Orders and quotes made before keep their price."""
    head = await find_catalogue(tx, mode)
    bundle = (await read_bundles(tx, mode, head.currency)).get(bundle_id) if head is not None else None
    if head is None or bundle is None:
        raise BundleNotFound("There is no bundle with this id in this mode.")
    change = PriceChange(new_id("pch"), mode, bundle_id, unit_price_minor, starts_at, by.at, str(by.actor))
    if not await insert_change(tx, change):
        raise PriceChangeConflict
    await audit.record(
        tx,
        None,
        "price_change.scheduled",
        by=by,
        subject_id=change.id,
        mode=mode,
        after={"unit_price_minor": unit_price_minor, "starts_at": to_wire(starts_at)},
        bundle=bundle.slug,
        currency=head.currency,
        price_before=str(bundle.unit_price),
    )
    return change


async def cancel_price_change(tx: Connection, mode: Mode, change_id: str, *, by: By) -> PriceChange:
    change = await lock_change(tx, mode, change_id)
    if change is None or not change.is_waiting:
        raise PriceChangeNotFound
    await mark_cancelled(tx, change, by.at)
    await audit.record(
        tx,
        None,
        "price_change.cancelled",
        by=by,
        subject_id=change.id,
        mode=mode,
        before={"unit_price_minor": change.unit_price_minor, "starts_at": to_wire(change.starts_at)},
        bundle_id=change.bundle_id,
    )
    return change

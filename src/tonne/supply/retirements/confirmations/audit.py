"""Audit entries of confirmations."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode
from tonne.supply.stock.model import ParcelStatus
from tonne.supply.stock.parcels.confirm_retirements import Confirmation
from tonne.supply.stock.parcels.parcel_book import BookedParcel, ParcelBook


class ConfirmationSource(NamedTuple):
    """Where the lines come from. `digest` identifies their content, `reference` is the registry's number of them."""

    name: str
    digest: str
    reference: str | None = None


FIND_OWNERS = """
SELECT DISTINCT organisation_id, parcel_id FROM shares
WHERE mode = $1 AND parcel_id = ANY ($2::text[]) ORDER BY organisation_id, parcel_id
"""


async def record_confirmed_parcels(
    tx: Connection,
    mode: Mode,
    source: ConfirmationSource,
    book: ParcelBook,
    confirmed: Sequence[Confirmation],
    *,
    by: By,
) -> None:
    """Each organisation sees in its audit log who confirmed or corrected the retirement of its credits."""
    before = {stored.id: stored for stored in book.stored}
    facts = {each.parcel_id: each for each in confirmed}
    entries = [
        audit.Entry(
            action="confirmations.imported",
            subject_id=source.digest,
            mode=mode,
            details={
                "file": source.name,
                "parcels": len(confirmed),
                **({} if source.reference is None else {"reference": source.reference}),
            },
        )
    ]
    for owned in await tx.fetch(FIND_OWNERS, mode, list(facts)):
        parcel_id = owned["parcel_id"]
        stored, confirmation = before.get(parcel_id), facts[parcel_id]
        is_correction = stored is not None and stored.status is ParcelStatus.RETIRED
        retired = {"retired_on": confirmation.retired_on, "retirement_url": confirmation.retirement_url}
        entries.append(
            audit.Entry(
                action="retirement.corrected" if is_correction else "retirement.confirmed",
                subject_id=parcel_id,
                organisation_id=owned["organisation_id"],
                mode=mode,
                before=_stored(stored) if stored is not None and is_correction else {"status": ParcelStatus.TO_RETIRE},
                after={"status": ParcelStatus.RETIRED} | retired,
            )
        )
    entries += [
        audit.Entry(
            action="parcel.serials_changed", subject_id=new.id, mode=mode, before=_place(old), after=_place(new)
        )
        for old, new in book.changed
    ]
    entries += [
        audit.Entry(
            action="parcel.split",
            subject_id=parcel.id,
            mode=mode,
            after=_place(parcel),
            details={"split_from": parcel.split_from},
        )
        for parcel in book.created
    ]
    await audit.record_all(tx, entries, by=by)


def _stored(parcel: BookedParcel) -> dict[str, Any]:
    facts = {"retired_on": parcel.retired_on, "retirement_url": parcel.retirement_url}
    return {"status": ParcelStatus.RETIRED} | facts


def _place(parcel: BookedParcel) -> dict[str, Any]:
    return {
        "lot_id": parcel.lot.lot_id,
        "serial": parcel.units.text,
    }

"""SQL of importing confirmations: locks parcels, and moves them to other serial numbers."""

from collections.abc import Collection, Sequence
from datetime import datetime

import asyncpg

from tonne.platform.db.database import Connection, columns, value_of
from tonne.platform.values.context import Mode, replace
from tonne.supply.stock.model import ParcelStatus
from tonne.supply.stock.parcels.confirm_retirements import Confirmation
from tonne.supply.stock.parcels.cut_lot import cut_at_gaps_any_account
from tonne.supply.stock.parcels.parcel_book import BookedParcel, LotPlace, ParcelBook
from tonne.supply.stock.serial_runs import SerialRun
from tonne.supply.transparency.record_statements import record_retirements
from tonne_verify.serials.parse import stored_units
from tonne_verify.serials.spelling import registry_id

# Larger than any number of grams in a lot.
_ASIDE = 10**17

_BOOKED = """
parcel.id, parcel.lot_id, lot.serial, lot.unit_grams, parcel.start_grams, parcel.quantity_grams,
parcel.project_id, lot.vintage,
project.registry, project.registry_url, parcel.beneficiary,
parcel.in_service_name, lot.status AS lot_status,
parcel.status, parcel.retired_on, parcel.retirement_url, parcel.split_from, parcel.invalidated_at,
parcel.instruction_id,
(SELECT min(orders.created_at) FROM shares share
 JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
 WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id) AS ordered_at,
(SELECT count(*) = 1 AND sum(share.quantity_grams) = parcel.quantity_grams FROM shares share
 WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id) AS is_of_one_line
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = parcel.mode AND project.id = parcel.project_id
"""
READ_PARCELS = f"""
SELECT {_BOOKED}
WHERE parcel.mode = $1 AND parcel.id = ANY ($2::text[])
"""


async def read_parcels_any_account(tx: Connection, mode: Mode, ids: Collection[str]) -> list[BookedParcel]:
    return [_booked(row) for row in await tx.fetch(READ_PARCELS, mode, list(ids))]


# Locked in one order, so that two imports cannot deadlock.
LOCK_PARCELS = f"""
SELECT {_BOOKED}
WHERE parcel.mode = $1 AND parcel.id IN (
    SELECT unnest($2::text[])
    UNION ALL
    SELECT split.id FROM parcels split WHERE split.mode = $1 AND split.split_from = ANY ($2::text[])
    UNION ALL
    SELECT other.id FROM unnest($3::text[], $4::smallint[]) AS keys (project_id, vintage)
    JOIN lots of_vintage ON of_vintage.mode = $1 AND of_vintage.project_id = keys.project_id
                        AND of_vintage.vintage = keys.vintage
    JOIN parcels other ON other.mode = $1 AND other.lot_id = of_vintage.id
    WHERE other.status IN ('open', 'to_retire')
    UNION ALL
    SELECT held.id FROM unnest($5::text[], $6::bigint[], $7::bigint[]) AS run (namespace, first, last)
    JOIN serial_blocks of_run ON of_run.namespace = run.namespace
    JOIN lots holder ON holder.mode = $1 AND holder.serial_block = of_run.number
                    AND holder.first_number <= run.last AND holder.last_number >= run.first
    JOIN parcels held ON held.mode = $1 AND held.lot_id = holder.id
                     AND held.start_grams < (run.last - holder.first_number + 1) * holder.unit_grams
                     AND held.start_grams + held.quantity_grams > (run.first - holder.first_number) * holder.unit_grams)
ORDER BY parcel.id FOR UPDATE OF parcel
"""  # noqa: S608 - a constant


async def lock_parcels_any_account(
    tx: Connection,
    mode: Mode,
    ids: Collection[str],
    vintages: Sequence[tuple[str, int]],
    runs: Sequence[SerialRun] = (),
) -> list[BookedParcel]:
    """Lock these parcels, those split off from them, the unretired parcels of these projects and vintages, and all that
    hold one of these serials."""
    project_ids, years = [project_id for project_id, _ in vintages], [year for _, year in vintages]
    requested = (list(ids), project_ids, years, *columns(runs, "namespace, first, last"))
    return [_booked(row) for row in await tx.fetch(LOCK_PARCELS, mode, *requested)]


# Several lots may be in one holding.
READ_FREE = """
SELECT DISTINCT ON (lot.id) lot.id, known.id AS like_id, lot.serial, lot.unit_grams, lot.allocated_grams,
       lot.quantity_grams
FROM lots known
JOIN lots lot ON lot.registry_account = known.registry_account AND lot.holding_id = known.holding_id
WHERE known.mode = $1 AND known.id = ANY ($2::text[]) AND lot.allocated_grams < lot.quantity_grams
  AND lot.invalidated_at IS NULL
ORDER BY lot.id, known.id
"""


async def read_free(tx: Connection, mode: Mode, parcels: Sequence[BookedParcel]) -> list[BookedParcel]:
    """The free ends of the lots in the holdings of these parcels: a registry may retire units of these instead.

    The caller has locked the lots.
    """
    like = {parcel.lot.lot_id: parcel for parcel in parcels}
    return [
        replace(
            alike := like[row["like_id"]],
            id=f"free end of {row['id']}",
            lot=LotPlace(row["id"], stored_units(alike.registry, row["serial"], row["unit_grams"])),
            start_grams=row["allocated_grams"],
            quantity_grams=row["quantity_grams"] - row["allocated_grams"],
            status=ParcelStatus.OPEN,
            instruction_id=None,
            split_from=None,
            is_free=True,
        )
        for row in await tx.fetch(READ_FREE, mode, list(like))
    ]


# Two steps: two parcels may exchange their places, and no two may ever have the same one.
SET_ASIDE = "UPDATE parcels SET start_grams = start_grams + $3 WHERE mode = $1 AND id = ANY ($2::text[])"
MOVE_PARCELS = """
UPDATE parcels SET lot_id = moved.lot_id, start_grams = moved.start_grams, quantity_grams = moved.quantity_grams,
       allocated_grams = CASE WHEN parcels.allocated_grams = parcels.quantity_grams THEN moved.quantity_grams
                              ELSE parcels.allocated_grams END
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS moved (id, lot_id, start_grams, quantity_grams)
WHERE parcels.mode = $1 AND parcels.id = moved.id
RETURNING parcels.id, parcels.retired_at, parcels.status = 'retired' AS is_retired
"""
RESIZE_SHARES = """
UPDATE shares SET quantity_grams = moved.quantity_grams
FROM unnest($2::text[], $3::bigint[]) AS moved (id, quantity_grams)
WHERE shares.mode = $1 AND shares.parcel_id = moved.id
"""


async def move_changed_parcels(
    tx: Connection, mode: Mode, changed: Sequence[tuple[BookedParcel, BookedParcel]]
) -> None:
    """Each as it was, and as it is now. The caller has locked them."""
    moved = [now for _, now in changed]
    await tx.execute(SET_ASIDE, mode, [parcel.id for parcel in moved], _ASIDE)
    rows = await tx.fetch(MOVE_PARCELS, mode, *columns(moved, "id, lot.lot_id, start_grams, quantity_grams"))
    await record_retirements(tx, mode, {row["id"]: row["retired_at"] for row in rows if row["is_retired"]})
    # Only parcels of one line change their size.
    resized = [now for before, now in changed if before.quantity_grams != now.quantity_grams]
    await tx.execute(RESIZE_SHARES, mode, *columns(resized, "id, quantity_grams"))


async def move_parcels(tx: Connection, mode: Mode, book: ParcelBook) -> None:
    """Store what has changed in the book."""
    changed, created = book.changed, book.created
    await move_changed_parcels(tx, mode, changed)
    await _insert_split(tx, mode, created)
    lots = {before.id: before.lot.lot_id for before in book.stored}
    of_others = [
        each for each in (*(now for _, now in changed), *created) if lots[each.origin_id or each.id] != each.lot.lot_id
    ]
    # Free units had no holder. They are of a part of the same lot, and have its facts.
    held = [(each.id, holder) for each in of_others if (holder := book.former_holder(each)) is not None]
    await tx.execute(RESTATE_SHARES, mode, [id_ for id_, _ in held], [holder for _, holder in held])
    for lot_id in sorted(book.lots_with_gaps):
        await cut_at_gaps_any_account(tx, mode, lot_id)


INSERT_SPLIT = """
INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, account_id,
                     beneficiary, in_service_name, status, opened_at, split_from)
SELECT $1, new.id, new.lot_id, origin.project_id, new.start_grams, new.quantity_grams, new.quantity_grams,
       origin.account_id, origin.beneficiary, origin.in_service_name, 'to_retire', origin.opened_at, new.split_from
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[])
     AS new (id, origin_id, lot_id, start_grams, quantity_grams, split_from)
JOIN parcels origin ON origin.mode = $1 AND origin.id = new.origin_id
"""
INSERT_SPLIT_SHARES = """
INSERT INTO shares (account_id, order_id, line_position, mode, parcel_id, organisation_id, beneficiary, quantity_grams,
                    facts_digest)
SELECT origin.account_id, origin.order_id, origin.line_position, $1, new.id, origin.organisation_id,
       origin.beneficiary, new.quantity_grams, origin.facts_digest
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS new (id, origin_id, quantity_grams)
JOIN shares origin ON origin.mode = $1 AND origin.parcel_id = new.origin_id
"""


async def _insert_split(tx: Connection, mode: Mode, created: Sequence[BookedParcel]) -> None:
    """Parcels that were split off from parcels of one line, with the share of that line."""
    facts = "id, origin_id, lot.lot_id, start_grams, quantity_grams, split_from"
    await tx.execute(INSERT_SPLIT, mode, *columns(created, facts))
    await tx.execute(INSERT_SPLIT_SHARES, mode, *columns(created, "id, origin_id, quantity_grams"))


# Labels belong to units: a parcel that got units of another lot has the facts that were fixed when those units were
# allocated. All in one statement: two parcels may exchange their facts.
RESTATE_SHARES = """
UPDATE shares SET facts_digest = (SELECT held.facts_digest FROM shares held
                                  WHERE held.mode = $1 AND held.parcel_id = given.holder_id
                                  ORDER BY held.order_id, held.line_position LIMIT 1)
FROM unnest($2::text[], $3::text[]) AS given (id, holder_id)
WHERE shares.mode = $1 AND shares.parcel_id = given.id
"""


CORRECT = """
UPDATE parcels SET retired_on = corrected.retired_on, retirement_url = corrected.url, retired_at = $2
FROM unnest($3::text[], $4::date[], $5::text[]) AS corrected (id, retired_on, url)
WHERE parcels.mode = $1 AND parcels.id = corrected.id AND parcels.status = 'retired'
RETURNING parcels.id
"""


async def correct_retirements_any_account(
    tx: Connection, mode: Mode, confirmations: Sequence[Confirmation], now: datetime
) -> None:
    rows = await tx.fetch(CORRECT, mode, now, *columns(confirmations, "parcel_id, retired_on, retirement_url"))
    await record_retirements(tx, mode, dict.fromkeys([row["id"] for row in rows], now))


def _booked(row: asyncpg.Record) -> BookedParcel:
    lot = LotPlace(row["lot_id"], stored_units(row["registry"], row["serial"], row["unit_grams"]))
    return value_of(BookedParcel, row, lot=lot, registry_id=registry_id(row["registry"]))

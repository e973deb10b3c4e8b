"""Lots of credits: the rows of lots.csv, their SQL, and withdrawing a lot that cannot be sold any more."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from tonne.platform.db.database import Connection, json_rows
from tonne.platform.documents.sheets import columns
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.documents.sheets.read_sheet import Values
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS, format_tonnes, parse_decimal, scaled
from tonne.platform.values.context import By, Mode
from tonne.selling.catalogue.imports import detail_columns
from tonne.selling.catalogue.imports.project_rows import ProjectReference
from tonne.selling.catalogue.imports.store import acquire_import_lock
from tonne.supply.stock.errors import LotInUse, LotNotFound
from tonne.supply.stock.holds.hold_store import find_overheld_any_account
from tonne.supply.stock.lots.lot_facts import CreditLabel, LotFacts, check_facts, parse_label
from tonne.supply.stock.lots.lot_store import ListedLot, find_withdrawn_lot, lock_lot, move_to_withdrawn
from tonne.supply.stock.model import LotStatus
from tonne_verify.serials.parse import parse
from tonne_verify.serials.units import KILOGRAM_GRAMS, UnitRange

MAX_LOT_UNITS = MAX_LOT_TONNES = 10**9
MAX_UNIT_COST = 10**9
MAX_SERIAL = 300
SerialNumber = Annotated[int, columns.Column(columns.whole(0, 10**15 - 1))]


def parse_cost(cell: str) -> Decimal:
    number = parse_decimal(cell)
    if number is None or not 0 <= number <= MAX_UNIT_COST:
        raise columns.CellError(f"{quoted(cell)} is not a cost per tonne: write a number such as 12.65.")
    return number


_use = columns.choice("ndc", "international", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class LotRow(ProjectReference):
    KEY: ClassVar[tuple[str, ...]] = ("registry", "serial", "serial_block", "first_number", "last_number")

    vintage: Annotated[int, columns.Column(columns.whole(1990, 2100))]
    status: Annotated[str, columns.Column(columns.choice("held", "pre_retired"))]
    retirement_url: columns.WebUrl | None
    retired_on: columns.Date | None
    # The whole serial; or a block and two numbers, of which the import makes one.
    serial: Annotated[str, columns.Column(columns.text(MAX_SERIAL))] | None = None
    serial_block: Annotated[str, columns.Column(columns.text(200))] | None = None
    first_number: SerialNumber | None = None
    last_number: SerialNumber | None = None
    # In tonnes, to be compared with the serial.
    quantity: Annotated[Decimal, columns.Column(columns.decimal(6, MAX_LOT_TONNES))] | None = None
    # The import copies these from the project if they are missing.
    country: columns.Label | None = None
    methodology: columns.Label | None = None
    # What a tonne cost you, for the journal.
    unit_cost: Annotated[Decimal, columns.Column(parse_cost)] | None = None
    cost_currency: Annotated[str, columns.Column(columns.parse_currency)] | None = None
    # The stored lot that the row corrects. Without it, a lot with the same serial numbers is updated.
    lot_id: columns.Label | None = None
    # The fields of LotFacts.
    mechanism: Annotated[str, columns.Column(columns.choice("avoidance", "removal"))] | None = None
    removal_percent: Annotated[int, columns.Column(columns.whole(1, 99))] | None = None
    labels: Annotated[list[CreditLabel], columns.Column(detail_columns.items(parse_label))] | None = None
    article_6: Annotated[str, columns.Column(columns.choice("none", "authorised", "adjusted"))] | None = None
    article_6_uses: Annotated[list[str], columns.Column(detail_columns.items(_use))] | None = None
    article_6_source: detail_columns.ShortText | None = None
    article_6_date: detail_columns.Day | None = None
    verifying_body: columns.Label | None = None
    verified_on: detail_columns.Day | None = None
    facts_source: detail_columns.ShortText | None = None
    facts_as_of: detail_columns.Day | None = None

    @property
    def facts(self) -> LotFacts:
        return LotFacts(**{name: getattr(self, name) for name in LotFacts.__struct_fields__})

    @property
    def unit_cost_minor(self) -> int | None:
        if self.unit_cost is None or self.cost_currency is None:
            return None
        return scaled(self.unit_cost, DECIMALS[self.cost_currency])


class LotUnits(NamedTuple):
    """A row and its units. Its `serial` is in the spelling of the registry; it has no block, numbers or quantity."""

    row: LotRow
    units: UnitRange


_BLOCK = ("serial_block", "first_number", "last_number")


def check_lot(latest: date, values: Values) -> Iterator[tuple[str, str]]:
    parts = [name for name in _BLOCK if values.get(name, "invalid") is not None]
    if values.get("serial", "invalid") is None and len(parts) < len(_BLOCK):
        if parts:
            yield next(name for name in _BLOCK if name not in parts), "the cell is empty: enter a value, or the serial."
        else:
            yield "serial", "the cell is empty: enter the whole serial, as the registry writes it."
    if values.get("serial") is not None and parts:
        yield parts[0], "the line has the whole serial: leave the cell empty."
    yield from _check_cost(values)
    yield from check_facts(values)
    for column in ("retirement_url", "retired_on"):
        if values.get("status") == "pre_retired" and values.get(column, "invalid") is None:
            yield column, "a pre_retired lot needs it: enter where and when it was retired, or write held."
        if values.get("status") == "held" and values.get(column) is not None:
            yield column, "a held lot is not retired yet: leave the cell empty, or write pre_retired."
    retired_on = values.get("retired_on")
    if retired_on is not None:
        yield from check_retired_on(retired_on, latest)
        if retired_on.year < values.get("vintage", 0):
            yield "retired_on", f"the date is before the vintage {values['vintage']}: correct one of the two."


def _check_cost(values: Values) -> Iterator[tuple[str, str]]:
    cost, currency = values.get("unit_cost"), values.get("cost_currency")
    if cost is not None and values.get("cost_currency", "invalid") is None:
        yield "cost_currency", "a lot with a unit_cost needs its currency: enter its code, such as EUR."
    if currency is not None and values.get("unit_cost", "invalid") is None:
        yield "unit_cost", "the cell is empty, but cost_currency is not: enter the cost per tonne, or clear both."
    if cost is not None and currency is not None and (message := columns.precision_error(cost, DECIMALS[currency])):
        yield "unit_cost", message


def check_retired_on(retired_on: date, latest: date) -> Iterator[tuple[str, str]]:
    if retired_on > latest:
        yield "retired_on", "the date is in the future: enter the day of the retirement."


def latest_day(now: datetime) -> date:
    """Registries date retirements in local time, which is up to 14 hours ahead of UTC."""
    return (now + timedelta(hours=14)).date()


def earliest_day(moment: datetime) -> date:
    """The day on which something that happened at `moment` may be dated: local time is up to 12 hours behind UTC."""
    return (moment.astimezone(UTC) - timedelta(hours=12)).date()


class StoredLot(Struct, frozen=True):
    mode: Mode
    id: str
    units: UnitRange
    row: LotRow


READ_LOTS = """
SELECT lots.mode, lots.id, lots.unit_grams, projects.registry, registry_project_id, vintage, serial, status,
       retirement_url, retired_on, lots.country, lots.methodology, lots.id AS lot_id, lots.unit_cost_minor,
       lots.cost_currency, lots.facts
FROM lots
JOIN serial_blocks ON lots.serial_block = serial_blocks.number
JOIN projects ON projects.mode = lots.mode AND projects.id = lots.project_id
WHERE serial_blocks.namespace = ANY ($1::text[]) OR lots.id = ANY ($2::text[])
ORDER BY first_number
"""


async def read_lots(tx: Connection, namespaces: Collection[str], ids: Collection[str]) -> list[StoredLot]:
    """The lots of these namespaces, and those with these ids, ordered by first number.

    Of both modes, because a serial number belongs to one lot only.
    """
    rows = [dict(row) for row in await tx.fetch(READ_LOTS, list(namespaces), list(ids))]
    return [_stored(row) for row in rows]


def _stored(row: dict[str, Any]) -> StoredLot:
    cost_minor, currency = row.pop("unit_cost_minor"), row["cost_currency"]
    cost = None if cost_minor is None else Decimal(cost_minor).scaleb(-DECIMALS[currency])
    units = parse(row["registry"], row["serial"], unit_grams=row.pop("unit_grams"))
    facts = msgspec.structs.asdict(decode_facts(row.pop("facts")))
    return StoredLot(Mode(row.pop("mode")), row.pop("id"), units, LotRow(**row, **facts, unit_cost=cost))


decode_facts = msgspec.json.Decoder(LotFacts).decode


# SKIP LOCKED: a locked lot is being allocated, and waiting for it could end in a deadlock.
LOCK_UNALLOCATED_LOTS = """
SELECT id FROM lots WHERE mode = $1 AND id = ANY ($2) AND allocated_grams = 0 FOR UPDATE SKIP LOCKED
"""


async def lock_unallocated_lots(tx: Connection, mode: Mode, ids: list[str]) -> set[str]:
    """Lock those of the lots that may still change, and return their ids."""
    return {row["id"] for row in await tx.fetch(LOCK_UNALLOCATED_LOTS, mode, ids)}


FIND_ALLOCATED = "SELECT id FROM lots WHERE mode = $1 AND id = ANY ($2::text[]) AND allocated_grams > 0"


async def find_allocated(tx: Connection, mode: Mode, ids: Collection[str]) -> set[str]:
    """Those of the lots of which orders hold grams."""
    return {row["id"] for row in await tx.fetch(FIND_ALLOCATED, mode, list(ids))}


FIND_HOLDERS = """
SELECT parcel.lot_id, array_agg(DISTINCT share.order_id ORDER BY share.order_id) AS order_ids
FROM parcels parcel JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
WHERE parcel.mode = $1 AND parcel.lot_id = ANY ($2::text[]) GROUP BY parcel.lot_id
"""


async def find_holders_any_account(tx: Connection, mode: Mode, lot_ids: Collection[str]) -> dict[str, list[str]]:
    """The ids of the orders that hold grams of these lots, by lot."""
    return {row["lot_id"]: row["order_ids"] for row in await tx.fetch(FIND_HOLDERS, mode, list(lot_ids))}


def name_holders(order_ids: list[str]) -> str:
    """For a message: `orders ord_a, ord_b, ord_c and 7 more`."""
    if not order_ids:
        return "orders"
    more = f" and {len(order_ids) - 3} more" if len(order_ids) > 3 else ""
    return f"{'order' if len(order_ids) == 1 else 'orders'} {', '.join(order_ids[:3])}{more}"


# Not ON CONFLICT DO NOTHING, which would consume a block number in every import.
SAVE_SERIAL_BLOCKS = """
INSERT INTO serial_blocks (namespace)
SELECT namespace FROM unnest($1::text[]) AS named (namespace)
WHERE namespace NOT IN (SELECT namespace FROM serial_blocks) ORDER BY namespace
"""
SAVE_LOTS = """
INSERT INTO lots (mode, id, project_id, vintage, serial, serial_block, first_number, last_number, unit_grams,
                  quantity_grams, country, methodology, status, retirement_url, retired_on, created_at,
                  unit_cost_minor, cost_currency, facts, registry_account, holding_id)
SELECT $1, lot.id, lot.project_id, lot.vintage, lot.serial, serial_blocks.number, lot.first_number, lot.last_number,
       lot.unit_grams, (lot.last_number - lot.first_number + 1) * lot.unit_grams, lot.country, lot.methodology,
       lot.status, lot.retirement_url, lot.retired_on, $2, lot.unit_cost_minor, lot.cost_currency, lot.facts,
       lot.registry_account, CASE WHEN lot.registry_account IS NOT NULL THEN lot.id END
FROM jsonb_to_recordset($3) AS lot (
    id text, project_id text, vintage smallint, serial text, namespace text, first_number bigint,
    last_number bigint, unit_grams bigint, country text, methodology text, status text, retirement_url text,
    retired_on date, unit_cost_minor bigint, cost_currency text, facts text,
    registry_account text)
JOIN serial_blocks ON serial_blocks.namespace = lot.namespace
ON CONFLICT (mode, id) DO UPDATE SET
    project_id = excluded.project_id, vintage = excluded.vintage, serial = excluded.serial,
    serial_block = excluded.serial_block, first_number = excluded.first_number, last_number = excluded.last_number,
    unit_grams = excluded.unit_grams, quantity_grams = excluded.quantity_grams, country = excluded.country,
    methodology = excluded.methodology,
    status = excluded.status, retirement_url = excluded.retirement_url, retired_on = excluded.retired_on,
    unit_cost_minor = excluded.unit_cost_minor, cost_currency = excluded.cost_currency, facts = excluded.facts,
    registry_account = CASE WHEN excluded.status = 'held'
                            THEN coalesce(excluded.registry_account, lots.registry_account) END,
    holding_id = CASE WHEN excluded.status = 'held' THEN coalesce(excluded.holding_id, lots.holding_id) END
"""


_STORED = (*("vintage", "serial", "country", "methodology", "status", "retirement_url", "retired_on", "cost_currency"),)


async def save_lots(
    tx: Connection, mode: Mode, lots: Mapping[str, LotUnits], project_ids: Mapping[tuple[Any, ...], str], now: datetime
) -> None:
    """`lots` are by id. The caller holds the locks of those that exist."""
    await tx.execute(SAVE_SERIAL_BLOCKS, sorted({units.namespace for _, units in lots.values()}))
    records = (
        {
            **{name: getattr(row, name) for name in _STORED},
            "id": id_,
            "project_id": project_ids[row.project_key],
            "namespace": units.namespace,
            "first_number": units.first,
            "last_number": units.last,
            "unit_grams": units.unit_grams,
            "unit_cost_minor": row.unit_cost_minor,
            "facts": msgspec.json.encode(row.facts).decode(),
            "registry_account": _simulated_account(mode, row, units),
        }
        for id_, (row, units) in lots.items()
    )
    await tx.execute(SAVE_LOTS, mode, now, json_rows(records))


def _simulated_account(mode: Mode, row: LotRow, units: UnitRange) -> str | None:
    """Test lots are held at the simulated registries. One of them numbers kilograms, as Isometric does."""
    if mode is not Mode.TEST or row.status != LotStatus.HELD:
        return None
    return "sim-holding" if units.unit_grams == KILOGRAM_GRAMS else "sim-key"


async def withdraw_lot(tx: Connection, lot_id: str, *, reason: str, by: By) -> ListedLot:
    """Withdraw a lot of which no order holds grams. Its serial numbers may be imported again."""
    await acquire_import_lock(tx)
    lot = await lock_lot(tx, lot_id)
    if lot is None:
        withdrawn = await find_withdrawn_lot(tx, lot_id)
        if withdrawn is not None and withdrawn.withdrawn_at is not None:
            raise LotNotFound(f"Lot {lot_id} was already withdrawn on {withdrawn.withdrawn_at.date()}.")
        raise LotNotFound(f"There is no lot {lot_id}. Run `tonne lot list --mode live` or `--mode test` to see all.")
    if lot.allocated_grams:
        holders = await find_holders_any_account(tx, lot.mode, [lot.id])
        raise LotInUse(
            f"{format_tonnes(lot.allocated_grams)} t of lot {lot.id} are allocated to "
            f"{name_holders(holders.get(lot.id, []))}, so it cannot be withdrawn. `tonne lot show {lot.id}` lists them."
        )
    await move_to_withdrawn(tx, lot, by=by, reason=reason)
    if await find_overheld_any_account(tx, lot.mode):
        raise LotInUse(
            f"Customers who are paying now hold tonnes of lot {lot.id}, so it cannot be withdrawn. Try again in 35 "
            "minutes."
        )
    before = {
        "registry": lot.registry,
        "registry_project_id": lot.registry_project_id,
        "vintage": lot.vintage,
        "serial": lot.serial,
        "status": lot.status,
    }
    await audit.record(
        tx,
        None,
        "lot.withdrawn",
        by=by,
        subject_id=lot.id,
        mode=lot.mode,
        before=before,
        reason=reason,
    )
    return lot

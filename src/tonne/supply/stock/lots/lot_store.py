"""Lists lots for an operator, and moves those that are withdrawn or invalid."""

from datetime import date, datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of, value_or_none
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import By, Mode, replace
from tonne.selling.orders.model import OrderKey


class ListedLot(Struct, frozen=True):
    """`status` is `held`, `pre_retired`, `withdrawn` or `invalid`.

    `allocated_grams` includes `invalid_grams`: those that no order holds of an invalid lot. `reason` is why it was
    withdrawn, invalidated or paused.
    """

    mode: Mode
    id: str
    registry: str
    registry_project_id: str
    vintage: int
    serial: str
    unit_grams: int
    quantity_grams: int
    allocated_grams: int
    status: str
    retirement_url: str | None
    retired_on: date | None
    country: str
    methodology: str | None
    created_at: datetime
    unit_cost_minor: int | None
    cost_currency: str | None
    invalid_grams: int = 0
    # Set by `add_retired_any_account`.
    retired_grams: int = 0
    invalidated_at: datetime | None = None
    withdrawn_at: datetime | None = None
    paused_at: datetime | None = None
    reason: str | None = None

    @property
    def free_grams(self) -> int:
        return 0 if self.status == "withdrawn" else self.quantity_grams - self.allocated_grams

    @property
    def unit_cost(self) -> str | None:
        """Per tonne, in `cost_currency`."""
        if self.unit_cost_minor is None or self.cost_currency is None:
            return None
        return format_money(self.unit_cost_minor, self.cost_currency)

    @property
    def held_grams(self) -> int:
        """In parcels that are not retired."""
        return self.allocated_grams - self.invalid_grams - self.retired_grams


_LOT = """
lot.mode, lot.id, project.registry, project.registry_project_id, lot.vintage,
lot.serial, lot.unit_grams, lot.quantity_grams, lot.allocated_grams,
CASE WHEN lot.invalidated_at IS NULL THEN lot.status ELSE 'invalid' END AS status,
lot.retirement_url, lot.retired_on, lot.country, lot.methodology, lot.created_at, lot.unit_cost_minor,
lot.cost_currency, lot.invalid_grams, lot.invalidated_at, lot.paused_at,
coalesce(lot.invalid_reason, lot.pause_reason) AS reason
"""
_PROJECT = "JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id"
_LOTS = f"lots lot {_PROJECT}"
LIST_LOTS = f"""
SELECT {_LOT} FROM {_LOTS}
WHERE lot.mode = $1 ORDER BY project.registry, project.registry_project_id, lot.vintage, lot.id
"""  # noqa: S608 - a constant


async def list_lots(connection: Connection, mode: Mode) -> list[ListedLot]:
    """By project, oldest vintage first, as they are allocated."""
    return [value_of(ListedLot, row) for row in await connection.fetch(LIST_LOTS, mode)]


LIST_PROJECT_LOTS = f"""
SELECT {_LOT} FROM {_LOTS}
WHERE lot.mode = $1 AND lot.project_id = $2 AND (lot.vintage, lot.id) > ($3, $4) ORDER BY lot.vintage, lot.id LIMIT $5
"""  # noqa: S608 - a constant


async def list_project_lots(
    connection: Connection, mode: Mode, project_id: str, *, after: tuple[int, str] = (0, ""), limit: int
) -> list[ListedLot]:
    """Oldest vintage first, as they are allocated, after this vintage and id."""
    rows = await connection.fetch(LIST_PROJECT_LOTS, mode, project_id, *after, limit)
    return [value_of(ListedLot, row) for row in rows]


READ_RETIRED = """
SELECT lot_id, sum(quantity_grams)::bigint AS grams FROM parcels
WHERE mode = $1 AND lot_id = ANY ($2::text[]) AND status = 'retired' GROUP BY lot_id
"""


async def add_retired_any_account(connection: Connection, mode: Mode, lots: list[ListedLot]) -> list[ListedLot]:
    """These lots with the grams that are retired of each."""
    if not lots:
        # PostgreSQL would read all parcels to find none.
        return []
    rows = await connection.fetch(READ_RETIRED, mode, [lot.id for lot in lots])
    retired = {row["lot_id"]: row["grams"] for row in rows}
    return [replace(lot, retired_grams=retired.get(lot.id, 0)) for lot in lots]


_WITHDRAWN = """
lot.mode, lot.id, project.registry, project.registry_project_id, lot.vintage, lot.serial, lot.unit_grams,
lot.quantity_grams, 0::bigint AS allocated_grams,
'withdrawn' AS status, lot.retirement_url, lot.retired_on, lot.country, lot.methodology, lot.created_at,
lot.unit_cost_minor, lot.cost_currency, lot.withdrawn_at, lot.reason
"""
LIST_WITHDRAWN = f"""
SELECT {_WITHDRAWN} FROM withdrawn_lots lot {_PROJECT}
WHERE lot.mode = $1 ORDER BY lot.withdrawn_at, lot.id
"""  # noqa: S608 - a constant


async def list_withdrawn_lots(connection: Connection, mode: Mode) -> list[ListedLot]:
    return [value_of(ListedLot, row) for row in await connection.fetch(LIST_WITHDRAWN, mode)]


FIND_WITHDRAWN = f"""
SELECT {_WITHDRAWN} FROM withdrawn_lots lot {_PROJECT} WHERE lot.id = $1
"""  # noqa: S608 - a constant


async def find_withdrawn_lot(connection: Connection, lot_id: str) -> ListedLot | None:
    return value_or_none(ListedLot, await connection.fetchrow(FIND_WITHDRAWN, lot_id))


FIND_LOT = f"""
SELECT {_LOT} FROM {_LOTS} WHERE lot.id = $1
"""  # noqa: S608 - a constant


async def find_lot(connection: Connection, lot_id: str) -> ListedLot | None:
    return value_or_none(ListedLot, await connection.fetchrow(FIND_LOT, lot_id))


# Waits for an allocation that has locked the lot.
LOCK_LOT = f"""
SELECT {_LOT} FROM {_LOTS} WHERE lot.id = $1 FOR UPDATE OF lot
"""  # noqa: S608 - a constant


async def lock_lot(tx: Connection, lot_id: str) -> ListedLot | None:
    return value_or_none(ListedLot, await tx.fetchrow(LOCK_LOT, lot_id))


MOVE_LOT = """
WITH moved AS (
    DELETE FROM lots WHERE mode = $1 AND id = $2 AND allocated_grams = 0
    RETURNING mode, id, project_id, vintage, serial, unit_grams, quantity_grams, country, methodology, status,
              retirement_url, retired_on, created_at, unit_cost_minor, cost_currency, facts
)
INSERT INTO withdrawn_lots (mode, id, project_id, vintage, serial, unit_grams, quantity_grams, country, methodology,
                            status, retirement_url, retired_on, created_at, unit_cost_minor, cost_currency, facts,
                            withdrawn_at, withdrawn_by, reason)
SELECT mode, id, project_id, vintage, serial, unit_grams, quantity_grams, country, methodology, status,
       retirement_url, retired_on, created_at, unit_cost_minor, cost_currency, facts, $3, $4, $5
FROM moved
"""


async def move_to_withdrawn(tx: Connection, lot: ListedLot, *, by: By, reason: str) -> None:
    await tx.execute(MOVE_LOT, lot.mode, lot.id, by.at, str(by.actor), reason)


class ListedParcel(Struct, frozen=True):
    id: str
    start_grams: int
    quantity_grams: int
    # The grams that orders have. The rest of a pooled unit, or of what was replaced, belongs to nobody.
    allocated_grams: int
    status: str
    retired_on: date | None
    order_ids: list[str]


LIST_PARCELS = """
SELECT parcel.id, parcel.start_grams, parcel.quantity_grams, parcel.allocated_grams, parcel.status,
       parcel.retired_on,
       ARRAY(SELECT DISTINCT share.order_id FROM shares share
             WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id ORDER BY share.order_id) AS order_ids
FROM parcels parcel WHERE parcel.mode = $1 AND parcel.lot_id = $2 AND parcel.start_grams >= $3
ORDER BY parcel.start_grams LIMIT $4
"""


async def list_parcels_any_account(
    connection: Connection, lot: ListedLot, *, from_grams: int = 0, limit: int | None = None
) -> list[ListedParcel]:
    """The parcels of a lot with the orders that hold them, beginning at these grams of the lot."""
    rows = await connection.fetch(LIST_PARCELS, lot.mode, lot.id, from_grams, limit)
    return [ListedParcel(**row) for row in rows]


# Sorted, so that two transactions cannot deadlock. Waits for confirmations and allocations that have locked one.
LOCK_PARCELS_OF_LOT = "SELECT true FROM parcels WHERE mode = $1 AND lot_id = $2 ORDER BY id FOR UPDATE"


async def lock_parcels_of_lot_any_account(tx: Connection, lot: ListedLot) -> None:
    await tx.execute(LOCK_PARCELS_OF_LOT, lot.mode, lot.id)


FIND_HELD = """
SELECT share.account_id, share.order_id, sum(share.quantity_grams)::bigint AS grams
FROM parcels parcel JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
WHERE parcel.mode = $1 AND parcel.lot_id = $2 GROUP BY share.account_id, share.order_id
ORDER BY share.account_id, share.order_id
"""


async def find_held_any_account(tx: Connection, lot: ListedLot) -> dict[OrderKey, int]:
    """The grams that each order holds of the lot."""
    rows = await tx.fetch(FIND_HELD, lot.mode, lot.id)
    return {OrderKey(row["account_id"], row["order_id"]): row["grams"] for row in rows}


# The whole lot counts as allocated: every query for free grams then leaves it out.
MARK_LOT = """
UPDATE lots SET invalidated_at = $3, invalidated_by = $4, invalid_reason = $5,
                invalid_grams = quantity_grams - allocated_grams, allocated_grams = quantity_grams
WHERE mode = $1 AND id = $2
"""
# What a registry is asked to retire waits for its answer.
MARK_PARCELS = """
UPDATE parcels SET invalidated_at = $3, close_at = NULL,
                   status = CASE WHEN status = 'retired' OR instruction_id IS NOT NULL THEN status ELSE 'invalid' END
WHERE mode = $1 AND lot_id = $2
"""


async def mark_invalid(tx: Connection, lot: ListedLot, *, reason: str, by: By) -> None:
    await tx.execute(MARK_LOT, lot.mode, lot.id, by.at, str(by.actor), reason)
    await tx.execute(MARK_PARCELS, lot.mode, lot.id, by.at)


HAS_DEMO_LOTS = "SELECT EXISTS (SELECT FROM lots WHERE mode = 'live' AND serial LIKE 'TEST-LIVE-%')"


async def has_demo_lots(connection: Connection) -> bool:
    """Whether live lots have serials that were made up for a demo."""
    return bool(await connection.fetchval(HAS_DEMO_LOTS))

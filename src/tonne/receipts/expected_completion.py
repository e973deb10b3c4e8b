"""When the certificate of an order is expected, for receipts, order pages and operators."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.orders.model import Order, OrderStatus


class Awaited(StrEnum):
    """What the certificate waits for."""

    NOTHING = "nothing"
    PAYMENT = "payment"
    # Not enough credits are in stock. Nobody knows when there will be.
    SUPPLY = "supply"
    # The seller retires whole units at the registry and confirms it.
    RETIREMENT = "retirement"
    # A fraction waits for others to fill a registry unit. The unit is retired after `unit_closes_at` at the latest.
    POOLED_UNIT = "pooled_unit"


@dataclass(frozen=True, slots=True)
class Expectation:
    """`by` is when the certificate is expected at the latest; None if there is none to expect, or nobody can say."""

    awaited: Awaited
    by: datetime | None = None
    unit_closes_at: datetime | None = None

    @property
    def sentence(self) -> str:
        """For the customer. Empty for orders that have a certificate or will not get one."""
        match self.awaited:
            case Awaited.NOTHING:
                return ""
            case Awaited.PAYMENT:
                return "The certificate is issued after the payment."
            case Awaited.SUPPLY:
                return "We are waiting for more credits of these projects. The certificate is issued once we have them."
            case Awaited.RETIREMENT:
                return f"We expect to issue the certificate by {_day(self.by)}."
            case Awaited.POOLED_UNIT:
                return (
                    "A part of a tonne is retired together with later purchases. We expect to issue the certificate by "
                    f"{_day(self.by)}."
                )


async def expected_completion(
    connection: Connection, order: Order, *, settings: Settings, now: datetime
) -> Expectation:
    """When the certificate of this order is expected, and what it waits for.

    Whole units: the seller confirms a retirement within `retirement_days` of the allocation. A fraction in an open
    unit: at the closing date of the unit, plus `retirement_days`. Orders that were paid at checkout do not wait for a
    unit: their fractions come from units in the service's name. Before the allocation, the unit is not known yet, and
    the date is the latest possible one. `by` is never in the past.
    """
    if order.status in {OrderStatus.COMPLETE, OrderStatus.CANCELLED, OrderStatus.FAILED}:
        return Expectation(Awaited.NOTHING)
    if order.status in {OrderStatus.RECEIVED, OrderStatus.PLACED}:
        return Expectation(Awaited.PAYMENT)
    if order.status is OrderStatus.RETIRING:
        return await _after_allocation(connection, order, settings=settings, now=now)
    return await _before_allocation(connection, order, settings=settings, now=now)


# A registry may only retire larger units than the end of a line: the rest then shares a unit.
HAS_FRACTION = """
SELECT EXISTS (
    SELECT FROM order_lines line
    JOIN bundle_projects member ON member.mode = $3 AND member.bundle_id = line.bundle_id
    JOIN projects project ON project.mode = member.mode AND project.id = member.project_id
    WHERE line.account_id = $1 AND line.order_id = $2 AND line.quantity_grams % project.granularity_grams <> 0)
"""


async def _before_allocation(connection: Connection, order: Order, *, settings: Settings, now: datetime) -> Expectation:
    if any(line.insufficient_available_quantity for line in order.lines):
        return Expectation(Awaited.SUPPLY)
    if order.scope.mode is Mode.TEST:
        # Nothing is retired: orders of a test account advance at once, or when a test helper is called.
        return Expectation(Awaited.RETIREMENT, now)
    latest = now + timedelta(days=settings.retirement_days)
    key = (order.scope.account_id, order.id)
    if not order.is_paid_at_checkout and await connection.fetchval(HAS_FRACTION, *key, order.scope.mode):
        wait = timedelta(days=settings.pool_wait_days)
        return Expectation(Awaited.POOLED_UNIT, latest + wait, now + wait)
    return Expectation(Awaited.RETIREMENT, latest)


READ_PROGRESS = """
SELECT orders.status_changed_at AS allocated_at, max(parcel.close_at) AS close_at,
       count(*) FILTER (WHERE parcel.status <> 'retired' OR parcel.invalidated_at IS NOT NULL) AS unretired,
       count(*) FILTER (WHERE parcel.invalidated_at IS NOT NULL) AS invalid
FROM orders
JOIN shares share ON share.account_id = orders.account_id AND share.order_id = orders.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
WHERE orders.account_id = $1 AND orders.id = $2 GROUP BY orders.status_changed_at
"""


async def _after_allocation(connection: Connection, order: Order, *, settings: Settings, now: datetime) -> Expectation:
    found = await connection.fetchrow(READ_PROGRESS, order.scope.account_id, order.id)
    if found is None or not found["unretired"]:
        return Expectation(Awaited.RETIREMENT, now)
    if found["invalid"]:
        return Expectation(Awaited.SUPPLY)
    takes = timedelta(days=settings.retirement_days)
    if found["close_at"] is not None:
        return Expectation(Awaited.POOLED_UNIT, max(found["close_at"] + takes, now), found["close_at"])
    return Expectation(Awaited.RETIREMENT, max(found["allocated_at"] + takes, now))


def _day(moment: datetime | None) -> str:
    if moment is None:
        return ""
    day = moment.astimezone(UTC).date()
    return f"{day.day} {day:%B %Y}"

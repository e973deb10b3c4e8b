"""When the certificate of an order is expected, for receipts, order pages and operators."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.platform.web.wording import ENGLISH, LocalWording
from tonne.selling.orders.model import Order, OrderStatus

# A worker allocates paid orders within seconds. One that is still not allocated then waits for credits.
ALLOCATED_WITHIN = timedelta(hours=1)
# A registry with an API retires within minutes; one that does not answer for hours is late.
BY_GATEWAY = timedelta(days=1)


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


class Expectation(Struct, frozen=True):
    """`by` is when the certificate is expected at the latest; None if there is none to expect, or nobody can say.

    `is_late`: the day that was announced has passed.
    """

    awaited: Awaited
    by: datetime | None = None
    unit_closes_at: datetime | None = None
    is_late: bool = False

    @property
    def sentence(self) -> str:
        return self.describe(ENGLISH)

    def describe(self, wording: LocalWording) -> str:
        """For the customer. Empty for orders that have a certificate or will not get one."""
        _ = wording.translate
        if self.is_late:
            return _(
                "This takes longer than we expected. You don't have to do anything: we issue the certificate as soon as"
                " the credits are retired."
            )
        day = "" if self.by is None else wording.day(self.by)
        match self.awaited:
            case Awaited.NOTHING:
                return ""
            case Awaited.PAYMENT:
                return _("The certificate is issued after the payment.")
            case Awaited.SUPPLY:
                return _(
                    "We are waiting for more credits of these projects. The certificate is issued once we have them."
                )
            case Awaited.RETIREMENT:
                return _("We expect to issue the certificate by %(day)s.", day=day)
            case Awaited.POOLED_UNIT:
                return _(
                    "A part of a tonne is retired together with later purchases. We expect to issue the certificate by"
                    " %(day)s.",
                    day=day,
                )


async def expected_completion(
    connection: Connection, order: Order, *, settings: Settings, now: datetime
) -> Expectation:
    """When the certificate of this order is expected, and what it waits for.

    Whole units: the seller confirms a retirement within `retirement_days` of the allocation; registries with an API
    retire on the same day or the next, unless a person has to. A fraction in a pooled
    unit: within `retirement_days` of its closing. Orders that were paid at checkout do not wait for a unit: their
    fractions come from units in the service's name. Before the allocation, the unit is not known yet, and the date is
    the latest possible one. A complete order whose certificate is being replaced waits like a retiring one. An order
    that is not allocated soon after its payment waits for supply. A day that has passed is not moved to today: the
    order is late.
    """
    if order.certificate_due_on is not None:
        return await _after_allocation(connection, order, settings=settings, now=now)
    if order.status in {OrderStatus.COMPLETE, OrderStatus.CANCELLED, OrderStatus.FAILED}:
        return Expectation(Awaited.NOTHING)
    if order.status in {OrderStatus.RECEIVED, OrderStatus.PLACED}:
        return Expectation(Awaited.PAYMENT)
    if order.status is OrderStatus.RETIRING:
        return await _after_allocation(connection, order, settings=settings, now=now)
    return await _before_allocation(connection, order, settings=settings, now=now)


# A registry may only retire larger units than the end of a line: the rest then shares a unit. `paid_at` is null in the
# transaction that marks the order as paid.
READ_PAID = """
SELECT CASE WHEN orders.status = 'paid' THEN orders.status_changed_at END AS paid_at,
       EXISTS (
           SELECT FROM order_lines line
           JOIN bundle_projects member ON member.mode = orders.mode AND member.bundle_id = line.bundle_id
           JOIN projects project ON project.mode = member.mode AND project.id = member.project_id
           WHERE line.account_id = orders.account_id AND line.order_id = orders.id
             AND line.quantity_grams % project.granularity_grams <> 0) AS has_fraction
FROM orders WHERE orders.account_id = $1 AND orders.id = $2
"""


async def _before_allocation(connection: Connection, order: Order, *, settings: Settings, now: datetime) -> Expectation:
    if any(line.insufficient_available_quantity for line in order.lines) or order.is_short_by_simulation:
        return Expectation(Awaited.SUPPLY)
    if order.scope.mode is Mode.TEST:
        # A simulated registry retires test credits within seconds, or when a test helper is called.
        return Expectation(Awaited.RETIREMENT, max(filter(None, [now, order.fulfil_after])))
    [found] = await connection.fetch(READ_PAID, order.scope.account_id, order.id)
    paid_at = max(filter(None, [found["paid_at"] or now, order.fulfil_after]))
    if now - paid_at > ALLOCATED_WITHIN:
        return Expectation(Awaited.SUPPLY)
    latest = paid_at + timedelta(days=settings.retirement_days)
    if not order.is_paid_at_checkout and found["has_fraction"]:
        wait = timedelta(days=settings.pool_wait_days)
        return Expectation(Awaited.POOLED_UNIT, latest + wait, paid_at + wait)
    return Expectation(Awaited.RETIREMENT, latest)


# When the work on each unit could begin: the credits were assigned to the order, and the unit was closed.
READ_PROGRESS = """
SELECT max(greatest(coalesce(share.assigned_at, orders.status_changed_at), parcel.closed_at, parcel.close_at)) AS since,
       max(parcel.close_at) AS close_at, count(*) AS unretired,
       bool_and(lot.registry_account IS NOT NULL AND lot.paused_at IS NULL AND parcel.desk_note IS NULL
                AND parcel.exported_at IS NULL) AS is_automatic,
       count(*) FILTER (WHERE parcel.invalidated_at IS NOT NULL) AS invalid
FROM orders
JOIN shares share ON share.account_id = orders.account_id AND share.order_id = orders.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
WHERE orders.account_id = $1 AND orders.id = $2
  AND (parcel.status <> 'retired' OR parcel.invalidated_at IS NOT NULL)
"""


async def _after_allocation(connection: Connection, order: Order, *, settings: Settings, now: datetime) -> Expectation:
    [found] = await connection.fetch(READ_PROGRESS, order.scope.account_id, order.id)
    if not found["unretired"]:
        return Expectation(Awaited.RETIREMENT, now)
    if found["invalid"]:
        return Expectation(Awaited.SUPPLY)
    by = found["since"] + (BY_GATEWAY if found["is_automatic"] else timedelta(days=settings.retirement_days))
    awaited = Awaited.RETIREMENT if found["close_at"] is None else Awaited.POOLED_UNIT
    # The whole day counts, as the day is what was announced.
    is_late = by.astimezone(UTC).date() < now.astimezone(UTC).date()
    return Expectation(awaited, max(by, now), found["close_at"], is_late)

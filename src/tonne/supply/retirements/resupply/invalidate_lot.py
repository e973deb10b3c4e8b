"""Invalidate a lot whose credits turned out to be worthless, although orders hold grams of it.

The orders that hold credits of a lot are listed, and what became of those of an invalid lot.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode
from tonne.selling.catalogue.imports.store import acquire_import_lock
from tonne.selling.orders.model import Order, OrderKey, OrderStatus
from tonne.selling.orders.queue import lock_orders
from tonne.selling.orders.quotes.store import recount_held
from tonne.supply.stock.errors import LotNotFound, LotNotInUse
from tonne.supply.stock.holds.hold_store import delete_overheld
from tonne.supply.stock.lots import lot_case_store, lot_store
from tonne.supply.stock.lots.lot_store import ListedLot, find_withdrawn_lot, lock_lot


class Invalidation(Struct, frozen=True):
    """`lost_holds` are checkouts whose customers are paying now for tonnes of the lot."""

    lot: ListedLot
    cases: list[lot_case_store.LotCase]
    lost_holds: list[str]
    was_invalid: bool = False


async def invalidate_lot(tx: Connection, lot_id: str, *, reason: str, by: By) -> Invalidation:
    """Take the free grams of a lot out of supply, and open a case for every order that holds grams of it.

    Orders without a certificate are due for other credits at once. Those with a certificate wait for the operator's
    decision. A lot that is invalid already is returned as it is.
    """
    await acquire_import_lock(tx)
    lot = await lock_lot(tx, lot_id)
    if lot is None:
        if await find_withdrawn_lot(tx, lot_id) is not None:
            raise LotNotFound(f"Lot {lot_id} was withdrawn: no order holds tonnes of it.")
        raise LotNotFound
    if lot.invalidated_at is not None:
        return Invalidation(lot, await lot_case_store.list_cases_any_account(tx, lot_id), [], was_invalid=True)
    if not lot.allocated_grams:
        raise LotNotInUse(f"No order holds tonnes of lot {lot_id}. Withdraw it with `tonne lot withdraw {lot_id}`.")
    # Parcels before orders, as importing confirmations does: see the lock order in docs/architecture.md.
    await lot_store.lock_parcels_of_lot_any_account(tx, lot)
    held = await lot_store.find_held_any_account(tx, lot)
    orders = await lock_orders(tx, list(held))
    certificates = await _find_certificates_any_account(tx, list(held))
    await lot_store.mark_invalid(tx, lot, reason=reason, by=by)
    cases = [_new_case(orders[key.id], grams, certificates.get(key.id), by.at) for key, grams in held.items()]
    await lot_case_store.insert_cases_any_account(tx, lot.mode, lot.id, cases, by.at)
    lost = await delete_overheld(tx, lot.mode)
    await recount_held(tx, lost)
    await _record(tx, lot, cases, lost, reason=reason, by=by)
    return Invalidation(lot, await lot_case_store.list_cases_any_account(tx, lot_id), list(lost))


class _Certificate(Struct, frozen=True):
    number: str
    is_valid: bool


FIND_CERTIFICATES = """
SELECT order_id, number, state = 'valid' AS is_valid FROM certificates
WHERE (account_id, order_id) IN (SELECT account_id, id FROM unnest($1::text[], $2::text[]) AS held (account_id, id))
  AND state <> 'replaced'
"""


async def _find_certificates_any_account(tx: Connection, keys: Sequence[OrderKey]) -> dict[str, _Certificate]:
    """The current certificates of these orders, by order."""
    rows = await tx.fetch(FIND_CERTIFICATES, [key.account_id for key in keys], [key.id for key in keys])
    return {row["order_id"]: _Certificate(row["number"], row["is_valid"]) for row in rows}


def _new_case(order: Order, grams: int, certificate: _Certificate | None, now: datetime) -> lot_case_store.NewCase:
    number = None if certificate is None else certificate.number
    # If the certificate is being replaced already, it was decided that the order gets other credits.
    if order.status is not OrderStatus.COMPLETE or order.certificate_due_on is not None:
        return lot_case_store.NewCase(
            order.scope, order.id, grams, number, lot_case_store.CaseState.RESUPPLY, now, None
        )
    if certificate is not None and not certificate.is_valid:
        return lot_case_store.NewCase(
            order.scope, order.id, grams, number, lot_case_store.CaseState.WITHDRAWN, None, now
        )
    return lot_case_store.NewCase(order.scope, order.id, grams, number, lot_case_store.CaseState.UNDECIDED, None, None)


async def _record(
    tx: Connection,
    lot: ListedLot,
    cases: Sequence[lot_case_store.NewCase],
    lost_holds: Collection[str],
    *,
    reason: str,
    by: By,
) -> None:
    """Each organisation sees which of its orders are affected."""
    serials = {"serial": lot.serial}
    entries = [
        audit.Entry(
            action="lot.invalidated",
            subject_id=lot.id,
            mode=lot.mode,
            before={"status": lot.status, "free_grams": lot.free_grams},
            after={"status": "invalid", "free_grams": 0},
            details={"reason": reason, "orders": len(cases), "lost_holds": list(lost_holds), **serials},
        )
    ]
    entries += [
        audit.Entry(
            action="order.credits_invalidated",
            subject_id=case.order_id,
            organisation_id=case.scope.organisation_id,
            mode=Mode(lot.mode),
            details={
                "lot_id": lot.id,
                "reason": reason,
                "quantity_grams": case.quantity_grams,
                "certificate": case.certificate_number,
                "state": case.state,
            },
        )
        for case in cases
    ]
    await audit.record_all(tx, entries, by=by)


class LotHolder(Struct, frozen=True):
    """`case_state` is set if the lot is invalid. An order that has got other credits holds 0 g."""

    order_id: str
    account_id: str
    organisation_id: str
    order_status: str
    beneficiary: str
    quantity_grams: int
    retired_grams: int
    certificate_number: str | None
    certificate_state: str | None
    case_state: str | None


# The certificate of a case is the one that stated the lot, even if another one is current now.
LIST_HOLDERS = """
SELECT orders.id AS order_id, orders.account_id, orders.organisation_id, orders.status AS order_status,
       coalesce(orders.beneficiary, accounts.beneficiary) AS beneficiary,
       coalesce(held.grams, 0)::bigint AS quantity_grams, coalesce(held.retired, 0)::bigint AS retired_grams,
       certificate.number AS certificate_number, certificate.state AS certificate_state, lot_case.state AS case_state
FROM (SELECT parcel.mode, parcel.lot_id, share.account_id, share.order_id, sum(share.quantity_grams) AS grams,
             sum(share.quantity_grams) FILTER (WHERE parcel.status = 'retired') AS retired
      FROM parcels parcel JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
      WHERE parcel.mode = $1 AND parcel.lot_id = $2
      GROUP BY parcel.mode, parcel.lot_id, share.account_id, share.order_id) held
FULL JOIN (SELECT mode, lot_id, account_id, order_id, certificate_number, state FROM lot_cases
           WHERE mode = $1 AND lot_id = $2) lot_case USING (mode, lot_id, account_id, order_id)
JOIN orders ON orders.account_id = coalesce(held.account_id, lot_case.account_id)
           AND orders.id = coalesce(held.order_id, lot_case.order_id)
JOIN accounts ON accounts.organisation_id = orders.organisation_id AND accounts.id = orders.account_id
LEFT JOIN certificates certificate
       ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
      AND CASE WHEN lot_case.certificate_number IS NULL THEN certificate.state <> 'replaced'
               ELSE certificate.number = lot_case.certificate_number END
ORDER BY orders.created_at, orders.id
"""


async def list_holders_any_account(connection: Connection, lot: ListedLot) -> list[LotHolder]:
    """Oldest order first."""
    return [LotHolder(**row) for row in await connection.fetch(LIST_HOLDERS, lot.mode, lot.id)]

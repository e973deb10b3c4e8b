"""Correct the name of an order: in place until its first gram is retired, afterwards by a new certificate.

A name at a registry cannot be changed. So exactly one of two things happens when a correction races a retirement: the
registry gets the new name, or the correction is refused until the order is complete.
"""

from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Scope
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, Order, OrderStatus
from tonne.selling.orders.move_order import rewrite_documents
from tonne.selling.orders.queue import require_locked_order
from tonne.selling.orders.store import set_beneficiary
from tonne.supply.certificates.record import CertificateState
from tonne.supply.certificates.reissue_certificate import reissue_certificate
from tonne.supply.certificates.store import list_of_order
from tonne.supply.stock.errors import BeneficiaryRetired, CertificateNotValid
from tonne.supply.stock.lots.registry_name import registry_beneficiary
from tonne.supply.stock.model import ParcelStatus
from tonne.supply.stock.supply_store import ParcelOfOrder, find_parcel_ids, lock_parcels_of_order, rename_parcels

_ATTEMPTS = 5
_ENDED = (OrderStatus.CANCELLED, OrderStatus.FAILED)


class _AllocatedMeanwhile(Exception):
    """The order got its credits between the two locks."""


async def rename_order(
    tx: Connection,
    scope: Scope,
    order_id: str,
    beneficiary: Beneficiary,
    *,
    reason: str,
    settings: Settings,
    by: By,
) -> Order:
    """Change in whose name the certificate is issued, and return the order.

    Raises BeneficiaryRetired while only a part of the order is retired. `reason` is printed on the new certificate if
    the order is complete.
    """
    for _ in range(_ATTEMPTS):
        try:
            # A savepoint: parcels are locked before orders, so the lock on the order must be released to try again.
            async with tx.transaction():
                parcels = await lock_parcels_of_order(tx, scope, order_id)
                order = await _lock(tx, scope, order_id, parcels)
                return await _rename(tx, order, parcels, beneficiary, reason=reason, settings=settings, by=by)
        except _AllocatedMeanwhile:
            continue
    raise TransitionInvalid("The order is being processed right now. Try again.")


async def _lock(tx: Connection, scope: Scope, order_id: str, parcels: list[ParcelOfOrder]) -> Order:
    order = await require_locked_order(tx, scope, order_id)
    if order.status in _ENDED:
        raise TransitionInvalid(f"An order that is {order.status} gets no certificate, so its name cannot change.")
    if order.status is OrderStatus.RETIRING:
        if {parcel.id for parcel in parcels} != await find_parcel_ids(tx, scope, order_id):
            raise _AllocatedMeanwhile
        if any(parcel.status is ParcelStatus.RETIRED for parcel in parcels):
            raise BeneficiaryRetired
        if any(parcel.is_asked for parcel in parcels):
            raise TransitionInvalid("The registry is being asked to retire the credits. Try again in a few minutes.")
    return order


async def _rename(
    tx: Connection,
    order: Order,
    parcels: list[ParcelOfOrder],
    beneficiary: Beneficiary,
    *,
    reason: str,
    settings: Settings,
    by: By,
) -> Order:
    renamed = structs.replace(
        order,
        beneficiary=beneficiary.name,
        beneficiary_kind=beneficiary.kind,
        beneficiary_is_public=beneficiary.is_public,
    )
    if renamed == order:
        return order
    await set_beneficiary(tx, renamed)
    await _record(tx, order, renamed, reason=reason, by=by)
    if order.status is OrderStatus.COMPLETE:
        [current, *_] = await list_of_order(tx, order.scope, order.id)
        if current.state is not CertificateState.VALID:
            raise CertificateNotValid
        return await reissue_certificate(tx, renamed, reason=reason, settings=settings, by=by)
    name = registry_beneficiary(renamed)
    if parcels and name != registry_beneficiary(order):
        await rename_parcels(tx, renamed, parcels, name=name, service_name=settings.seller_name, now=by.at)
    await rewrite_documents(tx, [renamed])
    return renamed


async def _record(tx: Connection, order: Order, renamed: Order, *, reason: str, by: By) -> None:
    """Without names of persons: audit entries cannot be deleted."""
    await audit.record(
        tx,
        order.scope,
        "order.renamed",
        by=by,
        subject_id=order.id,
        before=_audited_values(order, "(former private name)"),
        after=_audited_values(renamed, "(new private name)"),
        reason=reason,
    )


def _audited_values(order: Order, private: str) -> audit.Values:
    return {
        # A person who agreed to be named in public may be erased later.
        "beneficiary": private if order.beneficiary_kind is BeneficiaryKind.PERSON else order.beneficiary,
        "kind": order.beneficiary_kind,
        "is_public": order.is_named_in_public,
        "registry_beneficiary": registry_beneficiary(order),
    }

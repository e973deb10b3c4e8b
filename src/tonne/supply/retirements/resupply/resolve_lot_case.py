"""The operator's decision about certificates that state an invalid lot."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor
from tonne.selling.orders.queue import lock_orders
from tonne.supply.certificates.reissue_certificate import withdraw_certificate
from tonne.supply.retirements.resupply.resupply_orders import is_certificate_valid
from tonne.supply.stock.errors import LotCaseDecided, LotCaseNotFound, LotNotFound
from tonne.supply.stock.lots.lot_case_store import CaseState, LotCase, lock_cases_any_account, move_case
from tonne.supply.stock.lots.lot_store import find_lot


class Decision(StrEnum):
    RESUPPLY = "resupply"
    WITHDRAW = "withdraw"


# The states in which each decision can be made. Deciding the same again changes nothing.
_OPEN = {
    # A withdrawn certificate can still be replaced.
    Decision.RESUPPLY: {CaseState.UNDECIDED, CaseState.WITHDRAWN},
    Decision.WITHDRAW: {CaseState.UNDECIDED, CaseState.RESUPPLY},
}
_SAME = {
    Decision.RESUPPLY: {CaseState.RESUPPLY, CaseState.RETIRING, CaseState.REISSUED, CaseState.RESUPPLIED},
    Decision.WITHDRAW: {CaseState.WITHDRAWN},
}


async def resolve_lot_cases(
    tx: Connection,
    lot_id: str,
    order_ids: Sequence[str] | None,
    decision: Decision,
    *,
    actor: Actor,
    now: datetime,
) -> list[LotCase]:
    """Decide about these orders, or about all that are undecided, and return those that the decision changed.

    With `resupply`, the worker supplies the order from other lots and issues the certificate again. With `withdraw`,
    the certificate is withdrawn at once, with the reason of the lot.
    """
    lot = await find_lot(tx, lot_id)
    if lot is None or lot.invalidated_at is None:
        raise LotNotFound(f"There is no invalid lot {lot_id}. Run `tonne lot list` to see all lots.")
    cases = await lock_cases_any_account(tx, lot_id, order_ids)
    if order_ids is None:
        cases = [case for case in cases if case.state is CaseState.UNDECIDED]
    elif missing := sorted(set(order_ids) - {case.order_id for case in cases}):
        raise LotCaseNotFound(f"Order {missing[0]} holds no tonnes of lot {lot_id}. See `tonne lot show {lot_id}`.")
    changed = [case for case in cases if _is_open(case, decision)]
    for case in changed:
        if decision is Decision.RESUPPLY:
            await move_case(tx, case.order_key, lot_id, CaseState.RESUPPLY, now=now, due_at=now, decided_by=actor)
        else:
            await _withdraw(tx, case, actor=actor, now=now)
    entries = [
        audit.Entry(
            action="order.invalid_credits_decided",
            subject_id=case.order_id,
            organisation_id=case.scope.organisation_id,
            mode=case.scope.mode,
            before={"state": case.state},
            after={"state": CaseState.RESUPPLY if decision is Decision.RESUPPLY else CaseState.WITHDRAWN},
            details={"lot_id": lot_id, "decision": decision},
        )
        for case in changed
    ]
    await audit.record_all(tx, entries, actor=actor, at=now)
    return changed


def _is_open(case: LotCase, decision: Decision) -> bool:
    if case.state in _SAME[decision]:
        return False
    if case.state not in _OPEN[decision]:
        raise LotCaseDecided(
            f"Order {case.order_id} has already got other credits, so its certificate cannot be withdrawn for lot "
            f"{case.lot_id}. A new certificate follows."
        )
    if decision is Decision.WITHDRAW and case.certificate_number is None:
        raise LotCaseDecided(
            f"Order {case.order_id} has no certificate to withdraw: it gets other credits as soon as there is supply."
        )
    return True


async def _withdraw(tx: Connection, case: LotCase, *, actor: Actor, now: datetime) -> None:
    order = (await lock_orders(tx, [case.order_key]))[case.order_id]
    # A case of another lot may have withdrawn it already.
    if await is_certificate_valid(tx, order):
        await withdraw_certificate(tx, order, reason=case.reason, actor=actor, now=now)
    await move_case(tx, case.order_key, case.lot_id, CaseState.WITHDRAWN, now=now, decided_by=actor)

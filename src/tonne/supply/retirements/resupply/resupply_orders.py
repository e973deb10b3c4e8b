"""Supply orders that hold grams of an invalid lot from other lots, and issue their certificates again.

The operator decides about certificates that state an invalid lot.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

import structlog
from msgspec import structs

from tonne.platform.db.batches import RETRY_AFTER, RowJobWithSettings, run_claimed
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import apportion, format_tonnes
from tonne.platform.values.context import By, job_actor
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderProject, OrderStatus, ProjectStatus
from tonne.selling.orders.move_order import rewrite_documents
from tonne.selling.orders.queue import lock_orders, postpone
from tonne.selling.orders.store import replace_projects
from tonne.supply.certificates.reissue_certificate import reissue_certificate, withdraw_certificate
from tonne.supply.retirements.allocate_orders import SHORT_RETRY, Sources, lock_supply, recipient_of, write_supply
from tonne.supply.retirements.allocation_events import record_allocations
from tonne.supply.stock.errors import LotCaseDecided, LotCaseNotFound, LotNotFound
from tonne.supply.stock.lots.lot_case_store import (
    CaseState,
    LotCase,
    claim_cases,
    lock_cases_any_account,
    move_case,
    postpone_cases,
)
from tonne.supply.stock.lots.lot_store import find_lot
from tonne.supply.stock.model import Share
from tonne.supply.stock.parcels.confirm_retirements import note_retired_projects
from tonne.supply.stock.parcels.replaced_share_store import LostShare, find_lost, release_lost
from tonne.supply.stock.plan_allocation import LineDemand, Supply
from tonne.supply.stock.supply_store import find_unretired

ACTOR = job_actor("resupply_orders")
# How often a case that waits for retirements is looked at, besides when one is confirmed.
RECHECK = timedelta(minutes=10)

_log = structlog.get_logger()


class ResupplyOrders(RowJobWithSettings, frozen=True):
    """A job of the worker. One case is one transaction, so that a crash loses nothing that was done before."""

    EVERY_S: ClassVar[int] = 2

    async def run_once(self) -> bool:
        """Handle one due case; false if there is none."""
        return await run_claimed(
            self.database,
            lambda tx, limit: claim_cases(tx, self.clock(), limit),
            self._handle,
            lambda tx, cases: postpone_cases(tx, cases, self.clock() + RETRY_AFTER),
            limit=1,
            failure_event="order_not_resupplied",
            describe=lambda case: {"order_id": case.order_id, "lot_id": case.lot_id},
        )

    async def _handle(self, tx: Connection, cases: Sequence[LotCase]) -> None:
        for case in cases:
            if case.state is CaseState.RESUPPLY:
                await resupply(tx, case, self.settings, self.clock())
            else:
                await _reissue_if_retired(tx, case, self.settings, self.clock())


async def resupply(tx: Connection, case: LotCase, settings: Settings, now: datetime) -> None:
    """Give the order of a locked case the same grams of other lots, or postpone the case if supply is short, or while a
    registry is asked to retire what the order holds of the lot.

    The same projects are preferred. Call it once per transaction, and last: it locks supply, then the order.
    """
    (order,) = await load_orders(tx, [case.order_key])
    if any(each.is_asked for each in await find_lost(tx, order, case.lot_id)):
        await move_case(tx, case.order_key, case.lot_id, CaseState.RESUPPLY, now=now, due_at=now + RECHECK)
        return
    # Lots and parcels before the order, as importing confirmations does: the order is not paid, but allocated.
    sources, supply, _ = await lock_supply(tx, case.scope.mode, [order], settings, now)
    order = (await lock_orders(tx, [case.order_key]))[case.order_id]
    lost = await find_lost(tx, order, case.lot_id)
    shares = _plan(supply, sources, order, lost)
    if shares is None:
        _log.warning("resupply_short", mode=case.scope.mode, order_id=order.id, lot_id=case.lot_id)
        await move_case(tx, case.order_key, case.lot_id, CaseState.RESUPPLY, now=now, due_at=now + SHORT_RETRY)
        return
    await release_lost(tx, order, case.lot_id, now)
    held = [(order, share) for share in shares]
    await write_supply(tx, case.scope.mode, supply, held, now=now, assigned_at=now)
    changed = await _change_projects(tx, order, lost, shares, sources)
    await _record(tx, case, order, changed, now)
    await record_allocations(tx, [changed], now)
    await _finish(tx, case, order, changed, settings=settings, now=now)


def _plan(supply: Supply, sources: Sources, order: Order, lost: Sequence[LostShare]) -> list[Share] | None:
    """The shares that replace what was lost; None if supply does not cover it."""
    by_project: defaultdict[tuple[int, str], int] = defaultdict(int)
    by_line: defaultdict[int, int] = defaultdict(int)
    for each in lost:
        by_project[each.line_position, each.project_id] += each.quantity_grams
        by_line[each.line_position] += each.quantity_grams
    bundles = {position: line.bundle_id for position, line in enumerate(order.lines, 1)}
    same = [
        LineDemand(
            position,
            bundles[position],
            grams,
            [source for source in sources.by_bundle.get(bundles[position], []) if source.project_id == project_id],
        )
        for (position, project_id), grams in by_project.items()
    ]
    recipient = recipient_of(order)
    if order.status is OrderStatus.COMPLETE:
        # Its certificate is withdrawn until the credits are retired: it must not wait for a unit to fill, too.
        recipient = structs.replace(recipient, in_service_name=True)
    shares = supply.allocate(recipient, same)
    if shares is None:
        others = [
            LineDemand(position, bundles[position], grams, sources.by_bundle.get(bundles[position], []))
            for position, grams in by_line.items()
        ]
        shares = supply.allocate(recipient, others)
    return shares


async def _change_projects(
    tx: Connection, order: Order, lost: Sequence[LostShare], shares: Sequence[Share], sources: Sources
) -> Order:
    """The order with the projects that it has now. The cost of each line is split over them again."""
    known = {project.project_id: project for project in order.projects}
    projects: list[OrderProject] = []
    for position, line in enumerate(order.lines, 1):
        grams: dict[str, int] = {}
        for project in order.projects:
            if project.line_position == position:
                grams[project.project_id] = grams.get(project.project_id, 0) + project.quantity_grams
        for each in lost:
            if each.line_position == position:
                grams[each.project_id] -= each.quantity_grams
        for share in shares:
            if share.line_position == position:
                id_ = share.parcel.project_id
                grams[id_] = grams.get(id_, 0) + share.quantity_grams
        grams = {id_: quantity for id_, quantity in grams.items() if quantity}
        costs = apportion(line.offset_cost_minor, list(grams.values()))
        for (id_, quantity), cost_minor in zip(grams.items(), costs, strict=True):
            named = known.get(id_) or _named(sources, id_)
            projects.append(
                structs.replace(
                    named,
                    line_position=position,
                    quantity_grams=quantity,
                    unit_price_minor=line.unit_price_minor,
                    offset_cost_minor=cost_minor,
                    status=ProjectStatus.ALLOCATED,
                )
            )
    await replace_projects(tx, structs.replace(order, projects=tuple(projects)))
    await note_retired_projects(tx, [order.key])
    (changed,) = await load_orders(tx, [order.key])
    return changed


def _named(sources: Sources, project_id: str) -> OrderProject:
    project = sources.projects[project_id]
    return OrderProject(
        line_position=0,
        project_id=project_id,
        project_name=project.name,
        project_type=project.type,
        project_slug=project.slug,
        project_logo=sources.logo_of(project_id),
        quantity_grams=0,
        unit_price_minor=0,
        offset_cost_minor=0,
        status=ProjectStatus.ALLOCATED,
    )


async def _record(tx: Connection, case: LotCase, before: Order, after: Order, now: datetime) -> None:
    await audit.record(
        tx,
        case.scope,
        "order.resupplied",
        by=ACTOR.at(now),
        subject_id=case.order_id,
        before={"lot_id": case.lot_id, "projects": _grams_of(before)},
        after={"lot_id": None, "projects": _grams_of(after)},
        reason=case.reason,
    )


def _grams_of(order: Order) -> dict[str, str]:
    grams: defaultdict[str, int] = defaultdict(int)
    for project in order.projects:
        grams[project.project_id] += project.quantity_grams
    return {id_: format_tonnes(quantity) for id_, quantity in grams.items()}


async def _finish(
    tx: Connection, case: LotCase, before: Order, order: Order, *, settings: Settings, now: datetime
) -> None:
    if order.status is not OrderStatus.COMPLETE:
        await rewrite_documents(tx, [order])
        # All its grams may be retired now.
        await postpone(tx, [order.key], OrderStatus.RETIRING, now)
        await move_case(tx, case.order_key, case.lot_id, CaseState.RESUPPLIED, now=now, resupplied_at=now)
    elif await find_unretired(tx, [order.key]):
        # Nothing is certified until the new credits are retired.
        if await is_certificate_valid(tx, order):
            reason = f"{_sentence(case.reason)} Other credits are being retired instead, and a new certificate follows."
            await withdraw_certificate(tx, before, reason=reason, by=ACTOR.at(now))
        expected_on = (now + timedelta(days=settings.retirement_days)).date()
        await rewrite_documents(tx, [structs.replace(order, certificate_due_on=expected_on)])
        due_at = now + RECHECK
        await move_case(tx, case.order_key, case.lot_id, CaseState.RETIRING, now=now, due_at=due_at, resupplied_at=now)
    else:
        former = before if await is_certificate_valid(tx, order) else None
        await reissue_certificate(
            tx, order, reason=case.reason, settings=settings, by=ACTOR.at(now), former=former, assigned_at=now
        )
        await move_case(tx, case.order_key, case.lot_id, CaseState.REISSUED, now=now, resupplied_at=now)


async def _reissue_if_retired(tx: Connection, case: LotCase, settings: Settings, now: datetime) -> None:
    """Issue the certificate again if every gram of the order is retired. Call it last in the transaction."""
    await lock_orders(tx, [case.order_key])
    await note_retired_projects(tx, [case.order_key])
    (order,) = await load_orders(tx, [case.order_key])
    await record_allocations(tx, [order], now)
    if await find_unretired(tx, [order.key]):
        await rewrite_documents(tx, [order])
        await move_case(tx, case.order_key, case.lot_id, CaseState.RETIRING, now=now, due_at=now + RECHECK)
        return
    # It is valid if another lot of the order was invalid, too, and that case came first.
    if not await is_certificate_valid(tx, order):
        await reissue_certificate(
            tx, order, reason=case.reason, settings=settings, by=ACTOR.at(now), assigned_at=case.resupplied_at
        )
    await move_case(tx, case.order_key, case.lot_id, CaseState.REISSUED, now=now)


IS_VALID = "SELECT EXISTS (SELECT FROM certificates WHERE account_id = $1 AND order_id = $2 AND state = 'valid')"


async def is_certificate_valid(tx: Connection, order: Order) -> bool:
    return await tx.fetchval(IS_VALID, order.scope.account_id, order.id) is True


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


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
    by: By,
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
            await move_case(
                tx, case.order_key, lot_id, CaseState.RESUPPLY, now=by.at, due_at=by.at, decided_by=by.actor
            )
        else:
            await _withdraw(tx, case, by=by)
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
    await audit.record_all(tx, entries, by=by)
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


async def _withdraw(tx: Connection, case: LotCase, *, by: By) -> None:
    order = (await lock_orders(tx, [case.order_key]))[case.order_id]
    # A case of another lot may have withdrawn it already.
    if await is_certificate_valid(tx, order):
        await withdraw_certificate(tx, order, reason=case.reason, by=by)
    await move_case(tx, case.order_key, case.lot_id, CaseState.WITHDRAWN, now=by.at, decided_by=by.actor)

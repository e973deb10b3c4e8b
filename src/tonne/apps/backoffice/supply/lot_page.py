"""One lot: its serial numbers, the orders that hold it, and withdrawing, invalidating and deciding about it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Work
from tonne.apps.backoffice.supply.supply_bars import LABELS, bar_of_lot
from tonne.apps.backoffice.supply.work_list_store import ParcelOrder, list_parcel_orders_any_account
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import is_id
from tonne.platform.values.serials import serial_range
from tonne.platform.web.render import see_other
from tonne.supply.retirements.resupply.invalidate_lot import Invalidation, invalidate_lot
from tonne.supply.retirements.resupply.resupply_orders import Decision, resolve_lot_cases
from tonne.supply.stock.errors import LotCaseDecided, LotCaseNotFound, LotInUse, LotNotFound, LotNotInUse
from tonne.supply.stock.lots.lot_case_store import CaseState, list_cases_any_account
from tonne.supply.stock.lots.lot_store import ListedLot, find_lot, find_withdrawn_lot, list_parcels_any_account
from tonne.supply.stock.lots.lots import withdraw_lot
from tonne.supply.stock.supply_reads import add_retired_quickly_any_account, find_project_of_lot

PARCELS_PER_PAGE = 50
CASES_SHOWN = 100
MAX_REASON = 500
LOT = "/supply/lots/{lot_id}"


class _LotStep(Struct, frozen=True, kw_only=True):
    """`ask` returns the title of the confirming page and what will happen, None if there is nothing to do."""

    name: str
    notice: str
    work: Work[Any]
    ask: Callable[[Any], tuple[str, list[str]] | None]
    fields: Mapping[str, str]


class LotPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={LOT: self.show},
            forms={
                f"{LOT}/withdraw": self.withdraw,
                f"{LOT}/invalidate": self.invalidate,
                f"{LOT}/resolve": self.resolve,
            },
            errors=(LotNotFound, LotInUse, LotNotInUse, LotCaseNotFound, LotCaseDecided),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        return await self._page(viewer, await self._find(viewer), Form())

    async def withdraw(self, viewer: OperatorViewer, form: Form) -> Response:
        lot, now = await self._find(viewer), self.clock()
        reason = _reason(form)
        effects = [
            f"{_tonnes(lot.free_grams)} of the lot leave supply at once.",
            "The lot stays in the list of withdrawn lots. Its serial numbers may be imported again.",
            "The withdrawal and the reason are recorded in the audit log.",
        ]
        step = _LotStep(
            name="withdraw",
            notice="lot_withdrawn",
            work=lambda tx: withdraw_lot(tx, lot.id, reason=reason, by=viewer.actor.at(now)),
            ask=lambda _: ("Withdraw the lot", effects),
            fields={"reason": reason},
        )
        return await self._take(viewer, lot, form, step)

    async def invalidate(self, viewer: OperatorViewer, form: Form) -> Response:
        lot, now = await self._find(viewer), self.clock()
        reason = _reason(form)
        step = _LotStep(
            name="invalidate",
            notice="lot_invalidated",
            work=lambda tx: invalidate_lot(tx, lot.id, reason=reason, by=viewer.actor.at(now)),
            ask=lambda planned: ("Invalidate the lot", _effects(planned)),
            fields={"reason": reason},
        )
        return await self._take(viewer, lot, form, step)

    async def resolve(self, viewer: OperatorViewer, form: Form) -> Response:
        """Decide about one order, or about all that are undecided."""
        lot, now = await self._find(viewer), self.clock()
        order_id, value = form.value("order"), form.value("decision")
        if value not in set(Decision):
            form.fail("", "Choose other credits, or withdrawing the certificate.")
            return await self._page(viewer, lot, form)
        decision, requested = Decision(value), [order_id] if order_id else None
        step = _LotStep(
            name="resolve",
            notice="lot_resolved",
            work=lambda tx: resolve_lot_cases(tx, lot.id, requested, decision, by=viewer.actor.at(now)),
            ask=lambda changed: _decision(decision, len(changed)) if changed else None,
            fields={"order": order_id, "decision": decision},
        )
        return await self._take(viewer, lot, form, step)

    async def _find(self, viewer: OperatorViewer) -> ListedLot:
        lot_id, lot = viewer.request.path("lot_id"), None
        if is_id("lot", lot_id):
            async with self.database.connection() as connection:
                lot = await find_lot(connection, lot_id) or await find_withdrawn_lot(connection, lot_id)
        if lot is None or lot.mode is not viewer.mode:
            raise DashboardPageNotFound
        return lot

    async def _take(self, viewer: OperatorViewer, lot: ListedLot, form: Form, step: "_LotStep") -> Response:
        attempt, path = await self.attempt(form, step.work), f"{viewer.base}{_path(lot)}"
        if attempt is not None and attempt.is_made:
            return see_other(f"{path}?done={step.notice}")
        asked = None if attempt is None else step.ask(attempt.result)
        if asked is None:
            if not form.faults:
                form.fail("", "Nothing is left to decide about.")
            return await self._page(viewer, lot, form)
        title, effects = asked
        return self.layout.page(
            viewer,
            "operator_supply_confirm.html",
            here="supply",
            title=title,
            effects=effects,
            fields=step.fields,
            action=f"{path}/{step.name}",
            back=path,
            back_label=_serials(lot),
        )

    async def _page(self, viewer: OperatorViewer, lot: ListedLot, form: Form) -> Response:
        after = viewer.request.query("after")[0] or ""
        start = int(after) if after.isdecimal() and len(after) < 18 else 0
        async with self.database.connection() as connection:
            project_id = await find_project_of_lot(connection, lot.id)
            if lot.status != "withdrawn":
                (lot,) = await add_retired_quickly_any_account(connection, viewer.mode, [lot])
            parcels = await list_parcels_any_account(connection, lot, from_grams=start, limit=PARCELS_PER_PAGE + 1)
            shown = parcels[:PARCELS_PER_PAGE]
            orders = await list_parcel_orders_any_account(connection, viewer.mode, [each.id for each in shown])
            cases = await list_cases_any_account(connection, lot.id) if lot.invalidated_at is not None else []
        # Those that wait for a decision first.
        cases.sort(key=lambda case: (case.state is not CaseState.UNDECIDED, case.order_id))
        return self.layout.page(
            viewer,
            "operator_lot.html",
            form,
            lot=lot,
            project_id=project_id,
            serials=_serials(lot),
            bar=bar_of_lot(lot),
            labels=LABELS,
            parcels=[
                (each, _parcel_serials(lot, each.start_grams, each.quantity_grams), _orders_of(each.id, orders))
                for each in shown
            ],
            next_after=parcels[PARCELS_PER_PAGE].start_grams if len(parcels) > PARCELS_PER_PAGE else None,
            cases=cases[:CASES_SHOWN],
            case_count=len(cases),
            undecided=sum(case.state is CaseState.UNDECIDED for case in cases),
            reason=form.value("reason"),
        )


def _orders_of(parcel_id: str, orders: Sequence[ParcelOrder]) -> list[ParcelOrder]:
    return [order for order in orders if order.parcel_id == parcel_id]


def _reason(form: Form) -> str:
    return form.text("reason", "Say why, in a sentence.", longest=MAX_REASON)


def _path(lot: ListedLot) -> str:
    return LOT.format(lot_id=lot.id)


def _serials(lot: ListedLot) -> str:
    return lot.serial


def _parcel_serials(lot: ListedLot, start_grams: int, quantity_grams: int) -> str:
    return serial_range(lot.registry, lot.serial, lot.unit_grams, start_grams, quantity_grams)


def _tonnes(grams: int) -> str:
    return f"{format_tonnes(grams)} t"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def _effects(planned: Invalidation) -> list[str]:
    resupply = sum(case.state is CaseState.RESUPPLY for case in planned.cases)
    undecided = sum(case.state is CaseState.UNDECIDED for case in planned.cases)
    effects = [f"{_tonnes(planned.lot.free_grams)} that are free leave supply at once."]
    if resupply:
        effects.append(f"{_count(resupply, 'order')} without a certificate: other credits are allocated automatically.")
    if undecided:
        effects.append(
            f"{_count(undecided, 'order')} with a certificate: you decide about each on the page of the lot."
        )
    if planned.lost_holds:
        effects.append(
            f"{_count(len(planned.lost_holds), 'checkout')} hold tonnes of it: if these customers pay, their orders "
            "wait for supply."
        )
    return [*effects, "Certificates that are replaced or withdrawn state the reason.", "This cannot be undone."]


def _decision(decision: Decision, count: int) -> tuple[str, list[str]]:
    orders = _count(count, "order")
    if decision is Decision.RESUPPLY:
        return f"Other credits for {orders}", [
            f"{orders} get credits of other lots, as soon as there is supply.".replace("1 order get", "1 order gets"),
            "Until these are retired, the certificate is withdrawn; then a new one replaces it.",
            "The customers get the new certificate by mail.",
        ]
    return f"Withdraw {_count(count, 'certificate')}", [
        f"{_count(count, 'certificate')} withdrawn at once, with the reason of the lot.",
        "Other credits and a new certificate are still possible later.",
    ]

"""Registries: accounts, where the tonnes are, what was asked for, and lots that a registry shows otherwise."""

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES
from tonne.apps.backoffice.catalogue.uploads import read_upload
from tonne.apps.backoffice.jobs_page import spell_ago
from tonne.apps.backoffice.money.confirmed_step import ONE_MORE, ConfirmedPage, Wording, Work
from tonne.apps.backoffice.supply.supply_bars import LABELS, bar_of_registry
from tonne.apps.backoffice.supply.work_list_page import read_day, read_page
from tonne.apps.backoffice.supply.work_list_store import list_parcel_orders_any_account
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer, existing
from tonne.platform.db.database import Connection
from tonne.platform.db.session_settings import lift_limits
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.values.context import Mode
from tonne.platform.web.render import see_other
from tonne.selling.users.names import name_actors
from tonne.supply.registries import settlement_store
from tonne.supply.registries.account_store import AccountState, list_states_any_account
from tonne.supply.registries.check_registries import LOOK_EVERY, settle_drift
from tonne.supply.registries.drift_store import Cause, OpenDrift, Resolution, list_open_drifts
from tonne.supply.registries.instruction_store import ListedInstruction, list_open, list_parcels_any_account
from tonne.supply.registries.operate import check_account, retry_request
from tonne.supply.registries.registry_reads import list_registries_any_account
from tonne.supply.registries.settle_request import (
    RequestedSettlement,
    RequestFinding,
    RequestSettlement,
    approve_settlement,
    read_settlement,
    request_settlement,
)
from tonne.supply.registries.upload_statement import (
    compare_statement,
    read_statement,
    read_unit_sizes,
    record_statement,
)
from tonne.supply.stock.lots.lots import latest_day
from tonne.supply.stock.serial_runs import parse_runs
from tonne_verify.serials.units import show

REQUESTS_SHOWN = 50
ERRORS_SHOWN = 3
# An account that was compared before this needs a look: the worker compares it every five minutes.
STALE_AFTER = 3 * LOOK_EVERY
# A person uploads statements of accounts that cannot be read.
STATEMENT_AFTER = timedelta(days=7)
IN_DOUBT_AFTER = timedelta(minutes=1)
PAGE = "/registries"
STATEMENTS = f"{PAGE}/statements"
REQUEST = f"{PAGE}/requests/{{request_id}}"


class RegistriesPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={PAGE: self.show, REQUEST: self.show_request},
            forms={
                f"{PAGE}/accounts/{{account_id}}/check": self.check,
                f"{REQUEST}/retry": self.retry,
                f"{REQUEST}/settle": self.settle_request,
                f"{REQUEST}/approve": self.approve,
                f"{PAGE}/differences/{{drift_id}}/settle": self.settle,
                STATEMENTS: self.upload,
            },
            uploads={STATEMENTS: MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        now = self.clock()
        async with self.database.connection() as connection:
            until = now - IN_DOUBT_AFTER
            registries = await list_registries_any_account(connection, viewer.mode, answered_until=until)
            accounts = [each for each in await list_states_any_account(connection) if each.mode is viewer.mode]
            requests = await list_open(connection, mode=viewer.mode)
            drifts = await list_open_drifts(connection, viewer.mode)
        in_doubt = Counter(each.registry_account for each in requests if is_in_doubt(each, now))
        return self.layout.page(
            viewer,
            "operator_registries.html",
            form,
            registries=[(each, bar_of_registry(each)) for each in registries],
            accounts=[(each, state_of(each, now), in_doubt[each.id]) for each in accounts],
            requests=[(each, request_state(each, now)) for each in requests[:REQUESTS_SHOWN]],
            request_count=len(requests),
            drifts=drifts,
            texts=DRIFT_TEXTS,
            labels=LABELS,
            ago=lambda at: spell_ago(at, now),
            entered=form or Form(),
            chosen=form.value("drift") if form else "",
        )

    async def show_request(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        now = self.clock()
        async with self.database.connection() as connection:
            request = await self._request(connection, viewer)
            parcels = await list_parcels_any_account(connection, viewer.mode, [request.id])
            orders = await list_parcel_orders_any_account(connection, viewer.mode, list(parcels))
            stored = await settlement_store.find(connection, request.id)
            lot = await settlement_store.find_lot(connection, viewer.mode, request.lot_id)
            people = await name_actors(connection, [stored.requested_by] if stored else [])
        return self.layout.page(
            viewer,
            "operator_registry_request.html",
            form,
            request=request,
            serials="; ".join(show(lot.units, *run) for run in parse_runs(request.units) or ()),
            state=request_state(request, now),
            orders=list({each.order_id: each for each in orders}.values()),
            stored=stored,
            settlement=read_settlement(stored) if stored else None,
            asked_by=people.get(stored.requested_by, "") if stored else "",
            may_settle=request.closed_at is None and request.sent_at is not None,
            entered=form or Form(),
        )

    async def check(self, viewer: OperatorViewer, _: Form) -> Response:
        async with self.database.transaction() as tx:
            accounts = {each.id: each for each in await list_states_any_account(tx) if each.mode is viewer.mode}
            account = existing(accounts.get(viewer.request.path("account_id")))
            await check_account(tx, account.id, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}{PAGE}?done=registry_checked")

    async def retry(self, viewer: OperatorViewer, form: Form) -> Response:
        async with self.database.transaction() as tx:
            request = await self._request(tx, viewer)
            is_open = await retry_request(tx, request.id, by=viewer.actor.at(self.clock()))
        if not is_open:
            form.fail("", "The request has its result. Nothing is left to look up.")
            return await self.show_request(viewer, form)
        self.notifier.notify()
        return see_other(f"{viewer.base}{REQUEST.format(request_id=request.id)}?done=registry_retried")

    async def settle_request(self, viewer: OperatorViewer, form: Form) -> Response:
        """What the operator has found out at the registry."""
        by, settlement = viewer.actor.at(self.clock()), _read_settlement(form, self.clock())
        request_id = viewer.request.path("request_id")
        words = Wording(
            "Ask another person to approve it",
            "registry_settlement_requested",
            lambda made: [made.settlement.text, "Nothing is booked until another person approves it."],
        )
        return await self._take(
            viewer,
            form,
            words,
            lambda tx: request_settlement(tx, request_id, settlement, settings=self.settings, by=by),
        )

    async def approve(self, viewer: OperatorViewer, form: Form) -> Response:
        now, request_id = self.clock(), viewer.request.path("request_id")

        async def work(tx: Connection) -> RequestedSettlement:
            approver = viewer.approver(now)
            return await approve_settlement(tx, request_id, approver=approver, settings=self.settings, now=now)

        words = Wording(
            "Approve and book it",
            lambda made: "first_approval" if made.missing else "registry_request_settled",
            lambda made: ONE_MORE if made.missing else [made.settlement.text, EFFECTS[made.settlement.finding]],
        )
        return await self._take(viewer, form, words, work)

    async def _take(
        self, viewer: OperatorViewer, form: Form, words: Wording, work: Work[RequestedSettlement]
    ) -> Response:
        async with self.database.connection() as connection:
            request = await self._request(connection, viewer)
        back = f"{viewer.base}{REQUEST.format(request_id=request.id)}"
        return await self.take_step(viewer, form, words, work, show_faults=self.show_request, back=back)

    async def settle(self, viewer: OperatorViewer, form: Form) -> Response:
        found = await self.database.run(list_open_drifts, viewer.mode, viewer.request.path("drift_id"))
        drift = existing(found[0] if found else None)
        resolution = form.choice("resolution", Resolution, "Choose what became of the difference.")
        reason = form.text("reason", "Say why, in a sentence.", longest=500)
        if resolution is None or form.faults:
            return await self.show(viewer, form)
        by = viewer.actor.at(self.clock())
        await self.database.commit(settle_drift, drift, resolution, reason=reason, by=by)
        self.notifier.notify()
        return see_other(f"{viewer.base}{PAGE}?done=registry_settled")

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        """Compare a list of what is active in an account that has no API. Lots are paused if the operator says so."""
        existing(viewer.mode if viewer.mode is Mode.LIVE else None)
        by, name = viewer.actor.at(self.clock()), form.text("registry", "Choose the registry.", longest=100)
        day = _read_statement_day(form, by.at)
        file = read_upload(viewer.request, form, "statement", "tonne registry upload")
        if file is None or form.faults:
            return await self.show(viewer, form)
        async with self.database.transaction() as tx:
            await lift_limits(tx)
            sizes = await read_unit_sizes(tx, name)
        try:
            active = await in_turn(read_statement, file, name, form.value("column") or None, sizes=sizes)
        except SheetInvalid as error:
            form.fail("statement", " ".join(str(each) for each in error.errors[:ERRORS_SHOWN]))
            return await self.show(viewer, form)
        async with self.database.transaction() as tx:
            await lift_limits(tx)
            compared = await compare_statement(tx, name, active, day)
            differing = [each for each in compared.seen if each.lot_id is not None]
            if not differing or form.is_checked("pause"):
                await record_statement(tx, compared, file=file.name, by=by)
                notice = "registry_differs" if compared.seen else "registry_agrees"
                return see_other(f"{viewer.base}{PAGE}?done={notice}")
        count = f"{len(differing)} lots have" if len(differing) > 1 else f"Lot {differing[0].lot_id} has"
        form.fail(
            "statement",
            f"{count} other units in the list than in the books. Nothing is recorded yet: check that the list is "
            "complete, tick that such lots are paused, and choose the file again.",
        )
        return await self.show(viewer, form)

    async def _request(self, connection: Connection, viewer: OperatorViewer) -> ListedInstruction:
        found = await list_open(connection, viewer.request.path("request_id"), viewer.mode)
        return existing(found[0] if found else None)


EFFECTS = {
    RequestFinding.RETIRED: "Its orders are completed, and their certificates state these serials.",
    RequestFinding.NOT_RETIRED: "The credits wait again, and the registry is asked under a new reference. If it has "
    "retired them after all, they are retired twice.",
}


DRIFT_TEXTS: dict[Cause, Callable[[OpenDrift], str]] = {
    Cause.DIFFERENCE: lambda drift: (
        "in the books and not at the registry" if drift.units > 0 else "at the registry and not in the books"
    ),
    Cause.SURPLUS: lambda drift: f"in {drift.registry_account} that no lot has",
    Cause.REFUSED: lambda _: "asked for, and the registry says that it has fewer",
    Cause.INVALID: lambda _: "of an invalid lot, retired after all",
}


def _read_settlement(form: Form, now: datetime) -> RequestSettlement:
    """It does not count if the form has faults."""
    finding = form.choice("finding", RequestFinding, "Choose what you have found at the registry.")
    reason = form.text("reason", "Say how you have found it out, in a sentence.", longest=300)
    if finding is not RequestFinding.RETIRED:
        return RequestSettlement(finding=RequestFinding.NOT_RETIRED, reason=reason)
    serials = tuple(part for part in (each.strip() for each in form.value("serials").split(";")) if part)
    if not serials:
        form.fail("serials", "Enter the serials that the registry shows as retired.")
    if not form.value("retirement_url"):
        form.fail("retirement_url", "Enter the address of the registry's page.")
    return RequestSettlement(
        finding=finding,
        reason=reason,
        retirement_url=read_page(form, "retirement_url", form.value("retirement_url")),
        retired_on=read_day(form, now),
        serials=serials,
        next_holding_id=form.value("holding")[:200] or None,
    )


def _read_statement_day(form: Form, now: datetime) -> date:
    """Of the list; today if the field is empty. It does not count if the form has faults."""
    try:
        day = date.fromisoformat(form.value("day") or now.date().isoformat())
    except ValueError:
        form.fail("day", "Enter the day of the list, such as 2026-11-16.")
        return now.date()
    if day > latest_day(now):
        form.fail("day", "This day is in the future. Enter the day of the list.")
    return day


def state_of(account: AccountState, now: datetime) -> tuple[str, str]:
    """In words, and the kind of the badge."""
    if account.problem is not None:
        return "Cannot be read", "bad"
    if account.drift_grams:
        return "Contradicts the books", "bad"
    if account.looked_at is None:
        return "Not compared yet", "warn"
    if now - account.looked_at > (STATEMENT_AFTER if account.adapter == "desk" else STALE_AFTER):
        return "Not compared lately", "warn"
    return "Agrees with the books", ""


def is_in_doubt(request: ListedInstruction, now: datetime) -> bool:
    """Asked, and not answered in time."""
    return request.state == "asked" and request.sent_at is not None and now - request.sent_at > IN_DOUBT_AFTER


def request_state(request: ListedInstruction, now: datetime) -> tuple[str, str]:
    """In words, and the kind of the badge."""
    if request.state == "asked":
        return ("In doubt", "warn") if is_in_doubt(request, now) else ("Asked", "")
    names = {"recorded": "To be asked", "pending": "Pending at the registry", "retired": "Retired"}
    return names.get(request.state, "Refused"), "bad" if request.state == "declined" else ""

"""The list of customers, their search, and opening a new one."""

from decimal import Decimal, InvalidOperation

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.apps.lookup.customer_store import search_customers_any_account
from tonne.platform.http.route import Response
from tonne.platform.values.paging import CursorInvalid, Position, make_cursor, parse_cursor
from tonne.platform.web.render import see_other
from tonne.selling.accounts.errors import FeeRateInvalid
from tonne.selling.accounts.organisations.open_organisation import DEFAULT_FEE_RATE, check_fee_rate, open_organisation
from tonne.selling.users.invitations import invite
from tonne.selling.users.model import Role

PAGE = 25
MAX_SEARCH = 200
FEE_FAULT = "Enter a percentage from 0 to below 100, with at most 3 decimals, such as 10 or 7.5."


class CustomersPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/customers": self.show, "/customers/new": self.show_new},
            forms={"/customers/new": self.open},
            errors=(CursorInvalid,),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        requested, after = viewer.request.query("q", "after")
        text = (requested or "").strip()[:MAX_SEARCH]
        list_name = f"customers {text}"
        start = parse_cursor(after, list_name)
        found = await self.database.run(search_customers_any_account, text, start, PAGE + 1)
        page = found[:PAGE]
        last = page[-1] if len(found) > PAGE else None
        return self.layout.page(
            viewer,
            "operator_customers.html",
            customers=page,
            text=text,
            is_first=after is None,
            next_cursor=None if last is None else make_cursor(Position(last.created_at, last.id), list_name),
        )

    async def show_new(self, viewer: OperatorViewer) -> Response:
        return self._new(viewer, Form())

    async def open(self, viewer: OperatorViewer, form: Form) -> Response:
        name = form.text("name", "Enter the name of the organisation.")
        fee_rate, email = read_fee_rate(form), form.email()
        if fee_rate is None or form.faults:
            return self._new(viewer, form)
        now = self.clock()
        async with self.saving(form) as tx:
            opened = await open_organisation(tx, name, fee_rate, actor=viewer.actor, now=now)
            await invite(
                tx,
                self.settings,
                opened.id,
                email,
                Role.OWNER,
                granter=None,
                invited_by=self.settings.seller_name,
                actor=viewer.actor,
                now=now,
            )
        if form.faults:
            return self._new(viewer, form)
        return see_other(f"{viewer.base}/customers/{opened.id}?done=customer_opened")

    def _new(self, viewer: OperatorViewer, form: Form) -> Response:
        return self.layout.page(
            viewer,
            "operator_customer_new.html",
            form,
            name=form.value("name"),
            fee=form.value("fee") or spell_percent(DEFAULT_FEE_RATE),
            email=form.value("email"),
        )


def read_fee_rate(form: Form) -> Decimal | None:
    """The field `fee`, a percentage, as a rate. None after a fault."""
    try:
        rate = Decimal(form.value("fee").removesuffix("%").strip().replace(",", ".")) / 100
        check_fee_rate(rate)
    except (InvalidOperation, FeeRateInvalid):
        form.fail("fee", FEE_FAULT)
        return None
    return rate


def spell_percent(rate: Decimal) -> str:
    """As it is typed: `10`, `7.5`."""
    return f"{rate * 100:.3f}".rstrip("0").rstrip(".")

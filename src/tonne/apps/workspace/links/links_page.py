"""Offset links of an account: the list and new links."""

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import list_choices, require_account, require_chosen
from tonne.apps.workspace.links.link_figures import ShownPeriod, figures_of, read_period
from tonne.apps.workspace.links.link_page import FIELDS, fail_link, form_values, read_link_form
from tonne.apps.workspace.mix import mix_rows, typed_shares
from tonne.channels.checkout.link_counts.count_store import LinkTotals, list_account_days, sum_links
from tonne.channels.checkout.links.settings import LinkOwner, create_link
from tonne.channels.checkout.links.store import list_links
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.http.lists import Paging
from tonne.platform.http.route import Response
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.errors import TonneError
from tonne.platform.values.paging import CursorInvalid, parse_cursor
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Account
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.users.model import Right

PER_PAGE = 30


class LinksPage(DashboardPage, frozen=True):
    catalogues: Catalogues
    directory: AccountDirectory
    box: SecretBox

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/links": (self.show, Right.VIEW), "/links/new": (self.show_new, Right.SETTINGS)},
            forms={"/links": (self.create, Right.SETTINGS)},
            errors=(CursorInvalid,),
        )

    async def show(self, viewer: MemberViewer) -> Response:
        account_id, after = viewer.request.query("account", "after")
        now, period = self.clock(), read_period(viewer.request)
        today = now.date()
        first = period.first_day(today)
        async with self.database.connection() as connection:
            choices = await list_choices(connection, viewer)
            if not account_id and not choices:
                return self.layout.page(viewer, "links.html", account=None, choices=(), links=())
            account = await require_account(connection, viewer, account_id or choices[0].id)
            list_name = f"links of {account.scope.account_id}"
            paging = Paging(PER_PAGE, parse_cursor(after, list_name), list_name)
            links, older = paging.cut(await list_links(connection, account.scope, paging.start, paging.fetch))
            days = await list_account_days(connection, account.scope, first, today)
            ids = [link.id for link in links]
            totals = await sum_links(connection, account.scope, ids, first, today)
        return self.layout.page(
            viewer,
            "links.html",
            account=account,
            choices=choices,
            links=links,
            now=now,
            figures=figures_of(days, period, today, viewer.request),
            totals={link_id: totals.get(link_id, LinkTotals()) for link_id in ids},
            periods=tuple(ShownPeriod),
            older=older,
            is_first=after is None,
        )

    async def show_new(self, viewer: MemberViewer) -> Response:
        account = await self.database.run(require_chosen, viewer, viewer.request.query("account")[0])
        return await self._new_page(viewer, account, Form(form_values(None, account.currency)), is_new=True)

    async def create(self, viewer: MemberViewer, form: Form) -> Response:
        account = await self._find(viewer, form.value("account"))
        catalogue = await self.catalogues.current(viewer.mode)
        body = read_link_form(form, catalogue, None)
        if body is None:
            return await self._new_page(viewer, account, form)
        owner = LinkOwner(account.scope, account.currency, catalogue, takes_cards(self.settings, viewer.mode))
        try:
            async with self.database.transaction() as tx:
                link, _ = await create_link(tx, owner, body, box=self.box, by=viewer.actor.at(self.clock()))
        except TonneError as error:
            fail_link(form, error)
            return await self._new_page(viewer, account, form)
        return see_other(f"{viewer.base}/accounts/{account.scope.account_id}/links/{link.id}?done=link_created")

    async def _find(self, viewer: MemberViewer, account_id: str) -> Account:
        return await self.database.run(require_account, viewer, account_id)

    async def _new_page(self, viewer: MemberViewer, account: Account, form: Form, *, is_new: bool = False) -> Response:
        catalogue = await self.catalogues.current(viewer.mode)
        terms = await self.directory.terms_of(account.scope)
        return self.layout.page(
            viewer,
            "link_new.html",
            form,
            account=account,
            fields=FIELDS,
            entered=form,
            rows=mix_rows(catalogue, terms, {} if is_new else typed_shares(form, catalogue)),
        )

"""One offset link: its address, its settings, and its secret."""

import segno
from markupsafe import Markup
from msgspec import Struct

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import require_account
from tonne.apps.workspace.links.link_figures import ShownPeriod, figures_of, read_period
from tonne.apps.workspace.links.link_form import FIELDS, fail_link, form_values, read_link_form
from tonne.apps.workspace.mix import mix_rows, stored_shares, typed_shares
from tonne.channels.checkout.link_counts.count_store import list_link_days
from tonne.channels.checkout.links.change_link import lock_link, replace_link, settings_of
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.channels.checkout.links.secret import rotate_link_secret
from tonne.channels.checkout.links.settings import LinkOwner
from tonne.channels.checkout.links.store import find_link
from tonne.money.cards.gateways.card_gateways import takes_cards
from tonne.platform.http.route import Response
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.context import is_id
from tonne.platform.values.errors import TonneError
from tonne.platform.values.replace import replace
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Account
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.store import count_orders_of_link
from tonne.selling.users.model import Right

# Orders are counted up to this number: counting more would take too long.
MAX_COUNTED = 1000
# Queries that are signed with the old secret stay valid for a day, so that the new one can be installed meanwhile.
OVERLAP_S = 86_400


class _Found(Struct, frozen=True):
    account: Account
    link: OffsetLink


class LinkPage(DashboardPage, frozen=True):
    catalogues: Catalogues
    directory: AccountDirectory
    box: SecretBox

    def section(self) -> OrganisationSection:
        path = "/accounts/{account_id}/links/{offset_link_id}"
        return OrganisationSection(
            pages={path: (self.show, Right.VIEW)},
            forms={
                path: (self.save, Right.SETTINGS),
                f"{path}/enabled": (self.switch, Right.SETTINGS),
                f"{path}/secret": (self.rotate_secret, Right.SETTINGS),
            },
        )

    async def show(self, viewer: MemberViewer) -> Response:
        return await self._page(viewer, await self._find(viewer))

    async def save(self, viewer: MemberViewer, form: Form) -> Response:
        found = await self._find(viewer)
        body = read_link_form(form, await self.catalogues.current(viewer.mode), found.link)
        return await self._replace(viewer, found, form, body)

    async def switch(self, viewer: MemberViewer, form: Form) -> Response:
        """Close or open the link."""
        found = await self._find(viewer)
        body = replace(settings_of(found.link, found.account.currency), enabled=form.is_checked("enabled"))
        return await self._replace(viewer, found, form, body)

    async def rotate_secret(self, viewer: MemberViewer, _: Form) -> Response:
        """The secret is shown once, on this page."""
        found = await self._find(viewer)
        async with self.database.transaction() as tx:
            link = await lock_link(tx, found.link.scope, found.link.id)
            secret = await rotate_link_secret(
                tx, link, self.box, overlap_seconds=OVERLAP_S, actor=viewer.actor, now=self.clock()
            )
        return await self._page(viewer, found, secret=secret)

    async def _find(self, viewer: MemberViewer) -> _Found:
        link_id = viewer.request.path("offset_link_id")
        async with self.database.connection() as connection:
            account = await require_account(connection, viewer, viewer.request.path("account_id"))
            link = await find_link(connection, account.scope, link_id) if is_id("lnk", link_id) else None
        if link is None:
            raise DashboardPageNotFound
        return _Found(account, link)

    async def _replace(self, viewer: MemberViewer, found: _Found, form: Form, body: OffsetLinkIn | None) -> Response:
        catalogue = await self.catalogues.current(viewer.mode)
        if body is not None:
            account = found.account
            owner = LinkOwner(account.scope, account.currency, catalogue, takes_cards(self.settings, viewer.mode))
            try:
                async with self.database.transaction() as tx:
                    old = await lock_link(tx, account.scope, found.link.id)
                    await replace_link(tx, owner, old, body, actor=viewer.actor, now=self.clock())
            except TonneError as error:
                fail_link(form, error)
            else:
                return see_other(f"{viewer.base}{_path(found)}?done=link_saved")
        return await self._page(viewer, found, form)

    async def _page(
        self, viewer: MemberViewer, found: _Found, form: Form | None = None, *, secret: str = ""
    ) -> Response:
        account, link = found.account, found.link
        catalogue, terms = await self.catalogues.current(viewer.mode), await self.directory.terms_of(account.scope)
        now, period = self.clock(), read_period(viewer.request)
        today = now.date()
        async with self.database.connection() as connection:
            days = await list_link_days(connection, account.scope, link.id, period.first_day(today), today)
            orders = await count_orders_of_link(connection, account.scope, link.id, MAX_COUNTED + 1)
        url = link.address(self.settings.base_url)
        return self.layout.page(
            viewer,
            "link.html",
            form,
            account=account,
            link=link,
            path=f"{viewer.base}{_path(found)}",
            is_open=link.is_open(now),
            url=url,
            qr_svg=Markup(segno.make(url, error="m").svg_inline(scale=4, border=2, light="#fff")),  # noqa: S704 - ours
            figures=figures_of(days, period, today, viewer.request),
            periods=tuple(ShownPeriod),
            orders=orders,
            max_counted=MAX_COUNTED,
            fields=FIELDS,
            entered=_entered(form, found),
            rows=mix_rows(catalogue, terms, _shares(form, link, catalogue)),
            secret=secret,
        )


def _path(found: _Found) -> str:
    return f"/accounts/{found.account.scope.account_id}/links/{found.link.id}"


def _is_typed(form: Form | None) -> bool:
    return form is not None and "title" in form.names()


def _entered(form: Form | None, found: _Found) -> Form:
    """What was typed, or the stored settings."""
    if form is not None and _is_typed(form):
        return form
    return Form(form_values(found.link, found.account.currency))


def _shares(form: Form | None, link: OffsetLink, catalogue: Catalogue) -> dict[str, str]:
    if form is not None and _is_typed(form):
        return typed_shares(form, catalogue)
    return stored_shares(link.bundle_selection, catalogue)

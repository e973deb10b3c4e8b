"""The editor of an account's public page. The preview is the real page with the settings of the form."""

from collections.abc import Callable
from typing import TypeVar

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import list_choices, require_account, require_chosen
from tonne.channels.public_pages.change_page import PageChange, change_page, read_page, with_shown_text
from tonne.channels.public_pages.embeds import embed_codes
from tonne.channels.public_pages.model import (
    PageSection,
    SustainabilityPage,
    check_description,
    check_slug,
    check_title,
    page_path,
)
from tonne.channels.public_pages.public_page import PublicPage
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import replace
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.accounts.logos.logo import MAX_LOGO_BYTES, logo_of
from tonne.selling.accounts.logos.store import Logo, find_logo
from tonne.selling.accounts.model import Account
from tonne.selling.users.model import Right

T = TypeVar("T")
SECTIONS = {
    PageSection.TIMELINE: "Retired over time",
    PageSection.BUNDLES_BREAKDOWN: "Shares of the bundles",
    PageSection.PROJECTS: "Projects",
    PageSection.CERTIFICATES: "Certificates, each with its public page",
    PageSection.UNSDG: "UN Sustainable Development Goals of the projects",
    PageSection.HISTORY: "Before Tonne: your orders of former providers, marked as not verified",
}
MAX_UPLOAD_BYTES = 2 * 1024 * 1024
SAVE, PUBLISH, WITHDRAW = "save", "publish", "withdraw"
_DONE = {SAVE: "page_saved", PUBLISH: "page_published", WITHDRAW: "page_withdrawn"}


class PageEditor(DashboardPage, frozen=True):
    public_page: PublicPage

    def section(self) -> OrganisationSection:
        path = "/public-page"
        return OrganisationSection(
            pages={path: (self.show, Right.VIEW), f"{path}/preview": (self.show_saved, Right.VIEW)},
            forms={path: (self.save, Right.SETTINGS), f"{path}/preview": (self.preview, Right.SETTINGS)},
            # Larger than a logo may be: a fault beside the field is better than a refused request.
            uploads=dict.fromkeys((path, f"{path}/preview"), MAX_UPLOAD_BYTES),
        )

    async def show(self, viewer: MemberViewer) -> Response:
        account_id = viewer.request.query("account")[0] or ""
        choices = await self.database.run(list_choices, viewer)
        if not account_id and not choices:
            return self.layout.page(viewer, "page_editor_none.html")
        account = await self._find(viewer, account_id or choices[0].id)
        return await self._page(viewer, account, Form())

    async def save(self, viewer: MemberViewer, form: Form) -> Response:
        account = await self._find(viewer, form.value("account"))
        action = form.value("action") if form.value("action") in _DONE else SAVE
        change = PageChange(
            enabled={PUBLISH: True, WITHDRAW: False}.get(action),
            slug=_checked(form, "slug", lambda: check_slug(form.value("slug"))),
            title=_checked(form, "title", lambda: check_title(form.value("title"))),
            description=_checked(form, "description", lambda: check_description(form.value("description"))),
            sections=_sections(form),
            logo=await in_turn(_read_logo, viewer.request, form),
            removes_logo=form.is_checked("remove_logo"),
        )
        if not form.faults:
            async with self.saving(form) as tx:
                await change_page(tx, account.scope, change, by=viewer.actor.at(self.clock()))
        if form.faults:
            return await self._page(viewer, account, form)
        return see_other(f"{viewer.base}/public-page?account={account.scope.account_id}&done={_DONE[action]}")

    async def show_saved(self, viewer: MemberViewer) -> Response:
        async with self.database.snapshot() as connection:
            account = await require_chosen(connection, viewer, viewer.request.query("account")[0])
            page, logo = await read_page(connection, account.scope), await find_logo(connection, account.scope)
        return await self.public_page.show_draft(viewer.request, page, logo)

    async def preview(self, viewer: MemberViewer, form: Form) -> Response:
        """The page with the settings of the form. Those that are not valid are as they are stored."""
        account = await self._find(viewer, form.value("account"))
        async with self.database.snapshot() as connection:
            page, stored = await read_page(connection, account.scope), await find_logo(connection, account.scope)
        title = _checked(form, "title", lambda: check_title(form.value("title")))
        description = _checked(form, "description", lambda: check_description(form.value("description")))
        draft = replace(
            page,
            title=page.title if title is None else title,
            description=page.description if description is None else description,
            sections=tuple(_sections(form)),
        )
        sent = await in_turn(_read_logo, viewer.request, form)
        logo = sent or (None if form.is_checked("remove_logo") else stored)
        return await self.public_page.show_draft(viewer.request, with_shown_text(draft, page), logo)

    async def _find(self, viewer: MemberViewer, account_id: str) -> Account:
        return await self.database.run(require_account, viewer, account_id)

    async def _page(self, viewer: MemberViewer, account: Account, form: Form) -> Response:
        async with self.database.snapshot() as connection:
            page = await read_page(connection, account.scope)
            choices = await list_choices(connection, viewer)
        return self.layout.page(
            viewer,
            "page_editor.html",
            form,
            has_frame=True,
            account=account,
            choices=choices,
            page=page,
            entered=_entered(form, page),
            chosen=_sections(form) if form.names() else page.sections,
            sections=SECTIONS,
            url=page.address(self.settings.base_url),
            slug_base=f"{self.settings.base_url}{page_path(viewer.mode, '')}",
            max_logo=MAX_LOGO_BYTES,
            embeds=embed_codes(page, self.settings.base_url),
        )


def _sections(form: Form) -> list[PageSection]:
    chosen = form.fields.get("section", [])
    return [section for section in PageSection if section in chosen]


def _read_logo(request: Request, form: Form) -> Logo | None:
    """None if no file was chosen, or if it cannot be used: then the form has the fault."""
    file = request.file("logo")
    return None if file is None else _checked(form, "logo", lambda: logo_of(file.content))


def _checked(form: Form, name: str, check: Callable[[], T]) -> T | None:
    """None if the value is not valid: then the form has the fault."""
    try:
        return check()
    except TonneError as error:
        message = str(error)
        form.fail(name, message[:1].upper() + message[1:])
        return None


def _entered(form: Form, page: SustainabilityPage) -> dict[str, str]:
    """What was typed, or the stored settings."""
    if form.names():
        return {name: form.value(name) for name in ("slug", "title", "description")}
    return {"slug": page.slug, "title": page.title, "description": page.description}

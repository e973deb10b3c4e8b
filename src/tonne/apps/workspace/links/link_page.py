"""One offset link: its address, its settings, and its secret. The form is validated like a request of the API."""

import re
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any

import segno
from markupsafe import Markup
from msgspec import Struct

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import require_link
from tonne.apps.workspace.links.link_figures import ShownPeriod, figures_of, read_period
from tonne.apps.workspace.mix import MIX, mix_rows, read_mix, stored_shares, typed_shares
from tonne.channels.checkout.link_counts.count_store import list_link_days
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.channels.checkout.links.settings import LinkOwner, lock_link, replace_link, settings_of
from tonne.channels.checkout.links.signed_query import rotate_link_secret
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.http.json_body import read_values
from tonne.platform.http.route import Response
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.amounts import parse_typed
from tonne.platform.values.context import replace
from tonne.platform.values.errors import TonneError
from tonne.platform.web.fields import fields_of
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Account
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.selection import storable
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.store import count_orders_of_link
from tonne.selling.users.model import Right

FIELDS = fields_of(OffsetLinkIn)
_NAMES = re.compile(r"\b(?:the )?(" + "|".join(FIELDS) + r")\b", re.IGNORECASE)
_FIELDS = {"preset_quantity": "preset", "preset_value": "preset", "amount_editable": "preset", "expires_at": "expires"}
_AMOUNTS = ("min_quantity", "max_quantity", "min_value", "max_value")
# Shown and read as they are.
_PLAIN = ("redirect_url", *(field.name for field in FIELDS.values() if field.section))
_TEXTS = ("title", "message", *_AMOUNTS, *_PLAIN)
NO_PRESET, BY_QUANTITY, BY_VALUE = "none", "quantity", "value"


def form_values(link: OffsetLink | None, currency: str) -> dict[str, list[str]]:
    """The fields of a link, or of a new one."""
    if link is None:
        return {"preset_kind": [NO_PRESET], "amount_editable": ["1"], "beneficiary": [LinkBeneficiary.ACCOUNT]}
    settings = settings_of(link, currency)
    kind = BY_QUANTITY if settings.preset_quantity else BY_VALUE if settings.preset_value else NO_PRESET
    return {
        **{name: [getattr(settings, name) or ""] for name in _TEXTS},
        "preset_kind": [kind],
        "preset": [settings.preset_quantity or settings.preset_value or ""],
        "amount_editable": ["1"] if link.amount_editable else [],
        "beneficiary": [link.beneficiary],
        "language": [link.language or ""],
        "expires": ["" if link.expires_at is None else link.expires_at.astimezone(UTC).date().isoformat()],
    }


def read_link_form(form: Form, catalogue: Catalogue, old: OffsetLink | None) -> OffsetLinkIn | None:
    """None if the form has faults. A link stays open or closed as it was."""
    kind, preset = form.value("preset_kind"), _number(form, "preset")
    if kind in {BY_QUANTITY, BY_VALUE} and not preset:
        form.fail("preset", "Enter the preset amount, or choose that there is none.")
    settings: dict[str, Any] = {
        **{name: form.value(name) or None for name in _PLAIN},
        **{name: _number(form, name) for name in _AMOUNTS},
        "title": form.text("title", "Enter a title, such as “Retire credits for your flight”."),
        "message": form.value("message").replace("\r\n", "\n"),
        "bundle_selection": _selection(form, catalogue, old),
        "preset_quantity": preset if kind == BY_QUANTITY else None,
        "preset_value": preset if kind == BY_VALUE else None,
        "amount_editable": form.is_checked("amount_editable"),
        "enabled": True if old is None else old.enabled,
        "expires_at": _expiry(form, old),
        "beneficiary": form.value("beneficiary"),
        "language": form.value("language") or None,
    }
    if form.faults:
        return None
    try:
        return read_values(settings, OffsetLinkIn)
    except TonneError as error:
        fail_link(form, error)
        return None


def fail_link(form: Form, error: TonneError) -> None:
    """The faults of the API, with the words of the form."""
    for fault in error.faults:
        name = (fault.field or "").partition("[")[0]
        field = MIX if name == "bundle_selection" else _FIELDS.get(name, name)
        message = _NAMES.sub(lambda match: FIELDS[match[1].lower()].in_sentence, fault.message)
        form.fail(field, message[:1].upper() + message[1:])


def _number(form: Form, name: str) -> str | None:
    text = form.value(name)
    if not text:
        return None
    number = parse_typed(text)
    if number is None:
        form.fail(name, "Enter a number, such as 2.5. Leave out thousands separators.")
        return None
    return f"{number:f}"


def _selection(form: Form, catalogue: Catalogue, old: OffsetLink | None) -> list[dict[str, Any]] | None:
    """None: the account's default mix. A stored selection that was not changed is kept as it is."""
    choices = read_mix(form, catalogue, is_optional=True)
    if old is not None and old.bundle_selection is not None:
        shown = stored_shares(old.bundle_selection, catalogue)
        if {choice.bundle_id: choice.percentage for choice in choices} == shown:
            return old.bundle_selection
    return storable(choices) or None


def _expiry(form: Form, old: OffsetLink | None) -> datetime | None:
    """The end of the day in UTC. A link whose day was not changed keeps its time."""
    text = form.value("expires")
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        form.fail("expires", "Enter a day, such as 2030-12-31.")
        return None
    kept = None if old is None else old.expires_at
    if kept is not None and kept.astimezone(UTC).date() == day:
        return kept
    return datetime.combine(day, time(23, 59, 59), UTC)


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
            secret = await rotate_link_secret(tx, link, self.box, overlap_s=OVERLAP_S, by=viewer.actor.at(self.clock()))
        return await self._page(viewer, found, secret=secret)

    async def _find(self, viewer: MemberViewer) -> _Found:
        return _Found(*await self.database.run(require_link, viewer))

    async def _replace(self, viewer: MemberViewer, found: _Found, form: Form, body: OffsetLinkIn | None) -> Response:
        catalogue = await self.catalogues.current(viewer.mode)
        if body is not None:
            account = found.account
            owner = LinkOwner(account.scope, account.currency, catalogue, takes_cards(self.settings, viewer.mode))
            try:
                async with self.database.transaction() as tx:
                    old = await lock_link(tx, account.scope, found.link.id)
                    await replace_link(tx, owner, old, body, by=viewer.actor.at(self.clock()))
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
            qr_svg=_qr_svg(url),
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


@lru_cache(256)
def _qr_svg(url: str) -> Markup:
    """Takes 8 ms of CPU time."""
    return Markup(segno.make(url, error="m").svg_inline(scale=4, border=2, light="#fff"))  # noqa: S704 - ours

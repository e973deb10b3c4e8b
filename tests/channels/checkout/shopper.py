"""A visitor without JavaScript: opens pages, fills in forms and submits them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx

from tests.support.clock import START
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.signed_query import sign_query
from tonne.channels.checkout.links.store import insert_link
from tonne.channels.checkout.paying.consent import CONSENT_FIELD
from tonne.platform.values.context import Scope, new_secret_id, utc_now

GOOD_CARD, STOLEN_CARD, POOR_CARD = "4242 4242 4242 4242", "4000000000009979", "4000000000009995"
CONFIRMED_CARD = "4000002760003184"
LOST_ANSWER = "4000000000000259"
# Signs the queries of all links that `make_link` creates.
LINK_SECRET = "lsec_for-tests"  # noqa: S105 - it protects nothing


@dataclass
class Form:
    action: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)

    def values(self, **changes: str) -> dict[str, list[str]]:
        filled: dict[str, list[str]] = {}
        for name, value in self.fields:
            filled.setdefault(name, []).append(value)
        return filled | {name: [value] for name, value in changes.items()}


class _Forms(HTMLParser):
    """Collects the POST forms of a page with their values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._form: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form":
            self._form = Form(attributes.get("action") or "")
            self.found.append(self._form)
        name = attributes.get("name")
        if self._form is None or not name or tag not in {"input", "button"} or "disabled" in attributes:
            return
        # A visitor who pays agrees; tests of the consent leave the field out.
        is_ticked = "checked" in attributes or name == CONSENT_FIELD
        if attributes.get("type") in {"radio", "checkbox"} and not is_ticked:
            return
        self._form.fields.append((name, attributes.get("value") or ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None


def form_of(page: httpx.Response) -> Form:
    forms = _Forms()
    forms.feed(page.text)
    [form] = forms.found
    return form


class Shopper:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def open(self, address: str, **query: str) -> httpx.Response:
        return await self.http.get(address, params=query or None)

    async def choose(self, link: OffsetLink, *, query: dict[str, str] | None = None, **typed: str) -> httpx.Response:
        """Submit the form of a link; returns the response without following the redirect."""
        page = await self.open(f"/offset/{link.id}", **(query or {}))
        assert page.status_code == 200, page.text
        filled = {"by": "quantity", "amount": "2", "email": "ann@example.com", **typed}
        form = form_of(page)
        return await self.http.post(form.action, data=form.values(**filled))

    async def begin(self, link: OffsetLink, *, query: dict[str, str] | None = None, **typed: str) -> str:
        """Submit the form of a link; returns the address of the checkout."""
        answer = await self.choose(link, query=query, **typed)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    async def pay(self, address: str, card: str = GOOD_CARD) -> httpx.Response:
        """Submit the payment form; returns the page after it."""
        return await self.send(await self.open(address), card)

    async def send(self, page: httpx.Response, card: str = GOOD_CARD) -> httpx.Response:
        return await self._submit(page, card_number=card)

    async def answer(self, bank: httpx.Response, answer: str) -> httpx.Response:
        """Press a button of the simulated bank; returns the page after it."""
        return await self._submit(bank, answer=answer)

    async def _submit(self, page: httpx.Response, **typed: str) -> httpx.Response:
        form = form_of(page)
        answer = await self.http.post(form.action, data=form.values(**typed))
        return await self.open(answer.headers["location"]) if answer.status_code == 303 else answer


def signed(link: OffsetLink, *, secret: str = LINK_SECRET, expires: int | None = None, **query: str) -> dict[str, str]:
    """The query of a link, signed; valid for an hour unless `expires` says otherwise."""
    query["expires"] = str(int(utc_now().timestamp()) + 3600 if expires is None else expires)
    return {**query, "signature": sign_query(secret, link.id, query.items())}


async def make_link(services: Services, scope: Scope, **settings: object) -> OffsetLink:
    values: dict[str, object] = {
        "title": "Fly with a clear head",
        "message": "",
        "bundle_selection": None,
        "preset_quantity_grams": None,
        "preset_value_minor": None,
        "amount_editable": True,
        "min_quantity_grams": None,
        "max_quantity_grams": None,
        "min_value_minor": None,
        "max_value_minor": None,
        "redirect_url": None,
        "redirect_label": None,
        "enabled": True,
        "expires_at": None,
        "created_at": START,
        **settings,
    }
    link = OffsetLink(scope=scope, id=new_secret_id("lnk"), **values)  # type: ignore[arg-type]
    async with services.database.transaction() as tx:
        await insert_link(tx, link, services.box.seal(LINK_SECRET, link.id))
    return link

"""The page of an offset link: a form for the amount and the bundles, with the exact price."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tonne.accounts.directory import AccountDirectory
from tonne.accounts.redirect_hosts import list_hosts
from tonne.base.clock import Clock
from tonne.base.errors import TonneError
from tonne.base.ids import is_id
from tonne.base.scope import Mode
from tonne.base.secret_box import SecretBox, SecretUnreadable
from tonne.base.settings import Settings
from tonne.base.tax import TaxTreatment
from tonne.catalog.snapshot import Catalogues
from tonne.checkout import store as checkout_store
from tonne.checkout.attempt_limit import AttemptLimit, OpenLimit
from tonne.checkout.begin_checkout import (
    Visitor,
    begin_checkout,
    read_customer_name,
    read_email,
    read_external_id,
)
from tonne.checkout.errors import (
    AlreadyPaid,
    OffsetLinkClosed,
    PaymentPageUnavailable,
    RedirectRefused,
    SellerTakesNoCards,
)
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_secret import open_link_secrets
from tonne.checkout.link_store import find_link_any_account
from tonne.checkout.offer import LinkOffer, Offered
from tonne.checkout.offset_form import OffsetForm, from_fields, from_query, preset_of, price_form, try_to_price
from tonne.checkout.redirects import check_redirect
from tonne.checkout.shown_offer import PricedOffer
from tonne.checkout.signed_query import REPEATED, SIGNATURE, SIGNED, SignedQuery, find_signed_query, verify_query
from tonne.db.pool import Database
from tonne.gateways.card_gateways import takes_cards
from tonne.http.route import Request, Response
from tonne.orders.beneficiary import Beneficiary
from tonne.web.forms import FormGuard
from tonne.web.render import Renderer, see_other

_MAX_LABEL = 100

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPage:
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    settings: Settings
    box: SecretBox
    begin_limit: AttemptLimit
    open_limit: OpenLimit

    async def show(self, request: Request) -> Response:
        """The form, prefilled from the query, with the price if the amount is known."""
        self.open_limit.count(request)
        try:
            offer = await self._load_offer(request)
        except SellerTakesNoCards:
            return self.renderer.page(
                request, "offset_closed.html", status=503, seller_email=self.settings.seller_email
            )
        filled = from_query(request, offer, await self._signed_query(offer.link, _pairs_of(request)))
        redirect_url, _ = await self._redirect(offer.link, filled)
        external_id = read_external_id(filled.external_id)
        # Only for signed queries: otherwise anyone could find out which references are paid.
        if external_id is not None and filled.is_verified:
            async with self.database.connection() as connection:
                if await checkout_store.is_paid(connection, offer.link.scope, offer.link.id, external_id):
                    raise AlreadyPaid("This payment was already made. You don't need to pay again.")
        priced, fault = try_to_price(offer, filled)
        return self._form(request, offer, filled, priced=priced, fault=fault, back=redirect_url)

    async def price(self, request: Request) -> Response:
        """The price as an HTML fragment, for the script that updates it."""
        self.open_limit.count(request)
        offer = await self._load_offer(request)
        signed = await self._signed_query(offer.link, _pairs_of(request))
        priced, fault = try_to_price(offer, from_query(request, offer, signed))
        return self.renderer.page(request, "_price.html", **_price(priced), missing=fault)

    async def begin(self, request: Request) -> Response:
        fields = self.guard.check(request)
        self.begin_limit.count(request)
        offer = await self._load_offer(request)
        repeated = [(REPEATED, text) for text in fields.get(REPEATED, [])]
        signed = await self._signed_query(offer.link, repeated)
        filled = from_fields(fields, preset_of(request, offer) if not offer.link.amount_editable else None, signed)
        priced: PricedOffer | None = None
        try:
            redirect_url, label = await self._redirect(offer.link, filled)
            wanted, priced = price_form(offer, filled)
            visitor = Visitor(
                email=read_email(filled.email),
                external_id=read_external_id(filled.external_id),
                is_verified=filled.is_verified,
                redirect_url=redirect_url,
                redirect_label=label,
                beneficiary=_customer(offer.link, filled),
            )
            async with self.database.transaction() as tx:
                token = await begin_checkout(tx, offer.link, wanted, priced, visitor=visitor, now=self.clock())
        except TonneError as fault:
            return self._form(request, offer, filled, priced=priced, fault=fault, status=422)
        return see_other(f"/checkout/{token}")

    async def _load_offer(self, request: Request) -> LinkOffer:
        link_id = request.path("link_id")
        async with self.database.connection() as connection:
            link = await find_link_any_account(connection, link_id) if is_id("lnk", link_id) else None
        if link is None or not link.is_open(self.clock()):
            raise OffsetLinkClosed
        if not takes_cards(self.settings, link.scope.mode):
            raise SellerTakesNoCards
        terms = (await self.directory.terms_of(link.scope)).at_checkout()
        if terms.is_closed:
            raise OffsetLinkClosed
        catalogue = await self.catalogues.current(link.scope.mode)
        return LinkOffer(link, terms, catalogue)

    async def _signed_query(self, link: OffsetLink, pairs: Sequence[tuple[str, str]]) -> SignedQuery | None:
        """The verified parameters. None if there is no signature; raises if there is a wrong or an expired one."""
        found = find_signed_query(pairs)
        if found is None:
            return None
        now = self.clock()
        try:
            async with self.database.connection() as connection:
                secrets = await open_link_secrets(connection, link, self.box, now)
        except SecretUnreadable as error:
            _log.error("link_secret_unreadable", link_id=link.id, reason=str(error))
            raise PaymentPageUnavailable from error
        return verify_query(found, link.id, secrets, now)

    async def _redirect(self, link: OffsetLink, filled: OffsetForm) -> tuple[str | None, str | None]:
        """Target and label of the button after the payment. Validated every time, because hosts can be forbidden.

        An invalid URL in the query is an error. If the link's own URL is no longer allowed, there is no button.
        """
        async with self.database.connection() as connection:
            hosts = await list_hosts(connection, link.scope.organisation_id)
        if filled.redirect_url:
            label = filled.redirect_label.strip()[:_MAX_LABEL]
            return check_redirect(filled.redirect_url, hosts, link.scope.mode), label or None
        try:
            return check_redirect(link.redirect_url or "", hosts, link.scope.mode), link.redirect_label
        except RedirectRefused:
            return None, None

    def _form(
        self,
        request: Request,
        offer: LinkOffer,
        filled: OffsetForm,
        *,
        priced: PricedOffer | None,
        fault: TonneError | None,
        back: str | None = None,
        status: int = 200,
    ) -> Response:
        token, headers = self.guard.issue(request)
        first = None if fault is None else fault.faults[0]
        return self.renderer.page(
            request,
            "offset.html",
            status=status,
            headers=headers,
            test_mode=offer.link.scope.mode is Mode.TEST,
            link=offer.link,
            filled=filled,
            currency=offer.terms.currency,
            account_beneficiary=offer.terms.beneficiary,
            is_taxed=offer.terms.tax.treatment is TaxTreatment.STANDARD,
            bundles=[_bundle(each, filled) for each in offer.bundles],
            form_token=token,
            fault=first,
            back=back,
            **_price(priced),
            missing=fault,
        )


def _customer(link: OffsetLink, filled: OffsetForm) -> Beneficiary | None:
    return read_customer_name(filled.name, is_public=filled.is_name_public) if link.asks_for_name else None


def _pairs_of(request: Request) -> list[tuple[str, str]]:
    return [(name, value) for name in sorted({*SIGNED, SIGNATURE, REPEATED}) for value in request.query_values(name)]


def _price(offer: PricedOffer | None) -> dict[str, Any]:
    """The values that the template of a price needs."""
    return {"priced": None if offer is None else offer.priced, "tax": None if offer is None else offer.tax}


def _bundle(each: Offered, filled: OffsetForm) -> dict[str, Any]:
    return {
        "id": each.bundle.id,
        "name": each.bundle.name,
        "description": each.bundle.description,
        "is_available": each.is_available,
        "is_chosen": each.is_available and (not filled.bundle_ids or each.bundle.id in filled.bundle_ids),
    }

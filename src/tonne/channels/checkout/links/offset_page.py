"""The page of an offset link: a form for the amount and the bundles, with the exact price."""

from collections.abc import Sequence
from typing import Any

import structlog
from msgspec import Struct

from tonne.channels.checkout import errors
from tonne.channels.checkout import store as checkout_store
from tonne.channels.checkout.create_checkout import (
    Visitor,
    begin_checkout,
    collected,
    read_customer_name,
    read_email,
    read_external_id,
    read_visitor_reference,
)
from tonne.channels.checkout.link_counts.counts import LinkCounts
from tonne.channels.checkout.links import offset_form
from tonne.channels.checkout.links.amounts import Suggestion, suggestions
from tonne.channels.checkout.links.model import OffsetLink, Redirect, choose_redirect
from tonne.channels.checkout.links.offer import LinkOffer, PricedOffer, choose
from tonne.channels.checkout.links.offset_form import bundle_cards, unit_price
from tonne.channels.checkout.links.signed_query import (
    REPEATED,
    SIGNATURE,
    SIGNED,
    SignedQuery,
    find_signed_query,
    open_link_secrets,
    verify_query,
)
from tonne.channels.checkout.links.store import find_link_any_account
from tonne.channels.checkout.model import hash_token, is_token
from tonne.channels.checkout.paying.attempt_limit import AttemptLimit, OpenLimit
from tonne.channels.checkout.paying.buyers import signed_buyer
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.db.database import Database
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Clock, Mode, is_id
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.platform.web.shown_errors import texts_of
from tonne.platform.web.visitor import decimal_sign, visitor_language
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.logos.merchant import find_merchant
from tonne.selling.accounts.logos.store import find_logo
from tonne.selling.accounts.redirect_hosts import list_hosts
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.model import Beneficiary

# The query parameter with the token of a checkout that the visitor wants to change.
EDITED = "edit"
# In the order of the page.
_FIELDS = ("amount", "bundle_id", "email", "name_on_certificate")

_log = structlog.get_logger()


class OffsetPage(Struct, frozen=True, kw_only=True):
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
    counts: LinkCounts

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return self.begin_limit.buckets, self.open_limit.buckets

    async def show(self, request: Request) -> Response:
        """The form, prefilled from the query, with the price if the amount is known."""
        self.open_limit.count(request)
        try:
            offer = await self._load_offer(request)
        except errors.SellerTakesNoCards:
            return self.renderer.page(
                request, "offset_closed.html", status=503, seller_email=self.settings.seller_email
            )
        sign = decimal_sign(visitor_language(request, offer.language).locale)
        filled = await self._edited(request, offer, sign)
        if filled is None:
            filled = offset_form.from_query(
                request, offer, await self._signed_query(offer.link, _pairs_of(request)), sign
            )
        if filled.is_switched:
            filled = offset_form.convert(offer, filled, sign)
        redirect = await self._redirect(offer.link, filled)
        external_id = read_external_id(filled.external_id)
        # Only for signed queries: otherwise anyone could find out which references are paid.
        if external_id is not None and filled.external_id_verified:
            async with self.database.connection() as connection:
                if await checkout_store.is_paid(connection, offer.link.scope, offer.link.id, external_id):
                    raise errors.AlreadyPaid(N_("This payment was already made. You don't need to pay again."))
        price = offset_form.try_to_price(offer, filled)
        self.counts.count_offset_page(offer.link, request)
        return await self._form(request, offer, filled, priced=price.offer, faults=price.faults, back=redirect.url)

    async def price(self, request: Request) -> Response:
        """The price as an HTML fragment, for the script that updates it."""
        self.open_limit.count(request)
        offer = await self._load_offer(request)
        language = visitor_language(request, offer.language)
        sign = decimal_sign(language.locale)
        filled = offset_form.from_query(request, offer, await self._signed_query(offer.link, _pairs_of(request)), sign)
        if filled.is_switched:
            filled = offset_form.convert(offer, filled, sign)
        price = offset_form.try_to_price(offer, filled)
        faults = texts_of(price.faults, language.translator)
        return self.renderer.page(
            request,
            "offset_price.html",
            default_language=offer.language,
            **_price(price.offer),
            missing=" ".join(faults.values()),
            filled=filled,
        )

    async def begin(self, request: Request) -> Response:
        fields = self.guard.check(request)
        self.begin_limit.count(request)
        offer = await self._load_offer(request)
        sign = decimal_sign(visitor_language(request, offer.language).locale)
        repeated = [(REPEATED, text) for text in fields.get(REPEATED, [])]
        signed = await self._signed_query(offer.link, repeated)
        filled = offset_form.from_fields(
            fields, None if offer.link.amount_editable else offset_form.preset_of(offer, sign), signed
        )
        if filled.is_switched:
            # Without JavaScript, nobody has seen the price of the amount in its new unit.
            filled = offset_form.convert(offer, filled, sign)
            price = offset_form.try_to_price(offer, filled)
            return await self._form(request, offer, filled, priced=price.offer, faults=price.faults, was_converted=True)
        price = offset_form.price_form(offer, filled)
        faults = list(price.faults)
        visitor = await self._read_visitor(offer.link, filled, faults)
        if visitor is None or price.requested is None or price.offer is None:
            return await self._form(request, offer, filled, priced=price.offer, faults=faults, status=422)
        token = await self.database.commit(
            begin_checkout, offer.link, price.requested, price.offer, visitor=visitor, now=self.clock()
        )
        self.counts.count_begun(offer.link)
        return see_other(f"/checkout/{token}")

    async def logo(self, request: Request) -> Response:
        """The merchant's logo, also of a closed link: orders in progress show it."""
        link_id = request.path("link_id")
        async with self.database.connection() as connection:
            link = await find_link_any_account(connection, link_id) if is_id("lnk", link_id) else None
            found = None if link is None else await find_logo(connection, link.scope)
        if found is None:
            raise errors.OffsetLinkClosed("There is no such picture.")
        (version,) = request.query("v")
        kept = "public, max-age=31536000, immutable" if version == found.version else "public, max-age=60"
        headers = {"Cache-Control": kept, "Content-Security-Policy": "default-src 'none'; sandbox"}
        return Response(found.content, media_type=found.media_type.encode(), headers=headers)

    async def _edited(self, request: Request, offer: LinkOffer, sign: str) -> offset_form.OffsetForm | None:
        """What the visitor entered before, if the query names a checkout of this link that they may begin again."""
        (token,) = request.query(EDITED)
        if token is None or not is_token(token):
            return None
        checkout = await self.database.run(checkout_store.find_checkout, hash_token(token))
        if checkout is None or checkout.offset_link_id != offer.link.id or not checkout.can_start_again:
            return None
        return offset_form.from_checkout(checkout, sign)

    async def _read_visitor(
        self, link: OffsetLink, filled: offset_form.OffsetForm, faults: list[TonneError]
    ) -> Visitor | None:
        """Adds all faults of the fields. None if there are any."""
        redirect, email, external_id, reference, beneficiary = Redirect(), "", None, None, None
        with collected(faults):
            redirect = await self._redirect(link, filled)
        with collected(faults):
            email = read_email(filled.email)
        with collected(faults):
            external_id = read_external_id(filled.external_id)
        with collected(faults):
            reference = read_visitor_reference(filled.reference)
        with collected(faults):
            beneficiary = _customer(link, filled)
        if faults:
            return None
        return Visitor(
            email=email,
            external_id=external_id,
            external_id_verified=filled.external_id_verified,
            reference=reference,
            redirect=redirect,
            beneficiary=beneficiary,
            is_vouched_for=filled.external_id_verified and filled.has_signed_amount,
            buyer=None if filled.signed is None else signed_buyer(filled.signed.values),
        )

    async def _load_offer(self, request: Request) -> LinkOffer:
        link_id = request.path("link_id")
        async with self.database.connection() as connection:
            link = await find_link_any_account(connection, link_id) if is_id("lnk", link_id) else None
        if link is None or not link.is_open(self.clock()):
            raise errors.OffsetLinkClosed
        if not takes_cards(self.settings, link.scope.mode):
            raise errors.SellerTakesNoCards
        terms = (await self.directory.terms_of(link.scope)).at_checkout()
        if not terms.takes_orders:
            raise errors.OffsetLinkClosed
        catalogue = await self.catalogues.current(link.scope.mode)
        return LinkOffer(link, terms, catalogue)

    async def _signed_query(self, link: OffsetLink, pairs: Sequence[tuple[str, str]]) -> SignedQuery | None:
        """The verified parameters. None if there is no signature; raises if there is a wrong or an expired one."""
        found = find_signed_query(pairs)
        if found is None:
            return None
        now = self.clock()
        try:
            secrets = await self.database.run(open_link_secrets, link, self.box, now)
        except SecretUnreadable as error:
            _log.error("link_secret_unreadable", link_id=link.id, reason=str(error))
            raise errors.PaymentPageUnavailable from error
        return verify_query(found, link.id, secrets, now)

    async def _redirect(self, link: OffsetLink, filled: offset_form.OffsetForm) -> Redirect:
        hosts = await self.database.run(list_hosts, link.scope.organisation_id)
        asked = filled.redirect
        return choose_redirect(link, Redirect() if asked.url is None else asked.shortened(), hosts)

    async def _form(
        self,
        request: Request,
        offer: LinkOffer,
        filled: offset_form.OffsetForm,
        *,
        priced: PricedOffer | None,
        faults: Sequence[TonneError],
        back: str | None = None,
        was_converted: bool = False,
        status: int = 200,
    ) -> Response:
        token, headers = self.guard.issue(request)
        language = visitor_language(request, offer.language)
        merchant = await self.database.run(find_merchant, offer.link.scope, offer.link.id)
        cards = bundle_cards(offer, filled.bundle_ids)
        texts = texts_of(faults, language.translator)
        return self.renderer.page(
            request,
            "offset.html",
            default_language=offer.language,
            status=status,
            headers=headers,
            test_mode=offer.link.scope.mode is Mode.TEST,
            link=offer.link,
            merchant=merchant,
            filled=filled,
            currency=offer.terms.currency,
            decimal_sign=decimal_sign(language.locale),
            suggestions=self._suggestions(offer, filled),
            smallest=offset_form.smallest_payment(faults, language.locale),
            account_beneficiary=offer.terms.beneficiary,
            is_taxed=offer.terms.tax.treatment is TaxTreatment.STANDARD,
            bundles=cards,
            form_token=token,
            faults=texts,
            focused=next((name for name in _FIELDS if name in texts), None),
            was_converted=was_converted,
            back=back,
            **_price(priced),
            missing=None,
        )

    def _suggestions(self, offer: LinkOffer, filled: offset_form.OffsetForm) -> list[Suggestion]:
        if not offer.link.amount_editable or filled.has_signed_amount:
            return []
        try:
            choices = choose(offer.bundles, filled.bundle_ids)
        except TonneError:
            choices = []
        return suggestions(offer.link, unit_price(offer, choices), offer.terms.currency)


def _customer(link: OffsetLink, filled: offset_form.OffsetForm) -> Beneficiary | None:
    return read_customer_name(filled.name, is_public=filled.is_name_public) if link.asks_for_name else None


def _pairs_of(request: Request) -> list[tuple[str, str]]:
    return [(name, value) for name in sorted({*SIGNED, SIGNATURE, REPEATED}) for value in request.query_values(name)]


def _price(offer: PricedOffer | None) -> dict[str, Any]:
    """The values that the template of a price needs."""
    return {"priced": None if offer is None else offer.priced, "tax": None if offer is None else offer.tax}

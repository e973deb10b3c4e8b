"""Creating a checkout for a client's server: the customer can only pay it, and change nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from tonne.channels.checkout import errors, model, store
from tonne.channels.checkout.checkout_schemas import CheckoutBuyer, CheckoutIn
from tonne.channels.checkout.errors import CustomerNameInvalid, EmailInvalid, ExternalIdInvalid, ReferenceInvalid
from tonne.channels.checkout.links.model import OffsetLink, Redirect, choose_redirect, read_redirect
from tonne.channels.checkout.links.offer import LinkOffer, PricedOffer, choose, price_offer
from tonne.channels.checkout.links.settings import MAX_VALUE_MINOR
from tonne.channels.checkout.links.store import find_link
from tonne.channels.checkout.model import API_LIFE, Checkout, new_token
from tonne.channels.checkout.paying.buyers import FIELDS, PREFIX, check_buyer
from tonne.channels.checkout.store import ApiCheckout, ApiColumns, insert_checkout, is_paid
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.idempotency import Idempotency, create_once
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.events.audit import record as audit
from tonne.platform.http.client_fields import metadata_text, read_idempotency_key, read_reference
from tonne.platform.http.json_body import Document, read
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, scaled
from tonne.platform.values.context import Actor, Clock, Scope, new_id, same_named
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.accounts.redirect_hosts import list_hosts
from tonne.selling.catalogue.errors import QuantityInvalid, ValueInvalid
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.selection import storable
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.buyer import BuyerDetails, tax_at_checkout
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind

# The field of the form.
NAME_FIELD = "name_on_certificate"
PUBLIC_FIELD = "is_name_public"


@contextmanager
def collected(faults: list[TonneError]) -> Iterator[None]:
    """Adds the fault of a field, so that a visitor sees those of all fields at once."""
    try:
        yield
    except TonneError as fault:
        faults.append(fault)


class Visitor(Struct, frozen=True, kw_only=True):
    """Who pays, and where the page redirects afterwards.

    `external_id` is what the client calls the sale if `external_id_verified`. Otherwise anyone may have typed it.
    """

    email: str
    external_id: str | None
    external_id_verified: bool
    reference: str | None
    redirect: Redirect
    # In whose name the certificate is issued. None: the account's.
    beneficiary: Beneficiary | None = None
    is_vouched_for: bool = False
    # What the client says of the buyer. The payment page is filled in with it.
    buyer: BuyerDetails | None = None


def read_customer_name(text: str, *, is_public: bool) -> Beneficiary | None:
    """The name that a customer entered; None if the field is empty. It is private unless `is_public`."""
    if not text.strip():
        return None
    try:
        return Beneficiary(check_name(text), BeneficiaryKind.PERSON, is_public)
    except NameInvalid as error:
        raise CustomerNameInvalid(field=NAME_FIELD) from error


def read_email(text: str) -> str:
    email = text.strip()
    if not is_mail_address(email):
        raise EmailInvalid(field="email")
    return email


def read_external_id(text: str | None) -> str | None:
    if not text:
        return None
    try:
        return read_idempotency_key(text)
    except ValueError as error:
        raise ExternalIdInvalid(field="external_id") from error


def read_visitor_reference(text: str | None) -> str | None:
    try:
        return read_reference(text) if text else None
    except ValueError as error:
        raise ReferenceInvalid(field="reference") from error


async def begin_checkout(
    tx: Connection, link: OffsetLink, requested: PriceRequest, offer: PricedOffer, *, visitor: Visitor, now: datetime
) -> str:
    """Returns the token for the address of the checkout. The order is placed when the visitor pays."""
    token = model.new_token()
    checkout = compose_checkout(link, requested, offer, visitor=visitor, now=now, expires_at=now + model.LIFE)
    await store.insert_checkout(tx, checkout, token)
    return token


def compose_checkout(
    link: OffsetLink,
    requested: PriceRequest,
    offer: PricedOffer,
    *,
    visitor: Visitor,
    now: datetime,
    expires_at: datetime,
    metadata: str | None = None,
) -> model.Checkout:
    """A new checkout with the offer that is shown."""
    return same_named(
        model.Checkout,
        visitor,
        scope=link.scope,
        id=new_id("chk"),
        offset_link_id=link.id,
        status=model.CheckoutStatus.OPEN,
        requested_quantity_grams=requested.mass_grams,
        requested_value_minor=requested.value_minor,
        bundle_selection=storable(requested.choices or []),
        total_cost_minor=offer.priced.total_cost_minor,
        tax_minor=offer.tax_minor,
        quantity_grams=offer.priced.quantity_grams,
        offer_digest=offer.digest,
        currency=offer.priced.currency,
        order_id=None,
        created_at=now,
        expires_at=expires_at,
        metadata=metadata,
    )


# Keys of the order's metadata that Tonne sets.


class CreateCheckout(msgspec.Struct, frozen=True):
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    clock: Clock
    settings: Settings
    box: SecretBox

    async def create(
        self, scope: Scope, document: Document, idempotency: Idempotency, actor: Actor
    ) -> tuple[ApiCheckout, bytes | None]:
        """The new checkout; or the original with this key, and the digest of the request that created it."""
        # Before taking a connection: holding one while waiting for another can exhaust the pool.
        terms = await self.directory.terms_of(scope)
        terms.require_open()
        catalogue = await self.catalogues.current(scope.mode)
        async with self.database.connection() as connection:

            async def create() -> ApiCheckout | None:
                body, metadata = read(document, CheckoutIn), metadata_text(document)
                now = self.clock()
                async with connection.transaction():
                    link = await self._find_link(connection, scope, body, now)
                    buyer = None if body.buyer is None else _read_buyer(body.buyer)
                    own_terms = terms.at_checkout(await tax_at_checkout(connection, buyer, self.settings, now))
                    offer = LinkOffer(link, own_terms, catalogue)
                    requested = _read_request(offer, body)
                    hosts = await list_hosts(connection, scope.organisation_id)
                    visitor = Visitor(
                        email=body.email,
                        external_id=body.external_id,
                        external_id_verified=True,
                        reference=body.reference,
                        redirect=choose_redirect(link, read_redirect(lambda name: getattr(body, name)), hosts),
                        beneficiary=None if body.beneficiary is None else body.beneficiary.value,
                        is_vouched_for=True,
                        buyer=buyer,
                    )
                    checkout = compose_checkout(
                        link,
                        requested,
                        _price(offer, requested),
                        visitor=visitor,
                        now=now,
                        expires_at=now + API_LIFE,
                        metadata=metadata,
                    )
                    return await self._insert(connection, scope, checkout, idempotency, actor)

            return await create_once(idempotency.key, create, lambda key: store.find_by_key(connection, scope, key))

    async def _find_link(self, tx: Connection, scope: Scope, body: CheckoutIn, now: datetime) -> OffsetLink:
        link = await find_link(tx, scope, body.offset_link_id)
        if link is None:
            raise errors.OffsetLinkUnknown(field="offset_link_id")
        if not link.is_open(now):
            raise errors.OffsetLinkNotOpen(field="offset_link_id")
        if not takes_cards(self.settings, scope.mode):
            raise errors.OffsetLinkNotPayable(
                "Nobody could pay this checkout: the service has no card gateway for live mode. Ask its operator to "
                "set TONNE_STRIPE_SECRET_KEY.",
                field="offset_link_id",
            )
        if body.external_id is not None and await is_paid(tx, scope, link.id, body.external_id):
            raise errors.AlreadyPaid("The checkout of this external_id is paid. See its order.", field="external_id")
        return link

    async def _insert(
        self, tx: Connection, scope: Scope, checkout: Checkout, idempotency: Idempotency, actor: Actor
    ) -> ApiCheckout | None:
        token = new_token()
        new = ApiCheckout(
            checkout, self.box.seal(token, checkout.id), idempotency.key or new_id("auto"), order_status=None
        )
        columns = ApiColumns(new.sealed_token, new.idempotency_key, idempotency.digest)
        if not await insert_checkout(tx, checkout, token, columns):
            return None
        details: dict[str, Any] = {"offset_link_id": checkout.offset_link_id, "external_id": checkout.external_id}
        at = checkout.created_at
        await audit.record(tx, scope, "checkout.created", by=actor.at(at), subject_id=checkout.id, **details)
        return new


def _read_buyer(sent: CheckoutBuyer) -> BuyerDetails:
    """Raises Invalid with all faults."""
    faults: list[TonneError] = []
    buyer = check_buyer(same_named(BuyerDetails, sent), faults)
    if faults:
        named = {name: name.replace(PREFIX, "buyer.", 1) for name in FIELDS}
        raise Invalid([each for fault in faults for each in _renamed(fault.faults, named)])
    return buyer


def _read_request(offer: LinkOffer, body: CheckoutIn) -> PriceRequest:
    """Raises Invalid with all errors of the amount and the bundles."""
    faults: list[Fault] = []
    link, currency = offer.link, offer.terms.currency
    grams, minor = link.preset_quantity_grams, link.preset_value_minor
    if body.quantity is not None and body.value is not None:
        faults.append(Fault("validation_error", "Send either quantity or value, not both.", "value"))
    elif body.quantity is not None:
        grams, minor = scaled(Decimal(body.quantity), 6), None
        if grams is None or not 1 <= grams <= MAX_GRAMS:
            faults += QuantityInvalid(
                "quantity must be from 0.000001 to 100000000 t, with at most 6 decimals.", field="quantity"
            ).faults
    elif body.value is not None:
        grams, minor = None, scaled(Decimal(body.value), DECIMALS[currency])
        if minor is None or not 1 <= minor <= MAX_VALUE_MINOR:
            faults += ValueInvalid(field="value").faults
    elif grams is None and minor is None:
        faults += errors.CheckoutAmountMissing(field="quantity").faults
    try:
        # An empty id is not on offer, so an empty list is rejected.
        choices = choose(offer.bundles, () if body.bundle_ids is None else body.bundle_ids or ("",))
    except TonneError as error:
        faults += _renamed(error.faults, {"bundle_id": "bundle_ids"})
    if faults:
        raise Invalid(faults)
    return PriceRequest(mass_grams=grams, value_minor=minor, choices=choices)


def _price(offer: LinkOffer, requested: PriceRequest) -> PricedOffer:
    try:
        return price_offer(offer, requested)
    except TonneError as error:
        amount = "quantity" if requested.mass_grams is not None else "value"
        error.faults = _renamed(error.faults, {"amount": amount, "bundle_id": "bundle_ids"})
        raise


def _renamed(faults: Sequence[Fault], names: dict[str, str]) -> list[Fault]:
    """With the fields of the API instead of those of the form."""
    return [msgspec.structs.replace(fault, field=names.get(fault.field or "", fault.field)) for fault in faults]

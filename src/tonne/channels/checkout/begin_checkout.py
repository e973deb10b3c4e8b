from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from msgspec import Struct

from tonne.channels.checkout import model, store
from tonne.channels.checkout.errors import CustomerNameInvalid, EmailInvalid, ExternalIdInvalid, ReferenceInvalid
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.redirects import Redirect
from tonne.channels.checkout.links.shown_offer import PricedOffer
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.http.client_fields import read_idempotency_key, read_reference
from tonne.platform.values.context import new_id
from tonne.platform.values.errors import TonneError
from tonne.platform.values.same_named import same_named
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.selection import storable
from tonne.selling.orders.beneficiary import Beneficiary
from tonne.selling.orders.model import BeneficiaryKind

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

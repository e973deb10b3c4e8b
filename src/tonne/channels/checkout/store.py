"""SQL for checkouts. A checkout is found by the hash of the secret token in its address."""

from datetime import datetime
from typing import Any

import msgspec

from tonne.channels.checkout.links.shown_offer import PricedOffer
from tonne.channels.checkout.model import Checkout, CheckoutStatus
from tonne.channels.checkout.paying.consent import BuyerKind, Consent
from tonne.platform.db.pool import Connection
from tonne.platform.values.scope import Mode, Scope
from tonne.selling.orders.beneficiary import Beneficiary
from tonne.selling.orders.model import BeneficiaryKind, Order

INSERT_CHECKOUT = """
INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash, status,
                       requested_quantity_grams, requested_value_minor, bundle_selection, total_cost_minor,
                       quantity_grams, offer_digest, currency, email, external_id, is_verified, redirect_url,
                       redirect_label, created_at, expires_at, next_close_at, tax_minor, beneficiary_name,
                       beneficiary_kind, beneficiary_is_public)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $21,
        $22, $23, $24, $25)
"""


async def insert_checkout(
    tx: Connection, scope: Scope, checkout: Checkout, *, token_hash: bytes, temporary_id_hash: bytes
) -> None:
    await tx.execute(
        INSERT_CHECKOUT,
        scope.account_id,
        checkout.id,
        scope.organisation_id,
        scope.mode,
        checkout.offset_link_id,
        token_hash,
        temporary_id_hash,
        checkout.requested_quantity_grams,
        checkout.requested_value_minor,
        msgspec.json.encode(checkout.bundle_selection).decode(),
        checkout.total_cost_minor,
        checkout.quantity_grams,
        checkout.offer_digest,
        checkout.currency,
        checkout.email,
        checkout.external_id,
        checkout.is_verified,
        checkout.redirect_url,
        checkout.redirect_label,
        checkout.created_at,
        checkout.expires_at,
        checkout.tax_minor,
        *beneficiary_columns(checkout),
    )


_COLUMNS = """account_id, id, organisation_id, mode, offset_link_id, status, requested_quantity_grams,
       requested_value_minor, bundle_selection, total_cost_minor, tax_minor, quantity_grams, offer_digest, currency,
       email, external_id, is_verified, redirect_url, redirect_label, order_id, created_at, expires_at, metadata,
       beneficiary_name, beneficiary_kind, beneficiary_is_public, buyer_kind, consent_version, consent_language,
       consented_at"""
FIND_CHECKOUT = f"SELECT {_COLUMNS} FROM checkouts WHERE token_hash = $1"  # noqa: S608 - columns above


async def find_checkout(connection: Connection, secret_hash: bytes) -> Checkout | None:
    row = await connection.fetchrow(FIND_CHECKOUT, secret_hash)
    return None if row is None else checkout_of(dict(row))


LOCK_CHECKOUT = f"SELECT {_COLUMNS} FROM checkouts WHERE token_hash = $1 FOR UPDATE"  # noqa: S608 - columns above


async def lock_checkout(tx: Connection, secret_hash: bytes) -> Checkout | None:
    """Serialises double clicks and payments from several tabs."""
    row = await tx.fetchrow(LOCK_CHECKOUT, secret_hash)
    return None if row is None else checkout_of(dict(row))


# Serialises payments with the same reference. Taken before any row lock: otherwise two payments could deadlock.
LOCK_REFERENCE = "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 4))"


async def lock_reference(tx: Connection, scope: Scope, reference: str) -> None:
    await tx.execute(LOCK_REFERENCE, scope.account_id, reference)


LOCK_ORDERED = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE account_id = $1 AND offset_link_id = $2 AND external_id = $3 AND is_verified AND status = 'ordered' FOR UPDATE
"""  # noqa: S608 - columns above


async def lock_ordered(tx: Connection, scope: Scope, offset_link_id: str, external_id: str) -> Checkout | None:
    """The verified checkout with this reference that has an order. There is at most one."""
    row = await tx.fetchrow(LOCK_ORDERED, scope.account_id, offset_link_id, external_id)
    return None if row is None else checkout_of(dict(row))


IS_PAID = """
SELECT EXISTS (
    SELECT FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    WHERE checkouts.account_id = $1 AND checkouts.offset_link_id = $2 AND checkouts.external_id = $3
      AND checkouts.is_verified AND checkouts.status = 'ordered' AND orders.status IN ('paid', 'retiring', 'complete'))
"""


async def is_paid(connection: Connection, scope: Scope, offset_link_id: str, external_id: str) -> bool:
    """Whether the order with this verified reference is paid."""
    return await connection.fetchval(IS_PAID, scope.account_id, offset_link_id, external_id) is True


SET_ORDERED = """
UPDATE checkouts SET status = 'ordered', order_id = $3, total_cost_minor = $4, quantity_grams = $5, offer_digest = $6,
    next_close_at = $7, next_mail_at = $7, tax_minor = $8
WHERE account_id = $1 AND id = $2
"""


async def set_ordered(
    tx: Connection, checkout: Checkout, order: Order, offer: PricedOffer, next_check_at: datetime
) -> None:
    priced = offer.priced
    await tx.execute(
        SET_ORDERED,
        checkout.scope.account_id,
        checkout.id,
        order.id,
        priced.total_cost_minor,
        priced.quantity_grams,
        offer.digest,
        next_check_at,
        offer.tax_minor,
    )


SET_BENEFICIARY = """
UPDATE checkouts SET beneficiary_name = $3, beneficiary_kind = $4, beneficiary_is_public = $5
WHERE account_id = $1 AND id = $2
"""


async def set_beneficiary(tx: Connection, checkout: Checkout) -> None:
    await tx.execute(SET_BENEFICIARY, checkout.scope.account_id, checkout.id, *beneficiary_columns(checkout))


EXTEND = "UPDATE checkouts SET expires_at = greatest(expires_at, $3) WHERE account_id = $1 AND id = $2"


async def extend(tx: Connection, scope: Scope, checkout_id: str, until: datetime) -> None:
    await tx.execute(EXTEND, scope.account_id, checkout_id, until)


FIND_PAYMENT = """
SELECT orders.wire_document
FROM checkouts
JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id AND charges.status = 'captured'
WHERE checkouts.temporary_id_hash = $1 AND checkouts.organisation_id = $2 AND checkouts.mode = $3
  AND charges.settled_at > $4 AND ($5::text[] IS NULL OR orders.account_id = ANY($5))
"""


async def find_payment(
    connection: Connection, scope: Scope, id_hash: bytes, paid_after: datetime, accounts: frozenset[str] | None = None
) -> bytes | None:
    """The JSON document of the order whose payment has this temporary id; of these accounts only, None for all."""
    among = None if accounts is None else list(accounts)
    document: bytes | None = await connection.fetchval(
        FIND_PAYMENT, id_hash, scope.organisation_id, scope.mode, paid_after, among
    )
    return document


def checkout_of(values: dict[str, Any]) -> Checkout:
    """From the columns of a row."""
    scope = Scope(values.pop("organisation_id"), values.pop("account_id"), Mode(values.pop("mode")))
    selection = msgspec.json.decode(values.pop("bundle_selection") or "[]")
    # The address of a closed checkout without an order is erased.
    email, status = values.pop("email") or "", CheckoutStatus(values.pop("status"))
    name, kind = values.pop("beneficiary_name"), values.pop("beneficiary_kind")
    is_public = values.pop("beneficiary_is_public")
    buyer, version = values.pop("buyer_kind"), values.pop("consent_version")
    language, consented_at = values.pop("consent_language"), values.pop("consented_at")
    return Checkout(
        scope=scope,
        status=status,
        bundle_selection=selection,
        email=email,
        beneficiary=None if name is None else Beneficiary(name, BeneficiaryKind(kind), is_public),
        consent=None if buyer is None else Consent(BuyerKind(buyer), version, language, consented_at),
        **values,
    )


def beneficiary_columns(checkout: Checkout) -> tuple[str | None, str | None, bool]:
    """Name, kind and whether it is public, as they are stored."""
    beneficiary = checkout.beneficiary
    return (None, None, False) if beneficiary is None else (beneficiary.name, beneficiary.kind, beneficiary.is_public)

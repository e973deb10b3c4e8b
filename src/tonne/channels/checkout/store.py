"""SQL for checkouts. A checkout is found by the hash of the secret token in its address."""

from datetime import datetime
from typing import Any, NamedTuple

import asyncpg
import msgspec

from tonne.channels.checkout import model
from tonne.channels.checkout.links.model import read_redirect
from tonne.channels.checkout.links.offer import PricedOffer
from tonne.channels.checkout.model import Checkout
from tonne.channels.checkout.paying.consent import BuyerKind, Consent
from tonne.platform.db.database import Connection, parameters_of, scope_of, value_of
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import Position
from tonne.selling.orders.buyer import BuyerDetails
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, Order, OrderStatus


class ApiColumns(NamedTuple):
    """What only checkouts have that the API creates."""

    sealed_token: bytes
    idempotency_key: str
    request_digest: bytes


# Both for checkouts of visitors and for those that the API creates.
COLUMNS = """account_id, id, organisation_id, mode, offset_link_id, status, requested_quantity_grams,
       requested_value_minor, bundle_selection, total_cost_minor, tax_minor, quantity_grams, offer_digest, currency,
       email, external_id, external_id_verified, reference, redirect_url, redirect_label, order_id, created_at,
       expires_at, metadata, beneficiary_name, beneficiary_kind, beneficiary_is_public, buyer_kind, consent_version,
       consent_language, consented_at, is_vouched_for, buyer"""
INSERT_CHECKOUT = f"""
INSERT INTO checkouts ({COLUMNS}, next_close_at, token_hash, temporary_id_hash, token_box, idempotency_key,
                       request_digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27, $28, $29, $30, $31, $32, $33, $23, $34, $35, $36, $37, $38)
ON CONFLICT (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING true
"""  # noqa: S608 - columns above


async def insert_checkout(tx: Connection, checkout: model.Checkout, token: str, api: ApiColumns | None = None) -> bool:
    """False when the idempotency key is taken, which visitors do not have."""
    hashes = model.hash_token(token), model.hash_temporary_id(model.temporary_id_of(token))
    return await tx.fetchval(INSERT_CHECKOUT, *_values(checkout), *hashes, *(api or (None, None, None))) is True


FIND_CHECKOUT = f"SELECT {COLUMNS} FROM checkouts WHERE token_hash = $1"  # noqa: S608 - columns above


async def find_checkout(connection: Connection, secret_hash: bytes) -> model.Checkout | None:
    row = await connection.fetchrow(FIND_CHECKOUT, secret_hash)
    return None if row is None else checkout_of(row)


LOCK_CHECKOUT = f"SELECT {COLUMNS} FROM checkouts WHERE token_hash = $1 FOR UPDATE"  # noqa: S608 - columns above


async def lock_checkout(tx: Connection, secret_hash: bytes) -> model.Checkout | None:
    """Serialises double clicks and payments from several tabs."""
    row = await tx.fetchrow(LOCK_CHECKOUT, secret_hash)
    return None if row is None else checkout_of(row)


LOCK_ORDER_ID = "SELECT order_id FROM checkouts WHERE account_id = $1 AND id = $2 FOR UPDATE"


async def lock_order_id(tx: Connection, checkout: model.Checkout) -> str | None:
    """The order of a checkout; none is placed until the transaction ends."""
    order_id: str | None = await tx.fetchval(LOCK_ORDER_ID, checkout.scope.account_id, checkout.id)
    return order_id


# Serialises payments with the same external id. Taken before any row lock: otherwise two payments could deadlock.
LOCK_EXTERNAL_ID = "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 4))"


async def lock_external_id(tx: Connection, checkout: model.Checkout) -> None:
    place = f"{checkout.offset_link_id} {checkout.external_id}"
    await tx.execute(LOCK_EXTERNAL_ID, checkout.scope.account_id, place)


LOCK_ORDERED = f"""
SELECT {COLUMNS} FROM checkouts
WHERE account_id = $1 AND offset_link_id = $2 AND external_id = $3 AND external_id_verified
  AND status = 'ordered' FOR UPDATE
"""  # noqa: S608 - columns above


async def lock_ordered(tx: Connection, scope: Scope, offset_link_id: str, external_id: str) -> model.Checkout | None:
    """The verified checkout with this reference that has an order. There is at most one."""
    row = await tx.fetchrow(LOCK_ORDERED, scope.account_id, offset_link_id, external_id)
    return None if row is None else checkout_of(row)


IS_PAID = """
SELECT EXISTS (
    SELECT FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    WHERE checkouts.account_id = $1 AND checkouts.offset_link_id = $2 AND checkouts.external_id = $3
      AND checkouts.external_id_verified AND checkouts.status = 'ordered'
      AND orders.status IN ('paid', 'retiring', 'complete'))
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
    tx: Connection, checkout: model.Checkout, order: Order, offer: PricedOffer, next_check_at: datetime
) -> None:
    priced = parameters_of(offer, "priced.total_cost_minor, priced.quantity_grams, digest")
    key = (checkout.scope.account_id, checkout.id)
    await tx.execute(SET_ORDERED, *key, order.id, *priced, next_check_at, offer.tax_minor)


SET_BENEFICIARY = """
UPDATE checkouts SET beneficiary_name = $3, beneficiary_kind = $4, beneficiary_is_public = $5
WHERE account_id = $1 AND id = $2
"""


async def set_beneficiary(tx: Connection, checkout: model.Checkout) -> None:
    await tx.execute(SET_BENEFICIARY, checkout.scope.account_id, checkout.id, *beneficiary_columns(checkout))


EXTEND = "UPDATE checkouts SET expires_at = greatest(expires_at, $3) WHERE account_id = $1 AND id = $2"


async def extend(tx: Connection, scope: Scope, checkout_id: str, until: datetime) -> None:
    await tx.execute(EXTEND, scope.account_id, checkout_id, until)


FIND_PAYMENT = """
SELECT orders.wire_document
FROM checkouts
JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id
            AND charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus
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


def _values(checkout: model.Checkout) -> list[Any]:
    """In the order of COLUMNS."""
    scope = checkout.scope
    name, kind, is_public = beneficiary_columns(checkout)
    values = {
        **msgspec.structs.asdict(checkout),
        **checkout.redirect.named(),
        "account_id": scope.account_id,
        "organisation_id": scope.organisation_id,
        "mode": scope.mode,
        "bundle_selection": msgspec.json.encode(checkout.bundle_selection).decode(),
        "buyer": None if checkout.buyer is None else msgspec.json.encode(checkout.buyer).decode(),
        "beneficiary_name": name,
        "beneficiary_kind": kind,
        "beneficiary_is_public": is_public,
    }
    # A new checkout has no consent yet.
    return [values.get(column) for column in _NAMES]


_NAMES = [name.strip() for name in COLUMNS.split(",")]


def checkout_of(row: asyncpg.Record) -> model.Checkout:
    name, buyer_kind, buyer = row["beneficiary_name"], row["buyer_kind"], row["buyer"]
    kind, is_public = row["beneficiary_kind"], row["beneficiary_is_public"]
    consent = (row["consent_version"], row["consent_language"], row["consented_at"])
    return value_of(
        model.Checkout,
        row,
        scope=scope_of(row),
        bundle_selection=msgspec.json.decode(row["bundle_selection"] or "[]"),
        # The address of a closed checkout without an order is erased.
        email=row["email"] or "",
        redirect=read_redirect(row.get),
        beneficiary=None if name is None else Beneficiary(name, BeneficiaryKind(kind), is_public),
        consent=None if buyer_kind is None else Consent(BuyerKind(buyer_kind), *consent),
        buyer=None if buyer is None else msgspec.json.decode(buyer, type=BuyerDetails),
    )


def beneficiary_columns(checkout: model.Checkout) -> tuple[str | None, str | None, bool]:
    """Name, kind and whether it is public, as they are stored."""
    beneficiary = checkout.beneficiary
    return (None, None, False) if beneficiary is None else (beneficiary.name, beneficiary.kind, beneficiary.is_public)


# SQL for checkouts that the API created. Only these have a sealed token and an idempotency key.


class ApiCheckout(msgspec.Struct, frozen=True):
    """`sealed_token` is the token of the checkout's address. `order_status` is None if there is no order yet."""

    checkout: Checkout
    sealed_token: bytes
    idempotency_key: str
    order_status: OrderStatus | None


_COLUMNS = f"""{COLUMNS}, token_box, idempotency_key, request_digest, (
    SELECT orders.status FROM orders WHERE orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
) AS order_status"""  # noqa: S608 - columns of all checkouts
FIND_BY_KEY = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND idempotency_key = $4
"""  # noqa: S608 - columns above


async def find_by_key(connection: Connection, scope: Scope, key: str) -> tuple[ApiCheckout, bytes] | None:
    """The checkout with this idempotency key, and the digest of the request that created it."""
    row = await connection.fetchrow(FIND_BY_KEY, scope.organisation_id, scope.mode, scope.account_id, key)
    return None if row is None else (_api_checkout(row), row["request_digest"])


FIND_BY_ID = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4 AND token_box IS NOT NULL
"""  # noqa: S608 - columns above


async def find_by_id(connection: Connection, scope: Scope, checkout_id: str) -> ApiCheckout | None:
    row = await connection.fetchrow(FIND_BY_ID, scope.organisation_id, scope.mode, scope.account_id, checkout_id)
    return None if row is None else _api_checkout(row)


LIST_CHECKOUTS = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3
  AND token_box IS NOT NULL AND (created_at, id) < ($4, $5)
ORDER BY created_at DESC, id DESC LIMIT $6
"""  # noqa: S608 - columns above


async def list_checkouts(connection: Connection, scope: Scope, start: Position, limit: int) -> list[ApiCheckout]:
    rows = await connection.fetch(
        LIST_CHECKOUTS, scope.organisation_id, scope.mode, scope.account_id, start.created_at, start.id, limit
    )
    return [_api_checkout(row) for row in rows]


def _api_checkout(row: asyncpg.Record) -> ApiCheckout:
    return value_of(ApiCheckout, row, checkout=checkout_of(row), sealed_token=row["token_box"])

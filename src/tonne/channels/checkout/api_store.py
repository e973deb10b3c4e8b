"""SQL for checkouts that the API created. Only these have a sealed token and an idempotency key."""

from collections.abc import Sequence

import asyncpg
import msgspec

from tonne.channels.checkout.model import Checkout
from tonne.channels.checkout.store import beneficiary_columns, checkout_of
from tonne.platform.db.pool import Connection
from tonne.platform.keys.secret_box import HEADER_BYTES
from tonne.platform.values.paging import Position
from tonne.platform.values.scope import Scope
from tonne.selling.orders.model import OrderStatus


class ApiCheckout(msgspec.Struct, frozen=True):
    """`sealed_token` is the token of the checkout's address. `order_status` is None if there is no order yet."""

    checkout: Checkout
    sealed_token: bytes
    idempotency_key: str
    order_status: OrderStatus | None


INSERT_API_CHECKOUT = """
INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash, status,
                       requested_quantity_grams, requested_value_minor, bundle_selection, total_cost_minor,
                       quantity_grams, offer_digest, currency, email, external_id, is_verified, redirect_url,
                       redirect_label, created_at, expires_at, next_close_at, metadata, token_box, idempotency_key,
                       request_digest, tax_minor, beneficiary_name, beneficiary_kind, beneficiary_is_public)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', $8, $9, $10, $11, $12, $13, $14, $15, $16, true, $17, $18, $19, $20, $20,
        $21, $22, $23, $24, $25, $26, $27, $28)
ON CONFLICT (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING true
"""


async def insert_api_checkout(
    tx: Connection, scope: Scope, new: ApiCheckout, *, token_hash: bytes, temporary_id_hash: bytes, digest: bytes
) -> bool:
    """False when the idempotency key is taken."""
    checkout = new.checkout
    inserted = await tx.fetchval(
        INSERT_API_CHECKOUT,
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
        checkout.redirect_url,
        checkout.redirect_label,
        checkout.created_at,
        checkout.expires_at,
        checkout.metadata,
        new.sealed_token,
        new.idempotency_key,
        digest,
        checkout.tax_minor,
        *beneficiary_columns(checkout),
    )
    return inserted is True


_COLUMNS = """checkouts.account_id, checkouts.id, checkouts.organisation_id, checkouts.mode, checkouts.offset_link_id,
       checkouts.status, checkouts.requested_quantity_grams, checkouts.requested_value_minor,
       checkouts.bundle_selection, checkouts.total_cost_minor, checkouts.tax_minor, checkouts.quantity_grams,
       checkouts.offer_digest, checkouts.currency, checkouts.email, checkouts.external_id, checkouts.is_verified,
       checkouts.redirect_url, checkouts.beneficiary_name, checkouts.beneficiary_kind, checkouts.beneficiary_is_public,
       checkouts.buyer_kind, checkouts.consent_version, checkouts.consent_language, checkouts.consented_at,
       checkouts.redirect_label, checkouts.order_id, checkouts.created_at, checkouts.expires_at, checkouts.metadata,
       checkouts.token_box, checkouts.idempotency_key, checkouts.request_digest, orders.status AS order_status"""
_TABLES = """checkouts
LEFT JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id"""
FIND_BY_KEY = f"""
SELECT {_COLUMNS} FROM {_TABLES}
WHERE checkouts.organisation_id = $1 AND checkouts.mode = $2 AND checkouts.account_id = $3
  AND checkouts.idempotency_key = $4
"""  # noqa: S608 - columns and tables above


async def find_by_key(connection: Connection, scope: Scope, key: str) -> tuple[ApiCheckout, bytes] | None:
    """The checkout with this idempotency key, and the digest of the request that created it."""
    row = await connection.fetchrow(FIND_BY_KEY, scope.organisation_id, scope.mode, scope.account_id, key)
    return None if row is None else (_api_checkout(row), row["request_digest"])


FIND_BY_ID = f"""
SELECT {_COLUMNS} FROM {_TABLES}
WHERE checkouts.organisation_id = $1 AND checkouts.mode = $2 AND checkouts.account_id = $3 AND checkouts.id = $4
  AND checkouts.token_box IS NOT NULL
"""  # noqa: S608 - columns and tables above


async def find_by_id(connection: Connection, scope: Scope, checkout_id: str) -> ApiCheckout | None:
    row = await connection.fetchrow(FIND_BY_ID, scope.organisation_id, scope.mode, scope.account_id, checkout_id)
    return None if row is None else _api_checkout(row)


LIST_CHECKOUTS = f"""
SELECT {_COLUMNS} FROM {_TABLES}
WHERE checkouts.organisation_id = $1 AND checkouts.mode = $2 AND checkouts.account_id = $3
  AND checkouts.token_box IS NOT NULL AND (checkouts.created_at, checkouts.id) < ($4, $5)
ORDER BY checkouts.created_at DESC, checkouts.id DESC LIMIT $6
"""  # noqa: S608 - columns and tables above


async def list_checkouts(connection: Connection, scope: Scope, start: Position, limit: int) -> list[ApiCheckout]:
    rows = await connection.fetch(
        LIST_CHECKOUTS, scope.organisation_id, scope.mode, scope.account_id, start.created_at, start.id, limit
    )
    return [_api_checkout(row) for row in rows]


LOCK_OTHERS = """
SELECT organisation_id, mode, account_id, id, token_box AS secret_box, NULL::bytea AS old FROM checkouts
WHERE id > $1 AND token_box IS NOT NULL AND substring(token_box FROM 1 FOR $3) <> $2::bytea
ORDER BY id LIMIT $4 FOR UPDATE
"""


async def lock_checkouts_sealed_otherwise_any_account(
    tx: Connection, after: str, header: bytes, limit: int
) -> Sequence[asyncpg.Record]:
    """The next checkouts with a token that does not start with `header`, locked."""
    return await tx.fetch(LOCK_OTHERS, after, header, HEADER_BYTES, limit)


REPLACE_TOKEN = "UPDATE checkouts SET token_box = $3 WHERE account_id = $1 AND id = $2"  # noqa: S105 - a statement


async def replace_sealed_token_any_account(tx: Connection, account_id: str, checkout_id: str, sealed: bytes) -> None:
    await tx.execute(REPLACE_TOKEN, account_id, checkout_id, sealed)


def _api_checkout(row: asyncpg.Record) -> ApiCheckout:
    values = dict(row)
    sealed, key, status = values.pop("token_box"), values.pop("idempotency_key"), values.pop("order_status")
    del values["request_digest"]
    return ApiCheckout(checkout_of(values), sealed, key, None if status is None else OrderStatus(status))

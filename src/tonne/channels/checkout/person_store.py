"""Finds checkouts that contain an e-mail address or a name, and erases it."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.channels.checkout.model import CheckoutStatus
from tonne.platform.db.database import Connection, parameters_of
from tonne.platform.values.context import Scope
from tonne.platform.values.erased import ERASED_DIGEST

SCAN_CHECKOUTS = """
WITH batch AS MATERIALIZED (
    SELECT id, email, beneficiary_name, beneficiary_kind, external_id, reference, metadata, idempotency_key,
           redirect_url, buyer
    FROM checkouts WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3
)
SELECT (SELECT max(id) FROM batch) AS last_id,
       ARRAY (SELECT id FROM batch
              WHERE lower(email) = ANY ($4::text[])
                 OR beneficiary_kind = 'person' AND lower(beneficiary_name) = ANY ($4::text[])
                 OR EXISTS (SELECT FROM unnest($4::text[]) AS term
                            WHERE strpos(lower(concat_ws(' ', external_id, reference, metadata, idempotency_key,
                                                         redirect_url, buyer)), term) > 0)
              ORDER BY id) AS found
"""


async def scan_checkouts(
    connection: Connection, scope: Scope, terms: Sequence[str], after: str, limit: int
) -> tuple[str | None, list[str]]:
    """The last id of the next `limit` checkouts of the account, None at the end, and those that contain a term."""
    [row] = await connection.fetch(SCAN_CHECKOUTS, scope.account_id, after, limit, terms)
    return row["last_id"], row["found"]


class CheckoutTexts(Struct, frozen=True):
    """What the customer or the client entered. `metadata` is JSON. `next_mail_at`: a certificate is to be mailed."""

    id: str
    order_id: str | None
    status: CheckoutStatus
    created_at: datetime
    next_mail_at: datetime | None
    email: str | None
    beneficiary_name: str | None
    is_person: bool
    external_id: str | None
    reference: str | None
    metadata: str | None
    idempotency_key: str | None
    redirect_url: str | None
    buyer_kind: str | None
    consent_version: str | None
    consent_language: str | None
    consented_at: datetime | None
    # JSON.
    buyer: str | None


_TEXTS = """id, order_id, status, created_at, next_mail_at, email, beneficiary_name,
       beneficiary_kind IS NOT DISTINCT FROM 'person' AS is_person, external_id, reference, metadata, idempotency_key,
       redirect_url, buyer_kind, consent_version, consent_language, consented_at, buyer"""
LIST_TEXTS = f"""
SELECT {_TEXTS} FROM checkouts
WHERE account_id = $1 AND (id = ANY ($2::text[]) OR order_id = ANY ($3::text[])) ORDER BY id
"""  # noqa: S608 - columns above


async def list_texts(
    connection: Connection, scope: Scope, checkout_ids: Sequence[str], order_ids: Sequence[str] = ()
) -> list[CheckoutTexts]:
    """The checkouts with these ids, and those of these orders."""
    rows = await connection.fetch(LIST_TEXTS, scope.account_id, checkout_ids, order_ids)
    return [_texts(row) for row in rows]


LOCK_TEXTS = f"""
SELECT {_TEXTS} FROM checkouts WHERE account_id = $1 AND (id = $2 OR order_id = $3) ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608 - columns above


async def lock_texts(tx: Connection, scope: Scope, checkout_id: str, order_id: str) -> CheckoutTexts | None:
    """The checkout with this id, or of this order. Give one of them. Call it before the order is locked."""
    row = await tx.fetchrow(LOCK_TEXTS, scope.account_id, checkout_id, order_id)
    return None if row is None else _texts(row)


SET_TEXTS = """
UPDATE checkouts SET email = $3, beneficiary_name = $4, beneficiary_is_public = false, external_id = $5, metadata = $6,
                     idempotency_key = $7, redirect_url = $8, reference = $9, buyer = $10,
                     request_digest = CASE WHEN request_digest IS NULL THEN NULL ELSE $11::bytea END
WHERE account_id = $1 AND id = $2
"""


async def erase_texts(tx: Connection, scope: Scope, texts: CheckoutTexts) -> None:
    """Store the texts of a locked checkout without the data of a person, who is no longer named in public."""
    others = parameters_of(texts, "external_id, metadata, idempotency_key, redirect_url, reference, buyer")
    person = (texts.email, texts.beneficiary_name)
    await tx.execute(SET_TEXTS, scope.account_id, texts.id, *person, *others, ERASED_DIGEST)


def _texts(row: asyncpg.Record) -> CheckoutTexts:
    return CheckoutTexts(**{**row, "status": CheckoutStatus(row["status"])})

"""Finds orders that contain an e-mail address or a name, or once did."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection, optional
from tonne.platform.values.context import Mode, Scope

# Addresses and names must be equal; the texts that clients wrote contain a term. Batches, so that no statement takes
# long: there is no index on the texts.
SCAN_ORDERS = """
WITH batch AS MATERIALIZED (
    SELECT id, email, beneficiary, beneficiary_kind, metadata, idempotency_key, external_id, reference,
           cancel_reason
    FROM orders WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3
), stated AS (
    SELECT order_id, concat_ws(' ', name, company, street, postcode, city, vat_id, reference) AS texts
    FROM order_buyers WHERE account_id = $1 AND order_id > $2 AND order_id <= (SELECT max(id) FROM batch)
)
SELECT (SELECT max(id) FROM batch) AS last_id,
       ARRAY (SELECT id FROM batch LEFT JOIN stated ON stated.order_id = batch.id
              WHERE lower(email) = ANY ($4::text[])
                 OR beneficiary_kind = 'person' AND lower(beneficiary) = ANY ($4::text[])
                 OR EXISTS (SELECT FROM unnest($4::text[]) AS term
                            WHERE strpos(lower(concat_ws(' ', metadata, idempotency_key, external_id, reference,
                                                         cancel_reason, stated.texts)), term) > 0)
              ORDER BY id) AS found
"""


async def scan_orders(
    connection: Connection, scope: Scope, terms: Sequence[str], after: str, limit: int
) -> tuple[str | None, list[str]]:
    """The last id of the next `limit` orders of the account, None at the end, and those that contain a term.

    Terms are in lower case.
    """
    [row] = await connection.fetch(SCAN_ORDERS, scope.account_id, after, limit, terms)
    return row["last_id"], row["found"]


FIND_CANCEL_REASON = "SELECT cancel_reason FROM orders WHERE account_id = $1 AND id = $2"


async def find_cancel_reason(connection: Connection, scope: Scope, order_id: str) -> str | None:
    return optional(str, await connection.fetchval(FIND_CANCEL_REASON, scope.account_id, order_id))


# An order that is shown with another name or address now still has the former one in events and certificates.
LIST_CORRECTED = """
SELECT DISTINCT orders.organisation_id, orders.account_id, orders.mode, orders.id, orders.created_at
FROM audit_log entry
JOIN accounts ON accounts.organisation_id = entry.organisation_id
JOIN orders ON orders.account_id = accounts.id AND orders.id = entry.subject_id
WHERE entry.action IN ('order.renamed', 'order.mails_resent')
  AND ($1::text IS NULL OR orders.organisation_id = $1) AND ($2::text IS NULL OR orders.mode = $2)
ORDER BY orders.account_id, orders.id
"""


class CorrectedOrder(NamedTuple):
    scope: Scope
    id: str
    created_at: datetime


async def list_corrected_orders(
    connection: Connection, organisation_id: str | None, mode: Mode | None
) -> list[CorrectedOrder]:
    """Orders whose name or address was corrected. None: of every organisation, in both modes."""
    rows = await connection.fetch(LIST_CORRECTED, organisation_id, mode)
    return [
        CorrectedOrder(Scope(organisation, account, Mode(in_mode)), order_id, created_at)
        for organisation, account, in_mode, order_id, created_at in rows
    ]

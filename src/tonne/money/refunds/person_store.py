"""What was written about refunds, which may name a person, and whether the refunds of an order are finished."""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.erased import ERASED_DIGEST


class RefundTexts(NamedTuple):
    id: str
    reason: str
    idempotency_key: str | None


LOCK_TEXTS = """
SELECT id, reason, idempotency_key FROM refunds WHERE account_id = $1 AND order_id = $2 ORDER BY id FOR UPDATE
"""


async def lock_texts(tx: Connection, scope: Scope, order_id: str) -> list[RefundTexts]:
    """The texts of the refunds of a locked order."""
    return [RefundTexts(**row) for row in await tx.fetch(LOCK_TEXTS, scope.account_id, order_id)]


SET_TEXTS = """
UPDATE refunds SET reason = $3, idempotency_key = $4,
                   request_digest = CASE WHEN request_digest IS NULL THEN NULL ELSE $5::bytea END
WHERE account_id = $1 AND id = $2
"""


async def erase_texts(tx: Connection, scope: Scope, refund: RefundTexts) -> None:
    """Store the texts of a locked refund without the data of a person."""
    place = (scope.account_id, refund.id)
    await tx.execute(SET_TEXTS, *place, refund.reason, refund.idempotency_key, ERASED_DIGEST)


LIST_IDS = "SELECT id FROM refunds WHERE account_id = $1 AND order_id = ANY ($2::text[])"


async def list_refund_ids(connection: Connection, scope: Scope, order_ids: Sequence[str]) -> list[str]:
    return [row["id"] for row in await connection.fetch(LIST_IDS, scope.account_id, order_ids)]


LIST_UNFINISHED = """
SELECT order_id FROM refunds WHERE account_id = $1 AND order_id = ANY ($2::text[])
   AND state IN ('approval', 'due', 'pending')
UNION SELECT order_id FROM disputes WHERE account_id = $1 AND order_id = ANY ($2::text[]) AND state = 'opened'
ORDER BY order_id
"""


async def list_unfinished(connection: Connection, scope: Scope, order_ids: Sequence[str]) -> list[str]:
    """Those of the orders with a refund that is not made yet, or with an open dispute."""
    return [row["order_id"] for row in await connection.fetch(LIST_UNFINISHED, scope.account_id, order_ids)]

"""SQL of the two jobs that work on checkouts. Each has a column of its own that says when a checkout is due.

- `next_close_at`, of `close_checkouts`: set until the checkout is paid or closed.
- `next_mail_at`, of `mail_certificates`: set from the order until the certificate is mailed, or the checkout closed.
"""

from collections.abc import Sequence
from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, columns, scope_of, value_of
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import OrderKey
from tonne.supply.certificates.record import CertificateRecord, decode_record


class DueCheckout(Struct, frozen=True):
    """`order_id` is None if there is no order yet."""

    scope: Scope
    id: str
    order_id: str | None
    expires_at: datetime


_DUE = "account_id, id, organisation_id, mode, order_id, expires_at"
CLAIM_WITHOUT_ORDER = f"""
SELECT {_DUE} FROM checkouts WHERE status = 'open' AND next_close_at <= $1
ORDER BY next_close_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - columns above


async def claim_without_order(tx: Connection, now: datetime, limit: int) -> list[DueCheckout]:
    """Expired checkouts without an order."""
    return [_due_checkout(row) for row in await tx.fetch(CLAIM_WITHOUT_ORDER, now, limit)]


DELETE_CHECKOUTS = """
DELETE FROM checkouts USING unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE checkouts.account_id = keys.account_id AND checkouts.id = keys.id AND checkouts.token_box IS NULL
"""


async def delete_checkouts(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
    """Delete those that visitors began: nothing was ordered, so there is no reason to keep the e-mail address."""
    await tx.execute(DELETE_CHECKOUTS, *columns(checkouts, "scope.account_id, id"))


CLOSE_API_CHECKOUTS = """
UPDATE checkouts SET status = 'closed', email = NULL, next_close_at = NULL, beneficiary_name = NULL,
                     buyer = NULL, beneficiary_kind = NULL, beneficiary_is_public = false
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE checkouts.account_id = keys.account_id AND checkouts.id = keys.id AND checkouts.token_box IS NOT NULL
"""


async def close_api_checkouts(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
    """Close those that the API created, without the customer's data. Their idempotency keys stay used."""
    await tx.execute(CLOSE_API_CHECKOUTS, *columns(checkouts, "scope.account_id, id"))


CLAIM_WITH_ORDER = f"""
SELECT {_DUE} FROM checkouts WHERE status = 'ordered' AND next_close_at <= $1
ORDER BY next_close_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - columns above


async def claim_with_order(tx: Connection, now: datetime, limit: int) -> list[DueCheckout]:
    return [_due_checkout(row) for row in await tx.fetch(CLAIM_WITH_ORDER, now, limit)]


SCHEDULE_CLOSE = "UPDATE checkouts SET next_close_at = $3 WHERE account_id = $1 AND id = $2"


async def schedule_close(tx: Connection, scope: Scope, checkout_id: str, at: datetime | None) -> None:
    """None: the checkout is paid and never has to be closed."""
    await tx.execute(SCHEDULE_CLOSE, scope.account_id, checkout_id, at)


CLOSE = """
UPDATE checkouts SET status = 'closed', next_close_at = NULL, next_mail_at = NULL WHERE account_id = $1 AND id = $2
"""


async def close(tx: Connection, scope: Scope, checkout_id: str) -> None:
    await tx.execute(CLOSE, scope.account_id, checkout_id)


class DueMail(Struct, frozen=True):
    """`leased_until` is the fencing token of the lease: no later claim has the same."""

    scope: Scope
    checkout_id: str
    email: str
    record: CertificateRecord
    leased_until: datetime


# The pause grows with the age of the order: some orders wait weeks for a pooled unit.
POSTPONE_MAILS = """
UPDATE checkouts
SET next_mail_at = $1 + least(greatest(($1 - created_at) / 10, interval '1 minute'), interval '1 hour')
WHERE (account_id, id) IN (
    SELECT checkouts.account_id, checkouts.id
    FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    WHERE checkouts.next_mail_at <= $1 AND orders.status IN ('paid', 'retiring')
    ORDER BY checkouts.next_mail_at LIMIT $2 FOR UPDATE OF checkouts SKIP LOCKED)
"""


async def postpone_mails(connection: Connection, now: datetime, limit: int) -> None:
    """Postpone checkouts whose order is paid but not complete."""
    await connection.execute(POSTPONE_MAILS, now, limit)


CLAIM_MAILS = """
UPDATE checkouts SET next_mail_at = $2
FROM (
    SELECT checkouts.account_id, checkouts.id, certificates.record
    FROM checkouts
    JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    JOIN certificates ON certificates.account_id = orders.account_id AND certificates.order_id = orders.id
     AND certificates.state = 'valid'
    WHERE checkouts.next_mail_at <= $1 AND orders.status = 'complete'
    ORDER BY checkouts.next_mail_at LIMIT $3 FOR UPDATE OF checkouts SKIP LOCKED) due
WHERE checkouts.account_id = due.account_id AND checkouts.id = due.id
RETURNING checkouts.organisation_id, checkouts.account_id, checkouts.mode, checkouts.id AS checkout_id, checkouts.email,
          due.record, checkouts.next_mail_at AS leased_until
"""


async def claim_mails(connection: Connection, now: datetime, leased_until: datetime, limit: int) -> list[DueMail]:
    """Lease checkouts whose order is complete until `leased_until`."""
    return [
        value_of(DueMail, row, scope=scope_of(row), record=decode_record(row["record"]))
        for row in await connection.fetch(CLAIM_MAILS, now, leased_until, limit)
    ]


FIND_UNMAILED = """
SELECT checkouts.order_id FROM checkouts
JOIN unnest($1::text[], $2::text[]) AS named (account_id, order_id)
  ON checkouts.account_id = named.account_id AND checkouts.order_id = named.order_id
WHERE checkouts.next_mail_at IS NOT NULL
"""


async def find_unmailed(connection: Connection, keys: Sequence[OrderKey]) -> set[str]:
    """The ids of those orders whose customer has not been mailed any certificate yet: `mail_certificates` does that."""
    rows = await connection.fetch(FIND_UNMAILED, *columns(keys, "account_id, id"))
    return {row["order_id"] for row in rows}


FINISH_MAIL = "UPDATE checkouts SET next_mail_at = NULL WHERE account_id = $1 AND id = $2 AND next_mail_at = $3"


async def finish_mail(tx: Connection, scope: Scope, due: DueMail) -> bool:
    """False when the lease has expired and another worker has claimed the checkout."""
    return await tx.execute(FINISH_MAIL, scope.account_id, due.checkout_id, due.leased_until) == "UPDATE 1"


def _due_checkout(row: asyncpg.Record) -> DueCheckout:
    return value_of(DueCheckout, row, scope=scope_of(row))

"""SQL of locked quotes."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Mode, Scope


class NewQuote(msgspec.Struct, frozen=True, kw_only=True):
    scope: Scope
    id: str
    # Up to the status: see `StoredQuote`.
    document: bytes
    locked: bytes
    idempotency_key: str | None
    request_digest: bytes
    created_at: datetime
    expires_at: datetime
    held_grams: int = 0
    is_holding: bool = False


class StoredQuote(msgspec.Struct, frozen=True):
    """`document` is the beginning of its JSON; its end depends on `order_id` and the time."""

    document: bytes
    locked: bytes
    request_digest: bytes
    expires_at: datetime
    order_id: str | None
    held_grams: int
    is_holding: bool


_STORED = "document, locked, request_digest, expires_at, order_id, held_grams, is_holding"
FIND_QUOTE = f"SELECT {_STORED} FROM quotes WHERE account_id = $1 AND id = $2"  # noqa: S608 - a constant


async def find_quote(connection: Connection, scope: Scope, quote_id: str) -> StoredQuote | None:
    row = await connection.fetchrow(FIND_QUOTE, scope.account_id, quote_id)
    return None if row is None else StoredQuote(**row)


FIND_QUOTE_BY_KEY = f"""
SELECT {_STORED} FROM quotes WHERE account_id = $1 AND idempotency_key = $2
"""  # noqa: S608 - a constant


async def find_quote_by_key(connection: Connection, scope: Scope, idempotency_key: str) -> StoredQuote | None:
    row = await connection.fetchrow(FIND_QUOTE_BY_KEY, scope.account_id, idempotency_key)
    return None if row is None else StoredQuote(**row)


_NEW = """account_id, id, organisation_id, mode, document, locked, idempotency_key, request_digest, created_at, \
expires_at, held_grams, is_holding"""
INSERT_QUOTES = f"""
INSERT INTO quotes ({_NEW})
SELECT {_NEW}
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]::mode[], $5::bytea[], $6::bytea[], $7::text[], $8::bytea[],
            $9::timestamptz[], $10::timestamptz[], $11::bigint[], $12::boolean[]) AS new ({_NEW})
ON CONFLICT (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id
"""  # noqa: S608 - a constant


async def insert_quotes(tx: Connection, quotes: Sequence[NewQuote]) -> set[str]:
    """The ids of the quotes that were inserted. The idempotency keys of the others are taken.

    Rows are inserted in the order of account and key: two batches that share several keys then cannot deadlock.
    """
    ordered = sorted(quotes, key=lambda new: (new.scope.account_id, new.idempotency_key or ""))
    names = _NEW.replace("account_id", "scope.account_id").replace("organisation_id", "scope.organisation_id")
    rows = await tx.fetch(INSERT_QUOTES, *columns(ordered, names.replace(" mode", " scope.mode")))
    return {row["id"] for row in rows}


# Compare-and-set: of two orders with one quote, the second waits for the first and then finds it used.
USE_QUOTE = """
UPDATE quotes SET order_id = $3 WHERE account_id = $1 AND id = $2 AND order_id IS NULL AND expires_at > $4
RETURNING true
"""


async def use_quote(tx: Connection, scope: Scope, quote_id: str, *, order_id: str, now: datetime) -> bool:
    """False if another order has used it, or it has expired. What the quote holds is held for the order from now on."""
    return await tx.fetchval(USE_QUOTE, scope.account_id, quote_id, order_id, now) is True


# The hold of a quote that expired unused has ended, even if the worker has not released it yet.
SUM_HELD = """
SELECT coalesce(sum(quotes.held_grams), 0)::bigint
FROM quotes LEFT JOIN orders ON orders.account_id = quotes.account_id AND orders.id = quotes.order_id
WHERE quotes.organisation_id = $1 AND quotes.mode = $2 AND quotes.is_holding
  AND ($3::text IS NULL OR quotes.account_id = $3) AND quotes.account_id <> ALL ($4::text[])
  AND (quotes.order_id IS NULL AND quotes.expires_at > $5 OR orders.status IN ('received', 'placed', 'paid'))
"""


async def sum_held_grams(
    connection: Connection,
    organisation_id: str,
    mode: Mode,
    now: datetime,
    *,
    account_id: str | None = None,
    without_accounts: Sequence[str] = (),
) -> int:
    """What the quotes of an account hold; without `account_id`, those of all accounts but `without_accounts`."""
    return int(await connection.fetchval(SUM_HELD, organisation_id, mode, account_id, list(without_accounts), now))


# SKIP LOCKED: the quote is being used. `quotes_holding` contains only quotes that hold.
END_HOLDING = """
UPDATE quotes SET is_holding = false WHERE (account_id, id) IN (
    SELECT quotes.account_id, quotes.id
    FROM quotes LEFT JOIN orders ON orders.account_id = quotes.account_id AND orders.id = quotes.order_id
    WHERE quotes.is_holding
      AND (quotes.order_id IS NULL AND quotes.expires_at <= $1
           OR orders.status NOT IN ('received', 'placed', 'paid'))
    FOR NO KEY UPDATE OF quotes SKIP LOCKED)
"""


async def end_holding(tx: Connection, now: datetime) -> None:
    """Ends the holds of quotes that expired unused, and of quotes whose order has its supply or has ended."""
    await tx.execute(END_HOLDING, now)


# A quote that has lost a part of its hold no longer says that its supply is held.
RECOUNT_HELD = """
UPDATE quotes SET held_grams = held.grams, is_holding = held.grams > 0,
    document = convert_to(
        replace(convert_from(document, 'UTF8'), '"supply_held":true', '"supply_held":false'), 'UTF8')
FROM unnest($1::text[], $2::bigint[]) AS held (id, grams)
WHERE quotes.is_holding AND quotes.id = held.id
"""


async def recount_held(tx: Connection, grams_by_quote: Mapping[str, int]) -> None:
    """After holds were released because their credits are invalid. Ids of checkouts are ignored."""
    if grams_by_quote:
        await tx.execute(RECOUNT_HELD, list(grams_by_quote), list(grams_by_quote.values()))


PRUNE_QUOTES = """
DELETE FROM quotes WHERE (account_id, id) IN (
    SELECT account_id, id FROM quotes WHERE expires_at < $1 AND NOT is_holding ORDER BY expires_at LIMIT $2)
"""


async def prune_quotes(connection: Connection, expired_before: datetime, limit: int) -> int:
    deleted = await connection.execute(PRUNE_QUOTES, expired_before, limit)
    return int(deleted.rpartition(" ")[2])

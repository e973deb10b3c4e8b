"""SQL of `gateway_payouts`."""

from collections.abc import Sequence
from datetime import date, datetime

from msgspec import Struct

from tonne.money.accounting.journal.model import Payout
from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Actor, Mode, new_id

# Key of the advisory lock. Any number that no other code uses.
_IMPORT_LOCK = 7_405_610_218

LOCK_IMPORTS = "SELECT pg_advisory_xact_lock($1)"


async def lock_imports(tx: Connection) -> None:
    """Serialises imports: two reports may contain the same payouts."""
    await tx.execute(LOCK_IMPORTS, _IMPORT_LOCK)


FIND_KNOWN = """
SELECT payout_id, paid_on, currency, amount_minor, fee_minor FROM gateway_payouts
WHERE gateway = $1 AND payout_id = ANY ($2::text[])
"""


async def find_known(tx: Connection, gateway: str, payout_ids: Sequence[str]) -> dict[tuple[str, str], Payout]:
    """The payouts that were imported before, by id and currency."""
    rows = await tx.fetch(FIND_KNOWN, gateway, payout_ids)
    return {(row["payout_id"], row["currency"]): Payout(**row) for row in rows}


INSERT_PAYOUTS = """
INSERT INTO gateway_payouts (id, mode, gateway, payout_id, paid_on, currency, amount_minor, fee_minor, imported_at,
                             imported_by)
SELECT new.id, $1, $2, new.payout_id, new.paid_on, new.currency, new.amount_minor, new.fee_minor, $3, $4
FROM unnest($5::text[], $6::text[], $7::date[], $8::text[], $9::bigint[], $10::bigint[])
     AS new (id, payout_id, paid_on, currency, amount_minor, fee_minor)
"""


async def insert_payouts(
    tx: Connection, mode: Mode, gateway: str, payouts: Sequence[Payout], *, actor: Actor, now: datetime
) -> None:
    ids = [new_id("pyo") for _ in payouts]
    rows = columns(payouts, "payout_id, paid_on, currency, amount_minor, fee_minor")
    await tx.execute(INSERT_PAYOUTS, mode, gateway, now, str(actor), ids, *rows)


class ListedPayout(Struct, frozen=True):
    """`transfer_id` is the line of a bank statement that shows it, once it is matched."""

    id: str
    payout_id: str
    paid_on: date
    currency: str
    amount_minor: int
    fee_minor: int
    transfer_id: str | None


LIST_PAYOUTS = """
SELECT id, payout_id, paid_on, currency, amount_minor, fee_minor, transfer_id FROM gateway_payouts
WHERE mode = $1 ORDER BY paid_on DESC, id DESC LIMIT $2
"""


async def list_payouts(connection: Connection, mode: Mode, limit: int) -> list[ListedPayout]:
    """Newest first."""
    return [ListedPayout(**row) for row in await connection.fetch(LIST_PAYOUTS, mode, limit)]


LIST_OPEN_PAYOUTS = """
SELECT id, payout_id, paid_on, currency, amount_minor, fee_minor, transfer_id FROM gateway_payouts
WHERE mode = $1 AND currency = $2 AND amount_minor = $3 AND transfer_id IS NULL ORDER BY paid_on, id LIMIT 10
"""


async def list_open_payouts(connection: Connection, mode: Mode, currency: str, amount_minor: int) -> list[ListedPayout]:
    """Payouts of this amount that no transfer was matched with, oldest first."""
    rows = await connection.fetch(LIST_OPEN_PAYOUTS, mode, currency, amount_minor)
    return [ListedPayout(**row) for row in rows]


LOCK_PAYOUT = """
SELECT id, payout_id, paid_on, currency, amount_minor, fee_minor, transfer_id FROM gateway_payouts
WHERE id = $1 OR payout_id = $1 ORDER BY id FOR UPDATE
"""


async def lock_payouts(tx: Connection, name: str) -> list[ListedPayout]:
    """By our id, or by the gateway's, which several currencies share."""
    return [ListedPayout(**row) for row in await tx.fetch(LOCK_PAYOUT, name)]


SET_TRANSFER = "UPDATE gateway_payouts SET transfer_id = $2 WHERE id = $1"


async def set_transfer(tx: Connection, payout_id: str, transfer_id: str) -> None:
    await tx.execute(SET_TRANSFER, payout_id, transfer_id)


CLEAR_TRANSFER = "UPDATE gateway_payouts SET transfer_id = NULL WHERE transfer_id = $1"


async def clear_transfer(tx: Connection, transfer_id: str) -> None:
    """The payout that was matched with the transfer, if any, waits for its transfer again."""
    await tx.execute(CLEAR_TRANSFER, transfer_id)

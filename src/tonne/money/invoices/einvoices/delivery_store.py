"""SQL of `einvoice_deliveries`."""

from datetime import datetime

from msgspec import Struct

from tonne.money.invoices.einvoices.network import NetworkAnswer, NetworkOutcome
from tonne.platform.db.database import Connection, parameters_of, value_of
from tonne.platform.values.context import By, Mode


class Delivery(Struct, frozen=True):
    """`state` is an outcome, or `due` or `sending`: then the answer to an earlier attempt may be lost."""

    document_id: str
    organisation_id: str
    mode: Mode
    number: str
    format: str
    receiver: str
    created_at: datetime
    state: str = "due"
    reason: str | None = None
    answered_at: datetime | None = None


_COLUMNS = "document_id, organisation_id, mode, number, format, receiver, state, reason, created_at, answered_at"
INSERT = f"""
INSERT INTO einvoice_deliveries ({_COLUMNS}, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9) ON CONFLICT DO NOTHING
"""  # noqa: S608 - columns above


async def insert_delivery(tx: Connection, delivery: Delivery) -> None:
    await tx.execute(INSERT, *parameters_of(delivery, _COLUMNS))


# Recorded before it is sent. A lease: if the worker dies, the network is asked when it expires.
CLAIM = f"""
UPDATE einvoice_deliveries each SET next_attempt_at = $2, state = 'sending'
FROM (SELECT document_id, state FROM einvoice_deliveries WHERE next_attempt_at <= $1
      ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
WHERE each.document_id = due.document_id
RETURNING {", ".join(f"{'due' if name == 'state' else 'each'}.{name}" for name in _COLUMNS.split(", "))}
"""  # noqa: S608 - columns above


async def claim_deliveries(connection: Connection, now: datetime, until: datetime, limit: int) -> list[Delivery]:
    """With the states that they had before."""
    return [value_of(Delivery, row) for row in await connection.fetch(CLAIM, now, until, limit)]


RECORD_ANSWER = """
UPDATE einvoice_deliveries SET state = $2, reason = $3, answered_at = $4, answered_by = $5, next_attempt_at = NULL
WHERE document_id = $1
"""


async def record_answer_any_account(tx: Connection, document_id: str, answer: NetworkAnswer, *, by: By) -> None:
    is_known = answer.outcome is not NetworkOutcome.UNKNOWN
    at, who = (by.at, str(by.actor)) if is_known else (None, None)
    await tx.execute(RECORD_ANSWER, document_id, answer.outcome, answer.reason, at, who)


FIND = f"SELECT {_COLUMNS} FROM einvoice_deliveries WHERE number = $1 FOR UPDATE"  # noqa: S608 - columns above


async def lock_delivery_any_account(tx: Connection, number: str) -> Delivery | None:
    row = await tx.fetchrow(FIND, number)
    return None if row is None else value_of(Delivery, row)


LIST = f"""
SELECT {_COLUMNS} FROM einvoice_deliveries WHERE (state <> 'accepted' OR $1) AND ($3::text IS NULL OR mode = $3)
ORDER BY created_at DESC LIMIT $2
"""  # noqa: S608 - columns above


async def list_deliveries_any_account(
    connection: Connection, limit: int, *, with_accepted: bool, mode: Mode | None = None
) -> list[Delivery]:
    """Newest first. Without a mode, those of both."""
    return [value_of(Delivery, row) for row in await connection.fetch(LIST, with_accepted, limit, mode)]

"""SQL of `card_invoices`, and of the charges that pay invoices."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.money.cards.charge_store import ATTEMPT, CHARGE_COLUMNS, read_attempt
from tonne.money.cards.gateways.card import StoredCard
from tonne.money.cards.gateways.metered_gateway import GATEWAY_OF
from tonne.money.cards.model import ChargeAttempt, ChargeStatus, TryCounts
from tonne.platform.db.database import Connection, columns, scope_of
from tonne.platform.values.context import Mode, Scope, new_id
from tonne.selling.orders.model import OrderKey


class CardInvoice(NamedTuple):
    """An invoice that the stored card of the account pays."""

    scope: Scope
    invoice_id: str


INSERT_CARD_INVOICE = """
INSERT INTO card_invoices (invoice_id, account_id, organisation_id, mode, next_attempt_at) VALUES ($1, $2, $3, $4, $5)
"""


async def insert_card_invoice(tx: Connection, invoice: CardInvoice, charge_at: datetime | None) -> None:
    """`charge_at`: when a worker charges the card; None if a test helper does."""
    scope = invoice.scope
    await tx.execute(
        INSERT_CARD_INVOICE, invoice.invoice_id, scope.account_id, scope.organisation_id, scope.mode, charge_at
    )


# A lease: if the worker dies, the invoices are due again when it expires.
CLAIM_CARD_INVOICES = """
UPDATE card_invoices SET next_attempt_at = $3
FROM (SELECT invoice_id FROM card_invoices WHERE next_attempt_at <= $2 AND mode = $1
      ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED) due
WHERE card_invoices.invoice_id = due.invoice_id
RETURNING card_invoices.invoice_id, card_invoices.account_id, card_invoices.organisation_id, card_invoices.mode
"""


async def claim_card_invoices(
    tx: Connection, mode: Mode, now: datetime, held_until: datetime, *, limit: int
) -> list[CardInvoice]:
    rows = await tx.fetch(CLAIM_CARD_INVOICES, mode, now, held_until, limit)
    return [CardInvoice(scope_of(row), row["invoice_id"]) for row in rows]


SCHEDULE_INVOICES = """
UPDATE card_invoices SET next_attempt_at = $2, is_given_up = $3, retry_at = CASE WHEN $4 THEN $2::timestamptz END
WHERE invoice_id = ANY ($1::text[])
"""


async def schedule_invoices_any_account(
    tx: Connection,
    invoice_ids: Collection[str],
    at: datetime | None,
    *,
    is_given_up: bool = False,
    is_retry: bool = False,
) -> None:
    """When the card is charged for invoices; None: not until something makes them due.

    `is_given_up`: only another card is charged. `is_retry`: nothing else makes them due before.
    """
    await tx.execute(SCHEDULE_INVOICES, list(invoice_ids), at, is_given_up, is_retry)


IS_DUE = "SELECT next_attempt_at <= $2 FROM card_invoices WHERE invoice_id = $1"


async def is_due_any_account(connection: Connection, invoice: CardInvoice, now: datetime) -> bool:
    return await connection.fetchval(IS_DUE, invoice.invoice_id, now) is True


# ON CONFLICT: another worker has just opened a charge. `charges_one_per_invoice` allows only one. The invoices are
# locked, so that no other charge for one of them is opened meanwhile.
INSERT_INVOICE_CHARGE = f"""
WITH opened AS (
    INSERT INTO charges (account_id, id, invoice_id, organisation_id, mode, attempt, gateway, source, customer, method,
                         amount_minor, currency, status, created_at, next_attempt_at)
    SELECT $1, $2, $3, $4, $5,
           (SELECT coalesce(max(charges.attempt), 0) + 1 FROM charges WHERE charges.invoice_id = $3),
           coalesce(card.gateway, $6),
           CASE WHEN coalesce($11, card.method) IS NULL THEN 'none' ELSE 'stored_card' END,
           coalesce($12, card.customer), coalesce($11, card.method), $7, $8, 'pending', $9, $10
    FROM (SELECT true) AS one LEFT JOIN account_cards card ON card.account_id = $1
    WHERE NOT EXISTS (SELECT FROM charge_invoices document
                      JOIN charges ON charges.id = document.charge_id
                      WHERE document.invoice_id = ANY ($13::text[])
                        AND charges.status IN ('pending', 'captured', 'mismatched'))
    ON CONFLICT DO NOTHING
    RETURNING {CHARGE_COLUMNS}
), documents AS (
    INSERT INTO charge_invoices (account_id, charge_id, invoice_id, reference, currency, amount_minor, order_count)
    SELECT opened.account_id, opened.id, debt.invoice_id, debt.reference, opened.currency, debt.amount_minor,
           debt.order_count
    FROM opened CROSS JOIN unnest($13::text[], $14::text[], $15::bigint[], $16::integer[])
                           AS debt (invoice_id, reference, amount_minor, order_count)
), paid AS (
    INSERT INTO charge_orders (account_id, charge_id, order_id, amount_minor)
    SELECT opened.account_id, opened.id, due.order_id, due.amount_minor
    FROM opened CROSS JOIN unnest($17::text[], $18::bigint[]) AS due (order_id, amount_minor)
)
SELECT {CHARGE_COLUMNS}, array_to_string($14, ', ') AS invoice_reference FROM opened
"""  # noqa: S608 - a constant


class InvoiceDebt(NamedTuple):
    """What is due of an invoice when its card is charged, and of each order in it. The shares sum to the amount."""

    invoice_id: str
    reference: str
    currency: str
    amount_minor: int
    # How many orders it billed, also those that were cancelled since.
    order_count: int
    shares: Mapping[OrderKey, int]


async def insert_invoice_charge(
    tx: Connection,
    scope: Scope,
    debts: Sequence[InvoiceDebt],
    *,
    card: StoredCard | None,
    now: datetime,
    held_until: datetime,
) -> ChargeAttempt | None:
    """Record a charge for locked invoices, by number. None if one has taken the money of one of them, or may have.

    Without `card`, the account's is charged.
    """
    row = await tx.fetchrow(
        INSERT_INVOICE_CHARGE,
        scope.account_id,
        new_id("chg"),
        debts[0].invoice_id,
        scope.organisation_id,
        scope.mode,
        GATEWAY_OF[scope.mode],
        sum(debt.amount_minor for debt in debts),
        debts[0].currency,
        now,
        held_until,
        *((None, None) if card is None else (card.method, card.customer)),
        *columns(debts, "invoice_id, reference, amount_minor, order_count"),
        [key.id for debt in debts for key in debt.shares],
        [amount for debt in debts for amount in debt.shares.values()],
    )
    return None if row is None else read_attempt(row, is_new=True)


CLAIM_INVOICE_CHARGES = f"""
WITH due AS (
    SELECT account_id, id, invoice_id FROM charges
    WHERE status = $5 AND mode = $1 AND next_attempt_at <= $2 AND invoice_id IS NOT NULL
    ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE charges SET next_attempt_at = $3
FROM due LEFT JOIN account_cards card ON card.account_id = due.account_id
WHERE charges.account_id = due.account_id AND charges.id = due.id
RETURNING {ATTEMPT}, charges.confirm_until IS NOT NULL AND card.created_at > charges.created_at
                         AND card.method <> charges.method IS TRUE AS is_replaced
"""  # noqa: S608 - a constant


async def claim_invoice_charges(
    tx: Connection, mode: Mode, now: datetime, held_until: datetime, *, limit: int
) -> list[ChargeAttempt]:
    """Pending charges that are due: their worker crashed, or their result is unclear.

    The caller finds out whether their invoices are still open.
    """
    rows = await tx.fetch(CLAIM_INVOICE_CHARGES, mode, now, held_until, limit, ChargeStatus.PENDING)
    return [read_attempt(row, is_replaced=row["is_replaced"]) for row in rows]


LIST_INVOICES_OF_CHARGE = """
SELECT invoice_id FROM charge_invoices WHERE account_id = $1 AND charge_id = $2 ORDER BY reference
"""


async def list_invoices_of_charge(connection: Connection, scope: Scope, charge_id: str) -> list[str]:
    """The ids of the invoices that a charge pays."""
    rows = await connection.fetch(LIST_INVOICES_OF_CHARGE, scope.account_id, charge_id)
    return [row["invoice_id"] for row in rows]


HAS_OPEN_CHARGE = """
SELECT bool_or(charges.status IN ('pending', 'mismatched')) FROM charge_invoices document
JOIN charges ON charges.id = document.charge_id WHERE document.invoice_id = ANY ($1::text[])
"""


async def has_open_charge_any_account(connection: Connection, invoice_ids: Sequence[str]) -> bool:
    """Whether a charge for one of these invoices may have taken the money."""
    return await connection.fetchval(HAS_OPEN_CHARGE, list(invoice_ids)) is True


IS_BEING_CHARGED = """
SELECT EXISTS (SELECT FROM card_invoices WHERE invoice_id = $1 AND next_attempt_at <= $2)
    OR EXISTS (SELECT FROM charge_invoices document
               JOIN charges ON charges.account_id = document.account_id AND charges.id = document.charge_id
               WHERE document.invoice_id = $1 AND charges.status = 'pending')
"""


async def is_being_charged_any_account(connection: Connection, invoice_id: str, until: datetime) -> bool:
    """Whether a charge for the invoice has no result, or is due until then."""
    return await connection.fetchval(IS_BEING_CHARGED, invoice_id, until) is True


# Only of the card that was tried last: a payer who enters another card gets all its attempts.
COUNT_INVOICE_TRIES = """
SELECT count(*) FILTER (WHERE charges.outcome <> 'unavailable' AND charges.method IS NOT DISTINCT FROM last.method)
           AS tries,
       count(*) FILTER (WHERE charges.outcome = 'unavailable' AND charges.attempt > tried.attempt) AS unavailable
FROM charges
CROSS JOIN (SELECT method FROM charges WHERE invoice_id = $1 ORDER BY attempt DESC LIMIT 1) AS last
CROSS JOIN (SELECT coalesce(max(attempt), 0) AS attempt FROM charges
            WHERE invoice_id = $1 AND status = 'failed' AND outcome NOT IN ('unavailable', 'replaced')) AS tried
WHERE charges.invoice_id = $1 AND charges.status = 'failed' AND charges.outcome <> 'replaced'
"""


async def count_invoice_tries_any_account(tx: Connection, invoice_id: str) -> TryCounts:
    [row] = await tx.fetch(COUNT_INVOICE_TRIES, invoice_id)
    return TryCounts(row["tries"], row["unavailable"])


# Those whose card was declined: others are charged at their own time.
MAKE_DECLINED_DUE = """
UPDATE card_invoices SET next_attempt_at = $2, is_given_up = false, retry_at = NULL
WHERE account_id = $1 AND (is_given_up OR next_attempt_at > $2 AND EXISTS (
    SELECT FROM charge_invoices document
    JOIN charges ON charges.id = document.charge_id
    WHERE document.invoice_id = card_invoices.invoice_id AND charges.status = 'failed'))
RETURNING invoice_id
"""


async def make_declined_invoices_due(tx: Connection, scope: Scope, now: datetime) -> int:
    """The account has another card. Returns how many of its invoices are charged again."""
    return len(await tx.fetch(MAKE_DECLINED_DUE, scope.account_id, now))


MAKE_UNCHARGED_DUE = """
UPDATE card_invoices SET next_attempt_at = $2
WHERE account_id = $1 AND next_attempt_at > $2
  AND NOT EXISTS (SELECT FROM charge_invoices document WHERE document.invoice_id = card_invoices.invoice_id)
"""


async def make_uncharged_invoices_due(tx: Connection, scope: Scope, now: datetime) -> None:
    """The account is closed: what is too little for a charge waits for no others."""
    await tx.execute(MAKE_UNCHARGED_DUE, scope.account_id, now)


WAKE_CARD_INVOICES = """
UPDATE card_invoices SET next_attempt_at = $2
WHERE card_invoices.account_id = $1 AND card_invoices.next_attempt_at IS NULL
  AND card_invoices.invoice_id = ANY ($3::text[]) AND NOT card_invoices.is_given_up
  AND NOT EXISTS (SELECT FROM charge_invoices document
                  JOIN charges ON charges.id = document.charge_id
                  WHERE document.invoice_id = card_invoices.invoice_id
                    AND charges.status IN ('pending', 'mismatched'))
"""


async def wake_card_invoices(tx: Connection, scope: Scope, open_ids: Sequence[str], now: datetime) -> None:
    """Have the card charged for those of these open invoices that waited for the test helpers."""
    await tx.execute(WAKE_CARD_INVOICES, scope.account_id, now, list(open_ids))


class ChargedCard(NamedTuple):
    """None if the account has another card since it was charged."""

    brand: str | None
    last_four: str | None


FIND_CHARGED_CARD = """
SELECT card.brand, card.last_four FROM charges
LEFT JOIN account_cards card ON card.account_id = charges.account_id AND card.method = charges.method
WHERE charges.account_id = $1 AND charges.id = $2
"""


async def find_charged_card(connection: Connection, scope: Scope, charge_id: str) -> ChargedCard:
    [row] = await connection.fetch(FIND_CHARGED_CARD, scope.account_id, charge_id)
    return ChargedCard(**row)

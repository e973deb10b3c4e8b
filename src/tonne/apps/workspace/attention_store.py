"""SQL of what needs the attention of an organisation. Each query reads a small index, never all orders."""

from datetime import date, datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode

# More are shown as "at least".
MAX_COUNTED = 100


class CardProblem(NamedTuple):
    """`is_to_confirm`: the payer has to confirm a payment. Otherwise the card was declined."""

    account_id: str
    account_name: str
    is_to_confirm: bool


# Accounts that had a problem have a card link. Ids of charges sort by time, so the last one shows whether it is solved.
LIST_CARD_PROBLEMS = """
SELECT accounts.id AS account_id, accounts.name AS account_name, last.status = 'pending' AS is_to_confirm
FROM card_links link
JOIN accounts ON accounts.organisation_id = link.organisation_id AND accounts.id = link.account_id
CROSS JOIN LATERAL (SELECT status, outcome, confirm_until FROM charges
                    WHERE charges.account_id = link.account_id AND source <> 'hosted_page'
                    ORDER BY charges.id DESC LIMIT 1) last
WHERE link.organisation_id = $1 AND link.mode = $2 AND accounts.closed_at IS NULL
  AND (last.status = 'failed' AND last.outcome IN ('declined', 'refused', 'not_found')
       OR last.status = 'pending' AND last.confirm_until > $3)
ORDER BY accounts.name, accounts.id LIMIT 100
"""


async def list_card_problems(
    connection: Connection, organisation_id: str, mode: Mode, now: datetime
) -> list[CardProblem]:
    return [CardProblem(**row) for row in await connection.fetch(LIST_CARD_PROBLEMS, organisation_id, mode, now)]


class OverdueInvoices(NamedTuple):
    invoices: int
    oldest_due_on: date | None


COUNT_OVERDUE = """
SELECT count(*) AS invoices, min(due_on) AS oldest_due_on
FROM (SELECT due_on FROM invoices
      WHERE organisation_id = $1 AND mode = $2 AND status = 'open' AND due_on < $3
      ORDER BY due_on LIMIT 100) AS overdue
"""


async def count_overdue(connection: Connection, organisation_id: str, mode: Mode, today: date) -> OverdueInvoices:
    [row] = await connection.fetch(COUNT_OVERDUE, organisation_id, mode, today)
    return OverdueInvoices(**row)


class FailingWebhook(NamedTuple):
    id: str
    url: str
    failing_since: datetime


LIST_FAILING = """
SELECT id, url, failing_since FROM webhooks
WHERE organisation_id = $1 AND mode = $2 AND deleted_at IS NULL AND enabled AND failing_since IS NOT NULL
ORDER BY failing_since LIMIT 100
"""


async def list_failing_webhooks(connection: Connection, organisation_id: str, mode: Mode) -> list[FailingWebhook]:
    return [FailingWebhook(**row) for row in await connection.fetch(LIST_FAILING, organisation_id, mode)]


COUNT_ON_HOLD = """
SELECT count(*) FROM (SELECT FROM orders WHERE organisation_id = $1 AND mode = $2 AND hold_reason IS NOT NULL
                        AND status = 'placed' LIMIT 100) AS held
"""


async def count_orders_on_hold(connection: Connection, organisation_id: str, mode: Mode) -> int:
    count: int = await connection.fetchval(COUNT_ON_HOLD, organisation_id, mode)
    return count


class ExpiringCard(NamedTuple):
    account_id: str
    account_name: str
    brand: str
    last_four: str
    # Its last valid month: `2031-04`.
    expires: str


LIST_EXPIRING_CARDS = """
SELECT accounts.id AS account_id, accounts.name AS account_name, card.brand, card.last_four, card.expires
FROM accounts JOIN account_cards card ON card.account_id = accounts.id
WHERE accounts.organisation_id = $1 AND accounts.mode = $2 AND accounts.closed_at IS NULL AND card.expires <= $3
ORDER BY card.expires, accounts.name LIMIT 100
"""


async def list_expiring_cards(
    connection: Connection, organisation_id: str, mode: Mode, last_month: str
) -> list[ExpiringCard]:
    """Cards whose last valid month is `last_month` or earlier."""
    rows = await connection.fetch(LIST_EXPIRING_CARDS, organisation_id, mode, last_month)
    return [ExpiringCard(**row) for row in rows]


class ExpiringKey(NamedTuple):
    id: str
    name: str
    expires_at: datetime


# A key that was rotated is expected to expire.
LIST_EXPIRING_KEYS = """
SELECT id, name, expires_at FROM api_keys
WHERE organisation_id = $1 AND mode = $2 AND revoked_at IS NULL AND replaced_by IS NULL AND expires_at > $3
  AND expires_at <= $4
ORDER BY expires_at, id LIMIT 100
"""


async def list_expiring_keys(
    connection: Connection, organisation_id: str, mode: Mode, now: datetime, until: datetime
) -> list[ExpiringKey]:
    rows = await connection.fetch(LIST_EXPIRING_KEYS, organisation_id, mode, now, until)
    return [ExpiringKey(**row) for row in rows]


class NextInvoice(NamedTuple):
    """Orders that wait for a consolidated invoice. `total_minor` is without tax."""

    currency: str
    order_count: int
    total_minor: int
    # 0 for an invoice that is issued every month.
    threshold_minor: int
    issued_at: datetime | None


LIST_NEXT_INVOICES = """
SELECT currency, order_count, total_minor, threshold_minor, next_attempt_at AS issued_at FROM billing_groups
WHERE organisation_id = $1 AND mode = $2 AND order_count > 0
ORDER BY next_attempt_at NULLS LAST, currency, threshold_minor, account_id LIMIT 100
"""


async def list_next_invoices(connection: Connection, organisation_id: str, mode: Mode) -> list[NextInvoice]:
    return [NextInvoice(**row) for row in await connection.fetch(LIST_NEXT_INVOICES, organisation_id, mode)]


class RetiredShares(NamedTuple):
    """Grams retired. A project that has left the catalogue counts as neither removal nor avoidance."""

    grams: int
    removal_grams: int
    avoidance_grams: int


SUM_SHARES = """
SELECT coalesce(sum(total.grams), 0)::bigint AS grams,
       coalesce(sum(total.grams) FILTER (WHERE projects.mechanism = 'removal'), 0)::bigint AS removal_grams,
       coalesce(sum(total.grams) FILTER (WHERE projects.mechanism = 'avoidance'), 0)::bigint AS avoidance_grams
FROM accounts JOIN retired_totals total ON total.account_id = accounts.id
LEFT JOIN projects ON projects.mode = accounts.mode AND projects.id = total.project_id
WHERE accounts.organisation_id = $1 AND accounts.mode = $2 AND total.month >= $3
"""


async def sum_retired_shares(connection: Connection, organisation_id: str, mode: Mode, since: date) -> RetiredShares:
    """Retired in the month of `since` or later, by all accounts."""
    [row] = await connection.fetch(SUM_SHARES, organisation_id, mode, since)
    return RetiredShares(**row)


LIST_CURRENCIES = """
SELECT currency FROM accounts WHERE organisation_id = $1 AND mode = $2 AND closed_at IS NULL
GROUP BY currency ORDER BY count(*) DESC, currency
"""


async def list_account_currencies(connection: Connection, organisation_id: str, mode: Mode) -> list[str]:
    """Those of open accounts, the most common first."""
    return [row["currency"] for row in await connection.fetch(LIST_CURRENCIES, organisation_id, mode)]

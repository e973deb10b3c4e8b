"""What needs the attention of an organisation, in words, each with the page where it is dealt with.

Each query reads a small index, never all orders.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from babel import Locale
from msgspec import Struct

from tonne.apps.dashboard.menu import ORGANISATION_MENU
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Tenant
from tonne.platform.web import visitor

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


async def list_card_problems(connection: Connection, tenant: Tenant, now: datetime) -> list[CardProblem]:
    return [CardProblem(**row) for row in await connection.fetch(LIST_CARD_PROBLEMS, *tenant, now)]


class OverdueInvoices(NamedTuple):
    invoices: int
    oldest_due_on: date | None


COUNT_OVERDUE = """
SELECT count(*) AS invoices, min(due_on) AS oldest_due_on
FROM (SELECT due_on FROM invoices
      WHERE organisation_id = $1 AND mode = $2 AND status = 'open' AND due_on < $3
        -- Small orders wait for others until a card can be charged for them.
        AND NOT (billing = 'collected' AND payment_method = 'card')
      ORDER BY due_on LIMIT 100) AS overdue
"""


async def count_overdue(connection: Connection, tenant: Tenant, today: date) -> OverdueInvoices:
    [row] = await connection.fetch(COUNT_OVERDUE, *tenant, today)
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


async def list_failing_webhooks(connection: Connection, tenant: Tenant) -> list[FailingWebhook]:
    return [FailingWebhook(**row) for row in await connection.fetch(LIST_FAILING, *tenant)]


COUNT_ON_HOLD = """
SELECT count(*) FROM (SELECT FROM orders WHERE organisation_id = $1 AND mode = $2
                        AND hold_reason = 'credit_limit_reached' AND status = 'placed' LIMIT 100) AS held
"""


async def count_orders_on_hold(connection: Connection, tenant: Tenant) -> int:
    """Those above the credit limit of their account."""
    count: int = await connection.fetchval(COUNT_ON_HOLD, *tenant)
    return count


NEEDS_ADDRESS = """
SELECT EXISTS (SELECT FROM orders WHERE organisation_id = $1 AND mode = $2
                 AND hold_reason = 'buyer_details_missing' AND status = 'placed')
    OR EXISTS (SELECT FROM due_documents due
               JOIN orders ON orders.account_id = due.account_id AND orders.id = due.order_id
               WHERE due.organisation_id = $1 AND due.mode = $2 AND due.held_by = 'buyer_details_missing'
                 AND orders.offset_link_id IS NULL)
    OR EXISTS (SELECT FROM billing_groups WHERE organisation_id = $1 AND mode = $2
                 AND hold_reason = 'buyer_details_missing' AND order_count > 0)
"""


async def needs_address(connection: Connection, tenant: Tenant) -> bool:
    """Whether invoices of the organisation wait for its address."""
    return await connection.fetchval(NEEDS_ADDRESS, *tenant) is True


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


async def list_expiring_cards(connection: Connection, tenant: Tenant, last_month: str) -> list[ExpiringCard]:
    """Cards whose last valid month is `last_month` or earlier."""
    rows = await connection.fetch(LIST_EXPIRING_CARDS, *tenant, last_month)
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
    connection: Connection, tenant: Tenant, now: datetime, until: datetime
) -> list[ExpiringKey]:
    rows = await connection.fetch(LIST_EXPIRING_KEYS, *tenant, now, until)
    return [ExpiringKey(**row) for row in rows]


class NextInvoice(NamedTuple):
    """Orders that wait for a consolidated invoice. `total_minor` is without tax."""

    currency: str
    billing: str
    order_count: int
    total_minor: int
    # 0 for an invoice that is issued every month.
    threshold_minor: int
    issued_at: datetime | None


LIST_NEXT_INVOICES = """
SELECT currency, billing, order_count, total_minor, threshold_minor, next_attempt_at AS issued_at FROM billing_groups
WHERE organisation_id = $1 AND mode = $2 AND order_count > 0
ORDER BY next_attempt_at NULLS LAST, currency, threshold_minor, account_id LIMIT 100
"""


async def list_next_invoices(connection: Connection, tenant: Tenant) -> list[NextInvoice]:
    return [NextInvoice(**row) for row in await connection.fetch(LIST_NEXT_INVOICES, *tenant)]


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


async def sum_retired_shares(connection: Connection, tenant: Tenant, since: date) -> RetiredShares:
    """Retired in the month of `since` or later, by all accounts."""
    [row] = await connection.fetch(SUM_SHARES, *tenant, since)
    return RetiredShares(**row)


LIST_CURRENCIES = """
SELECT currency FROM accounts WHERE organisation_id = $1 AND mode = $2 AND closed_at IS NULL
GROUP BY currency ORDER BY count(*) DESC, currency
"""


async def list_account_currencies(connection: Connection, tenant: Tenant) -> list[str]:
    """Those of open accounts, the most common first."""
    return [row["currency"] for row in await connection.fetch(LIST_CURRENCIES, *tenant)]


# Cards are shown before their last month begins.
CARDS_AHEAD = timedelta(days=45)
KEYS_AHEAD = timedelta(days=14)


class Attention(Struct, frozen=True):
    """`path` is relative to the organisation and mode; None if no page deals with it."""

    text: str
    is_urgent: bool
    path: str | None
    action: str


def menu_path(name: str) -> str | None:
    """The path of an entry of the organisation's menu."""
    for group in ORGANISATION_MENU:
        for entry in group.entries:
            if entry.name == name:
                return entry.path
    return None


def _path_of(name: str, object_id: str) -> str | None:
    path = menu_path(name)
    return None if path is None else f"{path}/{object_id}"


async def list_attention(
    connection: Connection, tenant: Tenant, *, now: datetime, locale: Locale, shown_url: Callable[[str], str]
) -> list[Attention]:
    """The most urgent first. `shown_url`: what the viewer may see of the address of a receiver."""
    today = now.date()
    found = [_card_problem(problem) for problem in await list_card_problems(connection, tenant, now)]
    overdue = await count_overdue(connection, tenant, today)
    if overdue.oldest_due_on is not None:
        found.append(_overdue(overdue.invoices, overdue.oldest_due_on, locale))
    for webhook in await list_failing_webhooks(connection, tenant):
        since = visitor.day(webhook.failing_since, locale)
        text = f"The webhook {shown_url(webhook.url)} has been failing since {since}."
        found.append(Attention(text, True, _path_of("webhooks", webhook.id), "See why"))
    if await needs_address(connection, tenant):
        text = "Orders wait for their invoice, which needs details of your organisation."
        found.append(Attention(text, True, "/tax", "Enter them"))
    held = await count_orders_on_hold(connection, tenant)
    if held:
        subject = "1 order is" if held == 1 else f"{_count(held)} orders are"
        text = f"{subject} on hold: the credit limit of the account is reached. Pay an invoice to release it."
        found.append(Attention(text, False, menu_path("orders"), "See orders"))
    last_month = f"{now + CARDS_AHEAD:%Y-%m}"
    cards = await list_expiring_cards(connection, tenant, last_month)
    keys = await list_expiring_keys(connection, tenant, now, now + KEYS_AHEAD)
    return [
        *found,
        *(_expiring_key(key, locale) for key in keys),
        *(_expiring_card(card, today, locale) for card in cards),
    ]


def _count(count: int) -> str:
    return f"{count}" if count < MAX_COUNTED else f"At least {count}"


def _card_problem(problem: CardProblem) -> Attention:
    if problem.is_to_confirm:
        text = (
            f"A payment of the account {problem.account_name} has to be confirmed. The payer got a mail with the link."
        )
    else:
        text = (
            f"The card of the account {problem.account_name} was declined. The payer got a mail to enter another one."
        )
    return Attention(text, True, _path_of("accounts", problem.account_id), "See the account")


def _overdue(count: int, oldest_due_on: date, locale: Locale) -> Attention:
    oldest = visitor.day(oldest_due_on, locale)
    if count == 1:
        text = f"1 invoice is overdue. It was due on {oldest}."
    else:
        text = f"{_count(count)} invoices are overdue. The oldest was due on {oldest}."
    return Attention(text, True, menu_path("invoices"), "See invoices")


def _expiring_key(key: ExpiringKey, locale: Locale) -> Attention:
    text = f"The API key {key.name} expires on {visitor.day(key.expires_at, locale)}. Rotate it before."
    return Attention(text, False, _path_of("keys", key.id), "See the key")


def _expiring_card(card: ExpiringCard, today: date, locale: Locale) -> Attention:
    year, _, month = card.expires.partition("-")
    shown = visitor.month(date(int(year), int(month), 1), locale)
    is_expired = card.expires < f"{today:%Y-%m}"
    verb = "expired" if is_expired else "expires"
    text = f"The {card.brand} card ending in {card.last_four} of the account {card.account_name} {verb} in {shown}."
    return Attention(text, is_expired, _path_of("accounts", card.account_id), "See the account")

"""What needs the attention of an organisation, in words, each with the page where it is dealt with."""

from datetime import date, datetime, timedelta

from babel import Locale
from msgspec import Struct

from tonne.apps.dashboard.menu import ORGANISATION_MENU
from tonne.apps.workspace import attention_store as store
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.platform.web import visitor

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
    connection: Connection, organisation_id: str, mode: Mode, *, now: datetime, locale: Locale
) -> list[Attention]:
    """The most urgent first."""
    scope, today = (organisation_id, mode), now.date()
    found = [_card_problem(problem) for problem in await store.list_card_problems(connection, *scope, now)]
    overdue = await store.count_overdue(connection, *scope, today)
    if overdue.oldest_due_on is not None:
        found.append(_overdue(overdue.invoices, overdue.oldest_due_on, locale))
    for webhook in await store.list_failing_webhooks(connection, *scope):
        since = visitor.day(webhook.failing_since, locale)
        text = f"The webhook {webhook.url} has been failing since {since}."
        found.append(Attention(text, True, _path_of("webhooks", webhook.id), "See why"))
    held = await store.count_orders_on_hold(connection, *scope)
    if held:
        subject = "1 order is" if held == 1 else f"{_count(held)} orders are"
        text = f"{subject} on hold: the credit limit of the account is reached. Pay an invoice to release it."
        found.append(Attention(text, False, menu_path("orders"), "See orders"))
    last_month = f"{now + CARDS_AHEAD:%Y-%m}"
    cards = await store.list_expiring_cards(connection, *scope, last_month)
    keys = await store.list_expiring_keys(connection, *scope, now, now + KEYS_AHEAD)
    return [
        *found,
        *(_expiring_key(key, locale) for key in keys),
        *(_expiring_card(card, today, locale) for card in cards),
    ]


def _count(count: int) -> str:
    return f"{count}" if count < store.MAX_COUNTED else f"At least {count}"


def _card_problem(problem: store.CardProblem) -> Attention:
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


def _expiring_key(key: store.ExpiringKey, locale: Locale) -> Attention:
    text = f"The API key {key.name} expires on {visitor.day(key.expires_at, locale)}. Rotate it before."
    return Attention(text, False, _path_of("keys", key.id), "See the key")


def _expiring_card(card: store.ExpiringCard, today: date, locale: Locale) -> Attention:
    year, _, month = card.expires.partition("-")
    shown = visitor.month(date(int(year), int(month), 1), locale)
    is_expired = card.expires < f"{today:%Y-%m}"
    verb = "expired" if is_expired else "expires"
    text = f"The {card.brand} card ending in {card.last_four} of the account {card.account_name} {verb} in {shown}."
    return Attention(text, is_expired, _path_of("accounts", card.account_id), "See the account")

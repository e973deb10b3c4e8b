"""Mails to payers: a payment has to be confirmed, the card was declined, or orders failed because of the card."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage

import structlog

from tonne.accounts.customer_mail import enqueue_customer_mail
from tonne.base.clock import Clock
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings
from tonne.cards import card_link_store
from tonne.cards.card_link_store import DueCardMail
from tonne.cards.card_links import card_page_url
from tonne.cards.card_problem_store import UnpaidOrder, list_declined, list_failed, list_to_confirm
from tonne.db.batches import RETRY_AFTER, run_claimed
from tonne.db.pool import Connection, Database
from tonne.gateways.mail import TEST_SUBJECT, compose_mail, is_mail_address
from tonne.gateways.mail_layout import fact_lines, one_line
from tonne.gateways.outbox import enqueue
from tonne.orders.load import load_orders
from tonne.orders.model import OrderKey
from tonne.receipts.order_links import order_urls
from tonne.receipts.order_mails import in_words

BATCH = 50
# Orders per list in one mail. The page lists all.
MAX_LISTED = 10

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CardProblems:
    """What a payer has to know about one account."""

    account_name: str
    merchant: str
    to_confirm: list[UnpaidOrder]
    declined: list[UnpaidOrder]
    failed: list[UnpaidOrder]

    def __bool__(self) -> bool:
        return bool(self.to_confirm or self.declined or self.failed)


class MailCardProblems:
    """A job of the worker. Enqueuing the mail and recording it commit together, so each is sent once.

    It mails what is true now: problems that are solved meanwhile are not mentioned.
    """

    def __init__(self, database: Database, clock: Clock, settings: Settings, box: SecretBox) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._box = box

    async def run_once(self) -> bool:
        """Mail a batch; false when none is due."""
        return await run_claimed(
            self._database,
            lambda tx, limit: card_link_store.claim_card_mails_any_account(tx, self._clock(), limit),
            self._mail_all,
            self._postpone,
            limit=BATCH,
            failure_event="card_problem_not_mailed",
            describe=lambda due: {"account_id": due.scope.account_id},
        )

    async def _mail_all(self, tx: Connection, batch: Sequence[DueCardMail]) -> None:
        for due in batch:
            is_mailed = await self._mail(tx, due)
            await card_link_store.finish_card_mail(tx, due.scope, self._clock(), is_mailed=is_mailed)

    async def _postpone(self, tx: Connection, batch: Sequence[DueCardMail]) -> None:
        for due in batch:
            await card_link_store.postpone_card_mail(tx, due.scope, self._clock() + RETRY_AFTER)

    async def _mail(self, tx: Connection, due: DueCardMail) -> bool:
        scope, now = due.scope, self._clock()
        party = await read_payer(tx, scope.account_id)
        problems = CardProblems(
            party.account_name,
            party.merchant,
            await list_to_confirm(tx, scope, now),
            await list_declined(tx, scope),
            await list_failed(tx, scope, due.since),
        )
        recipients = [party.card_email] if party.card_email else party.admins
        if not problems:
            return False
        if not recipients:
            _log.warning("card_problem_without_recipient", account_id=scope.account_id)
            return False
        page = await card_page_url(tx, scope, box=self._box, settings=self._settings, now=now)
        confirm_url: str | None = page
        if len(problems.to_confirm) == 1:
            [order] = await load_orders(tx, [OrderKey(scope.account_id, problems.to_confirm[0].id)])
            confirm_url = (await order_urls(tx, [order], settings=self._settings, now=now))[order.id]
        message = compose_card_mail(
            self._settings, recipients, problems, mode=scope.mode, confirm_url=confirm_url or page, card_url=page
        )
        if party.card_email:
            await enqueue_customer_mail(tx, scope, party.card_email, message)
        else:
            await enqueue(tx, scope.organisation_id, recipients, message)
        return True


@dataclass(frozen=True, slots=True)
class Payer:
    """Who answers for the card of an account. Without an address of its own, the organisation's admins do."""

    account_name: str
    merchant: str
    card_email: str | None
    admins: list[str]


READ_PAYER = """
SELECT accounts.name AS account_name, organisations.name AS merchant, accounts.card_email,
       ARRAY (SELECT admin.email FROM organisation_admins admin
              WHERE admin.organisation_id = accounts.organisation_id ORDER BY admin.email) AS admins
FROM accounts JOIN organisations ON organisations.id = accounts.organisation_id
WHERE accounts.id = $1
"""


async def read_payer(connection: Connection, account: str) -> Payer:
    [row] = await connection.fetch(READ_PAYER, account)
    admins = [email for email in row["admins"] if is_mail_address(email)]
    return Payer(row["account_name"], row["merchant"], row["card_email"], admins)


def compose_card_mail(
    settings: Settings,
    recipients: list[str],
    problems: CardProblems,
    *,
    mode: Mode,
    confirm_url: str,
    card_url: str,
) -> EmailMessage:
    """One mail about everything, with the most urgent first."""
    is_test = mode is Mode.TEST
    account = f"the account {one_line(problems.account_name)} ({one_line(problems.merchant)})"
    parts = []
    if problems.to_confirm:
        parts.append(
            f"Your bank asks you to confirm {_payments(problems.to_confirm)} of {account}. Until you do, nothing is "
            "charged. Without a confirmation the order fails on the day shown.\n\n"
            f"{_list(problems.to_confirm, lambda order: f'{order.label}, until {_day(order)}')}\n"
            f"Confirm {_these(problems.to_confirm, 'the payment')}:\n{confirm_url}\n"
        )
    if problems.declined:
        parts.append(
            f"The card of {account} was declined for {_orders(problems.declined)}. {_reasons(problems.declined)} We "
            "try again on the day shown, and at once if you enter another card.\n\n"
            f"{_list(problems.declined, lambda order: f'{order.label}, next on {_day(order)}')}"
        )
    if problems.failed:
        parts.append(
            f"{_sentence(_orders(problems.failed))} of {account} could not be paid and failed. "
            f"{_reasons(problems.failed)} Nothing was charged. Order again once the card works.\n\n"
            f"{_list(problems.failed, lambda order: order.label)}"
        )
    parts.append(f"Enter another card:\n{card_url}\n")
    questions = f"Questions? Write to {settings.seller_email}\n" if settings.seller_email else ""
    return compose_mail(
        settings,
        recipients,
        f"{TEST_SUBJECT if is_test else ''}{_subject(problems)}",
        "\n".join(parts),
        notice="This is a test. No money is charged." if is_test else None,
        closing=f"{one_line(settings.seller_name)}\n{questions}",
    )


def _subject(problems: CardProblems) -> str:
    if problems.to_confirm:
        return f"Please confirm {_payments(problems.to_confirm)}"
    if problems.declined:
        return f"Your card was declined for {_orders(problems.declined)}"
    return f"{_sentence(_orders(problems.failed))} could not be paid"


def _list(orders: list[UnpaidOrder], describe: Callable[[UnpaidOrder], str]) -> str:
    lines = fact_lines([(_money(order), describe(order)) for order in orders[:MAX_LISTED]])
    more = len(orders) - MAX_LISTED
    return f"{lines}\nand {more} more\n" if more > 0 else lines


def _payments(orders: list[UnpaidOrder]) -> str:
    return f"a payment of {_money(orders[0])}" if len(orders) == 1 else f"{len(orders)} payments"


def _orders(orders: list[UnpaidOrder]) -> str:
    if any(order.invoice for order in orders):
        return orders[0].label if len(orders) == 1 else f"{len(orders)} payments"
    return "one order" if len(orders) == 1 else f"{len(orders)} orders"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _these(orders: list[UnpaidOrder], one: str) -> str:
    return one if len(orders) == 1 else f"{one}s"


def _reasons(orders: list[UnpaidOrder]) -> str:
    return " ".join(sorted({order.reason for order in orders}))


def _money(order: UnpaidOrder) -> str:
    return f"{format_money(order.amount_minor, order.currency)} {order.currency}"


def _day(order: UnpaidOrder) -> str:
    return "" if order.until is None else in_words(order.until)

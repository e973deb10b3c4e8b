"""Mails to payers: a payment has to be confirmed, the card was declined, or orders failed because of the card.

Each links to the page on which the payer confirms payments and updates the card.
"""

from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage

import structlog
from msgspec import Struct

from tonne.money.cards.stored_cards import card_link_store
from tonne.money.cards.stored_cards.card_link_store import DueCardMail, lock_card_link, set_card_link_token
from tonne.money.cards.stored_cards.card_problem_store import UnpaidOrder, list_declined, list_failed, list_to_confirm
from tonne.platform.db.batches import RETRY_AFTER, RowJobWithSettings, run_claimed
from tonne.platform.db.database import Connection, value_of
from tonne.platform.documents.mail.layout import button_lines, fact_lines, join_blocks, one_line
from tonne.platform.documents.mail.link_token import hash_link_token, new_link_token
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.documents.mail.send_mail import compose_mail, is_mail_address
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.language import N_
from tonne.platform.web.translate import Translator
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.accounts.customer_mail import enqueue_customer_mail
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_links import order_urls
from tonne.selling.orders.model import OrderKey


async def card_page_url(tx: Connection, scope: Scope, *, box: SecretBox, settings: Settings, now: datetime) -> str:
    """The URL of the account's page: the same for 30 days. A new one ends the old one."""
    sealed, token = await lock_card_link(tx, scope, now), None
    if sealed is not None:
        try:
            token = box.open(sealed, scope.account_id)
        except SecretUnreadable:
            token = None
    if token is None:
        token = new_link_token()
        await set_card_link_token(
            tx, scope, token_hash=hash_link_token(token), token_box=box.seal(token, scope.account_id), now=now
        )
    return f"{settings.base_url}/card/{token}"


BATCH = 50
# Orders per list in one mail. The page lists all.
MAX_LISTED = 10

_log = structlog.get_logger()


class CardProblems(Struct, frozen=True):
    """What a payer has to know about one account."""

    account_name: str
    merchant: str
    language: str
    to_confirm: list[UnpaidOrder]
    declined: list[UnpaidOrder]
    failed: list[UnpaidOrder]

    def __bool__(self) -> bool:
        return bool(self.to_confirm or self.declined or self.failed)


class MailCardProblems(RowJobWithSettings, frozen=True):
    """A job of the worker. Enqueuing the mail and recording it commit together, so each is sent once.

    It mails what is true now: problems that are solved meanwhile are not mentioned.
    """

    box: SecretBox

    async def run_once(self) -> bool:
        """Mail a batch; false when none is due."""
        return await run_claimed(
            self.database,
            lambda tx, limit: card_link_store.claim_card_mails(tx, self.clock(), limit),
            self._mail_all,
            self._postpone,
            limit=BATCH,
            failure_event="card_problem_not_mailed",
            describe=lambda due: {"account_id": due.scope.account_id},
        )

    async def _mail_all(self, tx: Connection, batch: Sequence[DueCardMail]) -> None:
        for due in batch:
            is_mailed = await self._mail(tx, due)
            await card_link_store.finish_card_mail(tx, due.scope, self.clock(), is_mailed=is_mailed)

    async def _postpone(self, tx: Connection, batch: Sequence[DueCardMail]) -> None:
        for due in batch:
            await card_link_store.postpone_card_mail(tx, due.scope, self.clock() + RETRY_AFTER)

    async def _mail(self, tx: Connection, due: DueCardMail) -> bool:
        scope, now = due.scope, self.clock()
        party = await read_payer(tx, scope.account_id)
        problems = CardProblems(
            party.account_name,
            party.merchant,
            party.language,
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
        page = await card_page_url(tx, scope, box=self.box, settings=self.settings, now=now)
        confirm_url: str | None = page
        if len(problems.to_confirm) == 1:
            [order] = await load_orders(tx, [OrderKey(scope.account_id, problems.to_confirm[0].id)])
            confirm_url = (await order_urls(tx, [order], settings=self.settings, now=now))[order.id]
        message = compose_card_mail(
            self.settings, recipients, problems, mode=scope.mode, confirm_url=confirm_url or page, card_url=page
        )
        if party.card_email:
            await enqueue_customer_mail(tx, scope, party.card_email, message)
        else:
            await enqueue(tx, scope.organisation_id, recipients, message)
        return True


class Payer(Struct, frozen=True):
    """Who answers for the card of an account. Without an address of its own, the organisation's admins do."""

    account_name: str
    merchant: str
    card_email: str | None
    admins: list[str]
    language: str


READ_PAYER = """
SELECT accounts.name AS account_name, organisations.name AS merchant, accounts.card_email, accounts.language,
       ARRAY (SELECT admin.email FROM organisation_admins admin
              WHERE admin.organisation_id = accounts.organisation_id ORDER BY admin.email) AS admins
FROM accounts JOIN organisations ON organisations.id = accounts.organisation_id
WHERE accounts.id = $1
"""


# Of small orders that were fulfilled first.
STILL_OWED = N_(
    "We do not try again with this card. What you received is still owed: pay it by bank transfer, or enter another"
    " card."
)


async def read_payer(connection: Connection, account: str) -> Payer:
    [row] = await connection.fetch(READ_PAYER, account)
    admins = [email for email in row["admins"] if is_mail_address(email)]
    return value_of(Payer, row, admins=admins)


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
    wording, is_test = wording_in(problems.language), mode is Mode.TEST
    _ = wording.translate
    blocks = []
    if problems.to_confirm:
        blocks += [_ask(problems, wording), *_list(problems.to_confirm, wording, N_("%(what)s, until %(day)s"))]
        label = _.plural("Confirm the payment", "Confirm the payments", len(problems.to_confirm))
        blocks.append(button_lines(label, confirm_url))
    again = _("We try again on the day shown, and at once if you enter another card.")
    owed = _(STILL_OWED)
    for declined, then, pattern in (
        ([order for order in problems.declined if order.until], again, N_("%(what)s, next on %(day)s")),
        ([order for order in problems.declined if not order.until], owed, N_("%(what)s")),
    ):
        if declined:
            blocks.append(
                " ".join((_declined(declined, wording), _account(problems, wording), *_reasons(declined, _), then))
            )
            blocks += _list(declined, wording, pattern)
    if problems.failed:
        nothing = _("Nothing was charged. Order again once the card works.")
        blocks.append(
            " ".join(
                (_failed(problems.failed, wording), _account(problems, wording), *_reasons(problems.failed, _), nothing)
            )
        )
        blocks += _list(problems.failed, wording, N_("%(what)s"))
    blocks.append(button_lines(_("Enter another card"), card_url))
    return compose_mail(
        settings,
        recipients,
        _subject(problems, wording),
        join_blocks(blocks),
        wording=wording,
        merchant=problems.merchant,
        is_test=is_test,
        notice=_("This is a test. No money is charged.") if is_test else None,
    )


def _subject(problems: CardProblems, wording: LocalWording) -> str:
    _ = wording.translate
    if problems.to_confirm:
        return _.plural(
            "Please confirm a payment of %(amount)s",
            "Please confirm %(n)s payments",
            len(problems.to_confirm),
            amount=_money(problems.to_confirm[0], wording),
        )
    declined, failed = problems.declined, problems.failed
    return (_declined(declined, wording) if declined else _failed(failed, wording)).removesuffix(".")


def _ask(problems: CardProblems, wording: LocalWording) -> str:
    _ = wording.translate
    ask = _.plural(
        "Your bank asks you to confirm a payment of %(amount)s.",
        "Your bank asks you to confirm %(n)s payments.",
        len(problems.to_confirm),
        amount=_money(problems.to_confirm[0], wording),
    )
    until = _("Until you do, nothing is charged. Without a confirmation the order fails on the day shown.")
    return f"{ask} {_account(problems, wording)} {until}"


def _declined(orders: list[UnpaidOrder], wording: LocalWording) -> str:
    _ = wording.translate
    if not any(order.invoice for order in orders):
        return _.plural(
            "Your card was declined for one order.", "Your card was declined for %(n)s orders.", len(orders)
        )
    return _.plural(
        "Your card was declined for %(what)s.",
        "Your card was declined for %(n)s payments.",
        len(orders),
        what=_label(orders[0], wording),
    )


def _failed(orders: list[UnpaidOrder], wording: LocalWording) -> str:
    _ = wording.translate
    if not any(order.invoice for order in orders):
        return _.plural("One order could not be paid.", "%(n)s orders could not be paid.", len(orders))
    return _.plural(
        "Invoice %(reference)s could not be paid.",
        "%(n)s payments could not be made.",
        len(orders),
        reference=orders[0].invoice,
    )


def _account(problems: CardProblems, wording: LocalWording) -> str:
    _ = wording.translate
    return _(
        "Account: %(account)s (%(merchant)s).",
        account=one_line(problems.account_name),
        merchant=one_line(problems.merchant),
    )


def _list(orders: list[UnpaidOrder], wording: LocalWording, pattern: str) -> list[str]:
    _, more = wording.translate, len(orders) - MAX_LISTED
    rows = [
        (
            _money(order, wording),
            _(pattern, what=_label(order, wording), day="" if order.until is None else wording.day(order.until)),
        )
        for order in orders[:MAX_LISTED]
    ]
    return [fact_lines(rows), _.plural("and %(n)s more", "and %(n)s more", more) if more > 0 else ""]


def _label(order: UnpaidOrder, wording: LocalWording) -> str:
    """The id of the order, or the invoice and how many orders it bills."""
    if order.invoice is None:
        return order.id
    return wording.translate.plural(
        "invoice %(reference)s (one order)",
        "invoice %(reference)s (%(n)s orders)",
        order.order_count,
        n=wording.count(order.order_count),
        reference=order.invoice,
    )


def _reasons(orders: list[UnpaidOrder], _: Translator) -> list[str]:
    return sorted({_.text(order.reason) for order in orders})


def _money(order: UnpaidOrder, wording: LocalWording) -> str:
    return wording.money(order.amount_minor, order.currency)

"""tonne card and tonne charge"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import click
import structlog

from tonne.apps.cli import database
from tonne.apps.cli.database import (
    ACTOR,
    open_database,
    plain_failures,
    require_ready,
    run_in_transaction,
    settings_from_environment,
    with_connection,
)
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE, MOMENT, REASON, EnumChoice
from tonne.apps.lookup import charge_search_store
from tonne.money.cards.errors import ChargeUnknown
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.gateways.metered_gateway import card_gateways
from tonne.money.cards.model import ChargeStatus
from tonne.money.cards.stored_cards.mail_card_problems import card_page_url
from tonne.money.cards.stored_cards.stored_cards import remove_card, require_card, set_card
from tonne.money.refunds.disputes.mismatched_charge import accept_mismatched, read_mismatched, return_mismatched
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.queues import require_not_held
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.accounts.directory import Names, find_names_any_account
from tonne.selling.accounts.lookup import require_account_any_account
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order, OrderStatus

FACTS: tuple[ValueColumn[CardDetails], ...] = (*columns("brand", "last_four", "expires", "customer"),)


@click.group()
def card() -> None:
    """Manage the stored cards of accounts. Card numbers stay with the gateway."""


@card.command("set")
@click.argument("account_id")
@click.option("--method", required=True, help="Payment method at Stripe (pm_…), or a test card number in test mode.")
@click.option("--customer", help="Customer at Stripe (cus_…) who owns it. Not needed in test mode.")
def set_(account_id: str, method: str, customer: str | None) -> None:
    """Store the card an account pays with, replacing the current one.

    Tonne asks the gateway whether the card exists. Orders whose card was declined are charged again at once.

    Live accounts use a card stored at Stripe. Test accounts use a test card number, such as 4242424242424242, which
    always works.
    """
    with database.plain_failures():
        settings = database.settings_from_environment()
        with database.open_database(settings) as url:
            stored, is_used = asyncio.run(_set(url, settings, account_id, method=method, customer=customer))
    click.echo(f"{stored.brand} …{stored.last_four}, expires {stored.expires}")
    if not is_used:
        click.echo(
            f"The account pays by invoice. To use the card: tonne account update {account_id} --payment-method card"
        )


async def _set(
    url: str, settings: Settings, account_id: str, *, method: str, customer: str | None
) -> tuple[CardDetails, bool]:
    gateways = card_gateways(Database(url, settings), settings)

    async def work(connection: Connection) -> tuple[CardDetails, bool]:
        await database.require_ready(connection)
        await require_not_held(connection)
        account = await require_account_any_account(connection, account_id)
        stored = await set_card(
            connection, account.scope, gateways, customer=customer, method=method, by=database.ACTOR.now()
        )
        return stored, account.payment_method is PaymentMethod.CARD

    try:
        with _without_logs():
            return await database.with_connection(url, work)
    finally:
        for gateway in gateways.values():
            await gateway.close()


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """The command reports failures itself, so the gateway's log lines would repeat them."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@card.command("show")
@click.argument("account_id")
@output_options
def show(account_id: str, output: Output) -> None:
    """Show the stored card of an account."""
    stored = database.run_for_account(account_id, require_card)
    output.print_object(stored, FACTS)


@card.command("link")
@click.argument("account_id")
def link(account_id: str) -> None:
    """Print the address of the page for a new card.

    Anyone who has the address can replace the card, so send it to the payer only. It works for at least 60 days, unless
    a newer mail has another one.
    """
    click.echo(database.run_for_account(account_id, _make_link))


async def _make_link(tx: Connection, scope: Scope) -> str:
    settings = database.settings_from_environment()
    box, now = SecretBox.from_settings(settings), utc_now()
    url = await card_page_url(tx, scope, box=box, settings=settings, now=now)
    await audit.record(tx, scope, "card.link_shown", by=database.ACTOR.at(now))
    return url


@card.command("remove")
@click.argument("account_id")
def remove(account_id: str) -> None:
    """Remove the stored card of an account.

    Unpaid orders that need it fail unless you store another card first.
    """
    database.run_for_account(account_id, remove_card, by=database.ACTOR.now())
    click.echo(f"The card of {account_id} is removed.")


@click.command("refund")
@click.argument("charge_id")
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")
def refund_charge(charge_id: str, reason: str) -> None:
    """Send a mismatched payment back, and cancel its order.

    A payment for an invoice cancels all its orders. The worker refunds everything that the gateway captured. To refund
    an order that was paid as it should be, use `tonne order refund`.
    """
    order = _decide(charge_id, return_mismatched, reason)
    end = " The order is cancelled." if order.status is OrderStatus.CANCELLED else ""
    click.echo(f"The payment {charge_id} of order {order.id} goes back.{end}")


@click.command("accept")
@click.argument("charge_id")
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")
def accept_charge(charge_id: str, reason: str) -> None:
    """Let a payment with a mismatched amount pay for its order.

    If more arrived than the order costs, the difference is refunded.
    """
    order = _decide(charge_id, accept_mismatched, reason)
    click.echo(f"The payment {charge_id} is accepted: order {order.id} is {order.status}.")


def _decide(charge_id: str, decide: Callable[..., Awaitable[Order]], reason: str) -> Order:
    settings = settings_from_environment()
    with plain_failures(), open_database(settings) as url:
        return asyncio.run(_read_and_decide(url, settings, charge_id, partial(decide, reason=reason)))


async def _read_and_decide(
    url: str, settings: Settings, charge_id: str, decide: Callable[..., Awaitable[Order]]
) -> Order:
    """Reads what the gateway captured first, outside of the transaction."""
    database = await Database(url, settings).open()
    gateways = card_gateways(database, settings)

    async def work(connection: Connection) -> Order:
        await require_ready(connection)
        await require_not_held(connection)
        payment = await read_mismatched(connection, gateways, charge_id)
        async with connection.transaction():
            return await decide(connection, charge_id, payment, by=ACTOR.now())

    try:
        return await with_connection(url, work)
    finally:
        for gateway in gateways.values():
            await gateway.close()
        await database.close()


@click.group()
def charge() -> None:
    """Find and show charges of cards, and decide on mismatched ones."""


charge.add_command(refund_charge)
charge.add_command(accept_charge)


@charge.command("list")
@click.option("--order", "order_id", metavar="ID", help="Only charges of this order, or of its invoice.")
@click.option("--invoice", metavar="NUMBER", help="Only charges of this invoice, such as TN-LIVE-000123.")
@click.option("--reference", help="Only the charge with this reference of the gateway.")
@click.option("--status", type=EnumChoice(ChargeStatus), help="Only charges of this status.")
@click.option("--mode", type=MODE, help="Only charges of this mode.")
@click.option("--org", "organisation_id", metavar="ID", help="Only charges of this organisation.")
@click.option("--account", "account_id", metavar="ID", help="Only charges of this account.")
@click.option("--since", type=MOMENT, help="Only charges made from this time on.")
@click.option("--until", type=MOMENT, help="Only charges made before this time.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@output_options
def list_(limit: int, output: Output, **filters: Any) -> None:
    """List the newest charges of all organisations."""

    async def work(tx: Connection) -> tuple[list[charge_search_store.FoundCharge], Names]:
        found = await charge_search_store.search_charges_any_account(
            tx, charge_search_store.ChargeSearch(**filters), limit + 1
        )
        return found, await find_names_any_account(tx, [each.account_id for each in found])

    found, names = run_in_transaction(work)
    output.print_rows(found[:limit], _columns(names), empty="No charge matches.")
    if output.format is Format.TABLE and len(found) > limit:
        click.echo(f"There are more: these are the newest {limit:,}. Use --limit or --until.", err=True)


@charge.command("show")
@click.argument("charge_id")
@output_options
def show_charge(charge_id: str, output: Output) -> None:
    """Show a charge. CHARGE_ID may also be the gateway's reference."""

    async def work(tx: Connection) -> tuple[charge_search_store.FoundCharge, Names]:
        found = await charge_search_store.find_charge_any_account(tx, charge_id)
        if found is None:
            raise ChargeUnknown(f"There is no charge {charge_id}. Run `tonne charge list` to see charges.")
        return found, await find_names_any_account(tx, [found.account_id])

    found, names = run_in_transaction(work)
    output.print_object(found, [replace(column, in_table=True) for column in _columns(names)])


def _columns(names: Names) -> tuple[ValueColumn[charge_search_store.FoundCharge], ...]:
    return (
        *columns("id: charge", "status", "created_at: created", "amount_minor"),
        ValueColumn("account_name", lambda c: names.of(c.account_id), head="account", shrinks=True),
        ValueColumn("outcome", lambda c: c.code or c.outcome, shrinks=True),
        *columns("order_id: order", "invoice"),
        *columns("reference", "message", "attempt", "gateway", "source", "mode", in_table=False),
        *columns("settled_at: settled", "refunded_at: refunded", "next_attempt_at: next attempt", in_table=False),
        *columns("account_id", "organisation_id: organisation", in_table=False),
    )

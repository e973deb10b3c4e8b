"""tonne card"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import click
import structlog

from tonne.accounts.model import PaymentMethod
from tonne.base.clock import utc_now
from tonne.base.settings import Settings
from tonne.cards.stored_cards import card_gateways, describe_card, remove_card, require_card, store_card
from tonne.cli.accounts import find_account
from tonne.cli.database import (
    open_database,
    plain_failures,
    run_in_transaction,
    settings_from_environment,
    with_connection,
)
from tonne.cli.show import ACTOR, print_table
from tonne.db.migrate import require_migrated
from tonne.db.pool import Connection, Database
from tonne.gateways.card import StoredCard


@click.group()
def card() -> None:
    """Cards of accounts. Numbers stay with the gateway: here are only its names for them."""


@card.command("set")
@click.argument("account_id")
@click.option("--method", required=True, help="The payment method at Stripe (pm_…); in test mode a test number.")
@click.option("--customer", help="The customer at Stripe (cus_…) to whom it belongs; not needed in test mode.")
def set_(account_id: str, method: str, customer: str | None) -> None:
    """Store the card with which an account pays, in place of the one before.

    The gateway is asked whether there is such a card. Live accounts have theirs at Stripe; test accounts use the
    numbers of test cards, such as 4242424242424242, which always works.
    """
    with plain_failures():
        settings = settings_from_environment()
        with open_database(settings) as url:
            stored, is_used = asyncio.run(_set(url, settings, account_id, method=method, customer=customer))
    click.echo(f"{stored.brand} …{stored.last_four}, expires {stored.expires}")
    if not is_used:
        click.echo(f"Its orders are paid by invoice: tonne account update {account_id} --payment-method card")


async def _set(
    url: str, settings: Settings, account_id: str, *, method: str, customer: str | None
) -> tuple[StoredCard, bool]:
    gateways = card_gateways(Database(url, settings), settings)

    async def work(connection: Connection) -> tuple[StoredCard, bool]:
        await require_migrated(connection)
        account = await find_account(connection, account_id)
        # The gateway is asked before the transaction begins: it may take its time.
        stored = await describe_card(gateways, account.scope.mode, customer, method)
        async with connection.transaction():
            await store_card(connection, account.scope, stored, actor=ACTOR, now=utc_now())
        return stored, account.payment_method is PaymentMethod.CARD

    try:
        with _without_logs():
            return await with_connection(url, work)
    finally:
        for gateway in gateways.values():
            await gateway.close()


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """What a gateway would log, the command says in its own words."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@card.command("show")
@click.argument("account_id")
def show(account_id: str) -> None:
    """Show the card of an account."""

    async def work(tx: Connection) -> StoredCard:
        return await require_card(tx, (await find_account(tx, account_id)).scope)

    stored = run_in_transaction(work)
    print_table(
        ("brand", "last four", "expires", "customer"),
        [(stored.brand, stored.last_four, stored.expires, stored.customer)],
    )


@card.command("remove")
@click.argument("account_id")
def remove(account_id: str) -> None:
    """Forget the card of an account. Orders that are to be paid with it fail, unless another is set before."""

    async def work(tx: Connection) -> None:
        await remove_card(tx, (await find_account(tx, account_id)).scope, actor=ACTOR, now=utc_now())

    run_in_transaction(work)

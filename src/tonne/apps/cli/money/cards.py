"""tonne card"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import click
import structlog

from tonne.apps.cli import database
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.gateways.metered_gateway import card_gateways
from tonne.money.cards.stored_cards.mail_card_problems import card_page_url
from tonne.money.cards.stored_cards.stored_cards import remove_card, require_card, set_card
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.queues import require_not_held
from tonne.platform.db.schema.migrate import require_compatible
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.accounts.lookup import require_account_any_account
from tonne.selling.accounts.model import PaymentMethod

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
        await require_compatible(connection)
        await require_not_held(connection)
        account = await require_account_any_account(connection, account_id)
        stored = await set_card(
            connection, account.scope, gateways, customer=customer, method=method, actor=database.ACTOR, now=utc_now()
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

    Anyone who has the address can replace the card, so send it to the payer only.
    """
    click.echo(database.run_for_account(account_id, _make_link))


async def _make_link(tx: Connection, scope: Scope) -> str:
    settings = database.settings_from_environment()
    box, now = SecretBox.from_settings(settings), utc_now()
    url = await card_page_url(tx, scope, box=box, settings=settings, now=now)
    await audit.record(
        tx,
        scope.organisation_id,
        "card.link_shown",
        actor=database.ACTOR,
        at=now,
        subject_id=scope.account_id,
        mode=scope.mode,
    )
    return url


@card.command("remove")
@click.argument("account_id")
def remove(account_id: str) -> None:
    """Remove the stored card of an account.

    Unpaid orders that need it fail unless you store another card first.
    """
    database.run_for_account(account_id, remove_card, actor=database.ACTOR, now=utc_now())
    click.echo(f"The card of {account_id} is removed.")

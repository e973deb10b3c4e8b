"""tonne account close, reopen; tonne org close, reopen"""

import click

from tonne.apps.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.apps.cli.parameters import REASON
from tonne.channels.public_pages.change_page import close_customer, disable_public_page, reopen_customer
from tonne.money.cards.stored_cards.stored_cards import schedule_removal
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.accounts.change_account import close_account, reopen_account

_disable_page = click.option("--disable-page", is_flag=True, help="Also take the public Sustainability page offline.")
_reason = click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")


@click.command("close")
@click.argument("account_id")
@_reason
@_disable_page
def close_account_command(account_id: str, reason: str, disable_page: bool) -> None:
    """Close an account: nothing new can be ordered.

    Its API keys stop within 5 seconds, and its offset links show that they are closed. Open orders finish, webhooks
    deliver the remaining events, and the data stays. The stored card is removed once no order needs it.
    """

    async def work(tx: Connection, scope: Scope) -> None:
        now = utc_now()
        await close_account(tx, scope, reason, by=ACTOR.at(now))
        await schedule_removal(tx, scope, now)
        if disable_page:
            await disable_public_page(tx, scope, by=ACTOR.at(now))

    run_for_account(account_id, work)
    click.echo(f"Account {account_id} is closed. `tonne account reopen {account_id}` opens it again.")


@click.command("reopen")
@click.argument("account_id")
def reopen_account_command(account_id: str) -> None:
    """Open a closed account again. Its keys and links work as before."""

    async def work(tx: Connection, scope: Scope) -> None:
        await reopen_account(tx, scope, by=ACTOR.now())
        await schedule_removal(tx, scope, None)

    run_for_account(account_id, work)
    click.echo(f"Account {account_id} is open. Store a card again if it needs one.")


@click.command("close")
@click.argument("organisation_id")
@_reason
@_disable_page
def close_organisation_command(organisation_id: str, reason: str, disable_page: bool) -> None:
    """Close an organisation with all its accounts and keys.

    Like `tonne account close` for every account.
    """

    count = run_in_transaction(close_customer, organisation_id, reason, disable_pages=disable_page, by=ACTOR.now())
    accounts = "1 account" if count == 1 else f"{count:,} accounts"
    click.echo(f"Organisation {organisation_id} and its {accounts} are closed.")


@click.command("reopen")
@click.argument("organisation_id")
def reopen_organisation_command(organisation_id: str) -> None:
    """Open a closed organisation again.

    Accounts that were closed themselves stay closed.
    """
    run_in_transaction(reopen_customer, organisation_id, by=ACTOR.now())
    click.echo(f"Organisation {organisation_id} is open.")

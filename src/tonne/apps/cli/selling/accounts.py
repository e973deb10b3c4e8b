"""tonne account"""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec

from tonne.apps.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.apps.cli.output import MoneyColumn, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import BUNDLE_CHOICE, MODE, EnumChoice, options_of
from tonne.apps.cli.selling.closing import close_account_command, reopen_account_command
from tonne.money.refunds.disputes.shared_payment import resume_orders
from tonne.platform.db.database import Connection
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.values.context import Mode, Scope, new_id, utc_now
from tonne.platform.values.spending_limit import month_of
from tonne.selling.accounts import lookup
from tonne.selling.accounts.change_account import AccountChange, change_account, open_account
from tonne.selling.accounts.limit_store import AccountLimits, find_limits, list_closed_accounts
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.catalogue.set_default_selection import set_account_default
from tonne.selling.catalogue.store import load_catalogue
from tonne.selling.orders.placing.spending import LimitChange, set_account_limits, sum_spending

_METHOD = EnumChoice(PaymentMethod)
COLUMNS: tuple[ValueColumn[Account], ...] = (
    ValueColumn("id", lambda a: a.scope.account_id),
    ValueColumn("mode", lambda a: a.scope.mode),
    ValueColumn("name", lambda a: a.name, shrinks=True),
    *columns("currency", "payment_method: pays by", "kind"),
    ValueColumn("beneficiary", lambda a: a.beneficiary, shrinks=True),
    *columns("billing", "billing_threshold_minor", "fulfil", "credit_limit_minor", "small_card_orders", in_table=False),
    *columns("fulfil_delay: hours until fulfilment", in_table=False),
    *columns("refunds_by_api: refunds by API", "receipt_email: receipts to", in_table=False),
    *columns("card_email: card problems to", "language", "auto_advance: advances", "handle", in_table=False),
    *columns("external_pages_visibility: public pages", "reference", "archived_at: archived", in_table=False),
    *columns("scope.organisation_id", "created_at: created", in_table=False),
)


@click.group()
def account() -> None:
    """Manage accounts and client accounts, which place the orders."""


account.add_command(close_account_command)
account.add_command(reopen_account_command)


@account.command("create")
@click.argument("organisation_id")
@click.argument("name")
@click.option("--mode", type=MODE, required=True, help="Live or test. It cannot be changed later.")
@click.option("--currency", required=True, help="ISO 4217 code such as EUR. It cannot be changed later.")
@click.option("--beneficiary", help="The name credits are retired for. [default: the account's name]")
@click.option(
    "--payment-method",
    type=_METHOD,
    default=PaymentMethod.INVOICE.value,
    show_default=True,
    help="How the account pays for its orders.",
)
@click.option("--client", is_flag=True, help="Create a client account, for a customer of the organisation.")
def create(
    organisation_id: str,
    name: str,
    *,
    mode: Mode,
    currency: str,
    beneficiary: str | None,
    payment_method: PaymentMethod,
    client: bool,
) -> None:
    """Create an account called NAME and print its id."""
    opened = Account(
        scope=Scope(organisation_id, new_id("acc"), mode),
        kind=AccountKind.CLIENT_ACCOUNT if client else AccountKind.ACCOUNT,
        name=name.strip(),
        currency=currency.upper(),
        beneficiary=(beneficiary or name).strip(),
        payment_method=payment_method,
        created_at=utc_now(),
    )
    warning = run_in_transaction(_open, opened)
    click.echo(opened.scope.account_id)
    if warning is not None:
        click.echo(f"Warning: {warning}", err=True)


async def _open(tx: Connection, account: Account) -> str | None:
    """Returns why orders of the new account would wait, if they would."""
    await open_account(tx, account, actor=ACTOR.actor)
    mode, currency = account.scope.mode, account.currency
    catalogue = await load_catalogue(tx, mode, "")
    if catalogue is None or currency == catalogue.currency:
        return None
    limit = timedelta(days=load_settings(os.environ).rate_max_age_days)
    rate = catalogue.rates.get(currency)
    if rate is not None and (mode is Mode.TEST or account.created_at - rate.as_of <= limit):
        return None
    pair = f"from {catalogue.currency} to {currency}"
    return (
        f"the {mode} catalogue has no {'recent ' if rate else ''}exchange rate {pair}, so orders of this account wait. "
        f"Import one: `tonne catalogue import --mode {mode} exchange_rates.csv`, with the line "
        f"{catalogue.currency},{currency},RATE,SOURCE,{account.created_at:%Y-%m-%d} below the header "
        "base,quote,rate,source,as_of."
    )


@account.command("list")
@click.argument("organisation_id")
@output_options
def list_(organisation_id: str, output: Output) -> None:
    """List the accounts of an organisation."""

    async def work(tx: Connection) -> tuple[list[Account], dict[str, datetime]]:
        found = await lookup.list_accounts(tx, organisation_id)
        return found, await list_closed_accounts(tx, organisation_id)

    found, closed = run_in_transaction(work)
    closed_at: ValueColumn[Account] = ValueColumn("closed_at", lambda a: closed.get(a.scope.account_id), head="closed")
    output.print_rows(found, (*COLUMNS, closed_at), empty="No accounts. Create one with `tonne account create`.")


@account.command("show")
@click.argument("account_id")
@output_options
def show(account_id: str, output: Output) -> None:
    """Show an account, its limits and what it has spent this month."""

    async def work(tx: Connection, scope: Scope) -> tuple[Account, AccountLimits, int]:
        found = await lookup.require_account_any_account(tx, account_id)
        spent = await sum_spending(tx, scope.organisation_id, scope.account_id, month_of(utc_now()))
        return found, await find_limits(tx, scope), spent

    found, limits, spent = run_for_account(account_id, work)
    output.print_object(found, [*(replace(column, in_table=True) for column in COLUMNS), *_limits(limits, spent)])


def _limits(limits: AccountLimits, spent_minor: int) -> tuple[ValueColumn[Account], ...]:
    closed_at = limits.closed_at or limits.organisation_closed_at
    return (
        MoneyColumn("monthly_limit", lambda _: limits.monthly_limit_minor, lambda a: a.currency),
        MoneyColumn("spent_this_month", lambda _: spent_minor, lambda a: a.currency),
        MoneyColumn("minimum_order", lambda _: limits.minimum_order_minor, lambda a: a.currency),
        ValueColumn("closed_at", lambda _: closed_at, head="closed"),
        ValueColumn("closed_reason", lambda _: limits.closed_reason),
    )


@account.command("update")
@click.argument("account_id")
@options_of(AccountChange, is_change=True)
@options_of(BillingChange, is_change=True)
@options_of(LimitChange, is_change=True)
def update(account_id: str, **options: Any) -> None:
    """Change an account. Orders placed earlier keep the old values.

    With --advance, orders that waited for the test helpers continue automatically, too.
    """
    change = msgspec.convert({**options, "billing": options}, AccountChange)
    limits = msgspec.convert(options, LimitChange)
    run_for_account(account_id, _change, change, limits)
    click.echo(f"Account {account_id} is updated.")


async def _change(tx: Connection, scope: Scope, change: AccountChange, limits: LimitChange) -> None:
    now = utc_now()
    await change_account(tx, scope, change, by=ACTOR.at(now))
    if limits != LimitChange():
        await set_account_limits(tx, scope, limits, by=ACTOR.at(now))
    if change.auto_advance:
        await resume_orders(tx, scope, service_name=load_settings(os.environ).seller_name, now=now)


@account.command("set-bundles")
@click.argument("account_id")
@click.argument("bundles", nargs=-1, type=BUNDLE_CHOICE, metavar="[BUNDLE_ID[=PERCENTAGE]]...")
def set_bundles(account_id: str, bundles: tuple[BundleChoiceIn, ...]) -> None:
    """Set an account's default bundles. Give none to clear them.

    Without default bundles of its own, an account uses those of its organisation.
    """
    run_for_account(account_id, set_account_default, bundles, by=ACTOR.now())
    click.echo(f"The default bundles of {account_id} are {'set' if bundles else 'cleared'}.")

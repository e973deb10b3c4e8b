"""tonne account"""

from dataclasses import replace

import click

from tonne.accounts import audit, store
from tonne.accounts.model import Account, AccountKind, PaymentMethod
from tonne.accounts.open_account import open_account
from tonne.accounts.open_organisation import check_name
from tonne.base.clock import utc_now
from tonne.base.ids import new_id
from tonne.base.scope import Mode, Scope
from tonne.cli.database import run_in_transaction
from tonne.cli.organisations import check_selection
from tonne.cli.show import ACTOR, SELECTION, print_table
from tonne.db.pool import Connection
from tonne.http.errors import AccountNotFound

_METHOD = click.Choice([method.value for method in PaymentMethod])


@click.group()
def account() -> None:
    """Accounts and client accounts: who orders, in which currency, for whom."""


@account.command("create")
@click.argument("organisation_id")
@click.argument("name")
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), required=True, help="Live or test; for good.")
@click.option("--currency", required=True, help="ISO 4217, such as EUR. It cannot be changed later.")
@click.option("--beneficiary", help="In whose name credits are retired. [default: the account's name]")
@click.option(
    "--payment-method",
    type=_METHOD,
    default=PaymentMethod.INVOICE.value,
    show_default=True,
    help="How its orders are paid.",
)
@click.option("--client", is_flag=True, help="A client account: one of the organisation's own customers.")
def create(
    organisation_id: str,
    name: str,
    *,
    mode: str,
    currency: str,
    beneficiary: str | None,
    payment_method: str,
    client: bool,
) -> None:
    """Open an account called NAME in an organisation."""
    opened = Account(
        scope=Scope(organisation_id, new_id("acc"), Mode(mode)),
        kind=AccountKind.CLIENT_ACCOUNT if client else AccountKind.ACCOUNT,
        name=name.strip(),
        currency=currency.upper(),
        beneficiary=(beneficiary or name).strip(),
        payment_method=PaymentMethod(payment_method),
        created_at=utc_now(),
    )

    async def work(tx: Connection) -> None:
        await open_account(tx, opened, actor=ACTOR)

    run_in_transaction(work)
    click.echo(opened.scope.account_id)


@account.command("list")
@click.argument("organisation_id")
def list_(organisation_id: str) -> None:
    """List an organisation's accounts."""

    async def work(tx: Connection) -> list[Account]:
        return await store.list_accounts(tx, organisation_id)

    rows = [
        (a.scope.account_id, a.scope.mode, a.kind, a.name, a.currency, a.payment_method, a.beneficiary)
        for a in run_in_transaction(work)
    ]
    print_table(("id", "mode", "kind", "name", "currency", "pays by", "beneficiary"), rows)


@account.command("update")
@click.argument("account_id")
@click.option("--name", help="What the account is called.")
@click.option("--beneficiary", help="In whose name credits are retired.")
@click.option("--payment-method", type=_METHOD, help="How its orders are paid.")
@click.option(
    "--advance/--wait", default=None, help="In test mode: orders go on by themselves, or wait for the helpers."
)
def update(
    account_id: str, *, name: str | None, beneficiary: str | None, payment_method: str | None, advance: bool | None
) -> None:
    """Change name, beneficiary, payment method or pace; orders already placed keep theirs."""

    async def work(tx: Connection) -> None:
        old = await find_account(tx, account_id)
        if advance is False and old.scope.mode is Mode.LIVE:
            raise click.ClickException("Only a test account can wait for the test helpers: this one is live.")
        new = replace(
            old,
            name=check_name(name or old.name),
            beneficiary=check_name(beneficiary or old.beneficiary),
            payment_method=PaymentMethod(payment_method or old.payment_method),
            auto_advance=old.auto_advance if advance is None else advance,
        )
        await store.update_account(tx, new)
        await _record(tx, new, "account.updated")

    run_in_transaction(work)


@account.command("set-bundles")
@click.argument("account_id")
@click.argument("selection", nargs=-1, metavar=SELECTION)
def set_bundles(account_id: str, selection: tuple[str, ...]) -> None:
    """Set which bundles an account buys by default; nothing clears it, and the organisation's default applies."""

    async def work(tx: Connection) -> None:
        found = await find_account(tx, account_id)
        await store.set_account_selection(tx, found.scope, await check_selection(tx, found.scope.mode, selection))
        await _record(tx, found, "account.bundles_set")

    run_in_transaction(work)


async def find_account(tx: Connection, account_id: str) -> Account:
    found = await store.find_account_any_account(tx, account_id)
    if found is None:
        raise AccountNotFound("There is no such account: `tonne account list` shows an organisation's.")
    return found


async def _record(tx: Connection, changed: Account, action: str) -> None:
    scope = changed.scope
    await audit.record(tx, scope.organisation_id, actor=ACTOR, action=action, subject_id=scope.account_id, at=utc_now())

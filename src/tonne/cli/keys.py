"""tonne key"""

import click

from tonne.accounts import lookup
from tonne.accounts.api_keys import issue_key, revoke_key
from tonne.accounts.model import ApiKey
from tonne.base.clock import utc_now
from tonne.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.cli.output import MoneyColumn, Output, TimeColumn, ValueColumn, output_options, print_rows
from tonne.orders.set_limits import set_key_limit

COLUMNS: tuple[ValueColumn[ApiKey], ...] = (
    ValueColumn("id", lambda k: k.id),
    ValueColumn("mode", lambda k: k.scope.mode),
    ValueColumn("name", lambda k: k.name, shrinks=True),
    ValueColumn("last_four", lambda k: k.last_four, head="key", show=lambda k: f"...{k.last_four}"),
    MoneyColumn("monthly_limit", lambda k: k.monthly_limit_minor, lambda k: k.currency),
    TimeColumn("last_used_at", lambda k: k.last_used_at, head="last used"),
    TimeColumn("revoked_at", lambda k: k.revoked_at, head="revoked"),
    ValueColumn("account_id", lambda k: k.scope.account_id, head="default account"),
    ValueColumn("organisation_id", lambda k: k.scope.organisation_id, in_table=False),
    TimeColumn("created_at", lambda k: k.created_at, in_table=False),
)


@click.group()
def key() -> None:
    """Create, list and revoke API keys."""


@key.command("create")
@click.argument("account_id")
@click.option("--name", default="API key", show_default=True, help="A name that tells you what the key is for.")
def create(account_id: str, name: str) -> None:
    """Create an API key and print it.

    The key is for the account's organisation and mode. Requests use the account ACCOUNT_ID unless they name another
    one. The key is shown only once: Tonne stores a hash of it.
    """
    _, secret = run_for_account(account_id, issue_key, name, actor=ACTOR, now=utc_now())
    click.echo(secret)


@key.command("list")
@click.argument("organisation_id")
@output_options
def list_(organisation_id: str, output: Output) -> None:
    """List an organisation's keys by their last four characters."""
    found = run_in_transaction(lookup.list_keys, organisation_id)
    print_rows(found, COLUMNS, output, empty="No keys. Create one with `tonne key create`.")


@key.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key. It stops working within 5 seconds."""
    revoked = run_in_transaction(revoke_key, key_id, actor=ACTOR, now=utc_now())
    click.echo(f"{revoked.id} (...{revoked.last_four}) is revoked.")


@key.command("limit")
@click.argument("key_id")
@click.argument("amount")
def limit(key_id: str, amount: str) -> None:
    """Limit what a key may order per month. AMOUNT is 100.00, or none.

    The amount is in the currency of the key's default account, and months are calendar months (UTC). A key with a limit
    cannot order in other currencies. Takes effect within 5 seconds.
    """
    set_to = run_in_transaction(set_key_limit, key_id, amount, actor=ACTOR, now=utc_now())
    click.echo(f"The monthly limit of {key_id} is {set_to}.")

"""tonne key"""

import click

from tonne.accounts import lookup
from tonne.accounts.api_keys import issue_key, revoke_key
from tonne.base.clock import to_wire, utc_now
from tonne.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.cli.output import print_table


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
def list_(organisation_id: str) -> None:
    """List an organisation's keys by their last four characters."""
    rows = [
        (
            *(k.id, k.scope.mode, k.name, f"...{k.last_four}", k.scope.account_id),
            to_wire(k.last_used_at) if k.last_used_at else "never",
            to_wire(k.revoked_at) if k.revoked_at else "-",
        )
        for k in run_in_transaction(lookup.list_keys, organisation_id)
    ]
    print_table(("id", "mode", "name", "key", "default account", "last used", "revoked"), rows)


@key.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key. It stops working within 5 seconds."""
    revoked = run_in_transaction(revoke_key, key_id, actor=ACTOR, now=utc_now())
    click.echo(f"{revoked.id} (...{revoked.last_four}) is revoked.")

"""tonne key"""

import click

from tonne.accounts import store
from tonne.accounts.api_keys import issue_key, revoke_key
from tonne.accounts.model import ApiKey
from tonne.base.clock import to_wire, utc_now
from tonne.cli.accounts import find_account
from tonne.cli.database import run_in_transaction
from tonne.cli.show import ACTOR, print_table
from tonne.db.pool import Connection


@click.group()
def key() -> None:
    """API keys: made, listed and revoked."""


@key.command("create")
@click.argument("account_id")
@click.option("--name", default="API key", show_default=True, help="What the key is for, so that you know it again.")
def create(account_id: str, name: str) -> None:
    """Make a key whose default account is ACCOUNT_ID; it is for that account's organisation and mode.

    The key is shown this once: only a hash of it is stored.
    """

    async def work(tx: Connection) -> str:
        found = await find_account(tx, account_id)
        return (await issue_key(tx, found.scope, name, actor=ACTOR, now=utc_now()))[1]

    click.echo(run_in_transaction(work))


@key.command("list")
@click.argument("organisation_id")
def list_(organisation_id: str) -> None:
    """List an organisation's keys: never the keys themselves, only their last four characters."""

    async def work(tx: Connection) -> list[ApiKey]:
        return await store.list_keys(tx, organisation_id)

    rows = [
        (
            k.id,
            k.scope.mode,
            k.name,
            f"...{k.last_four}",
            k.scope.account_id,
            to_wire(k.last_used_at) if k.last_used_at else "never",
            to_wire(k.revoked_at) if k.revoked_at else "-",
        )
        for k in run_in_transaction(work)
    ]
    print_table(("id", "mode", "name", "key", "default account", "last used", "revoked"), rows)


@key.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key; it stops working within 5 seconds."""

    async def work(tx: Connection) -> ApiKey:
        return await revoke_key(tx, key_id, actor=ACTOR, now=utc_now())

    revoked = run_in_transaction(work)
    click.echo(f"{revoked.id} (...{revoked.last_four}) is revoked.")

"""tonne key"""

from datetime import timedelta

import click

from tonne.apps.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.apps.cli.output import MoneyColumn, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import EnumChoice, options_of
from tonne.platform.db.database import Connection
from tonne.platform.http.permissions import PERMISSIONS
from tonne.platform.values.context import By, utc_now
from tonne.selling.accounts import lookup
from tonne.selling.accounts.errors import KeyNotFound
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.api_keys import issue_key, revoke_key, rotate_key
from tonne.selling.accounts.keys.endpoints import ApiKeyIn
from tonne.selling.accounts.keys.restrictions import KeyRight, check_restrictions
from tonne.selling.accounts.model import ApiKey
from tonne.selling.orders.placing.spending import set_key_limit


def _permissions(key: ApiKey) -> str:
    permissions = key.restrictions.permissions
    return "all" if permissions is None else ", ".join(permissions)


COLUMNS: tuple[ValueColumn[ApiKey], ...] = (
    *columns("id", "scope.mode"),
    ValueColumn("name", lambda k: k.name, shrinks=True),
    ValueColumn("last_four", lambda k: k.last_four, head="key", show=lambda k: f"...{k.last_four}"),
    MoneyColumn("monthly_limit", lambda k: k.monthly_limit_minor, lambda k: k.currency),
    ValueColumn("permissions", lambda k: k.restrictions.permissions, show=_permissions, shrinks=True),
    *columns("rights", "restrictions.account_ids: accounts", in_table=False),
    ValueColumn("networks", lambda k: [str(each) for each in k.restrictions.networks], in_table=False),
    *columns("last_used_at: last used", "restrictions.expires_at: expires", "revoked_at: revoked"),
    *columns("scope.account_id: default account"),
    *columns("scope.organisation_id", "created_at", "created_by", "replaced_by", in_table=False),
)


@click.group()
def key() -> None:
    """Create, list, rotate and revoke API keys."""


@key.command("create")
@click.argument("account_id")
@click.option("--name", default="API key", show_default=True, help="A name that tells you what the key is for.")
@click.option(
    "--allow",
    "rights",
    multiple=True,
    type=EnumChoice(KeyRight),
    help="Allow more to a key that may do everything. persons: export and erase the data of persons. api_keys: create, "
    "rotate and revoke keys.",
)
@click.option(
    "--permit",
    "permissions",
    multiple=True,
    metavar="GROUP:ACCESS",
    help="Allow only this, such as orders:write, which includes reading. Repeat it for more. "
    f"{', '.join(PERMISSIONS)}.",
)
@options_of(ApiKeyIn)
@click.option("--expires-in-days", type=click.IntRange(1, 3650), help="The key stops working after this many days.")
def create(
    account_id: str,
    name: str,
    rights: tuple[KeyRight, ...],
    permissions: tuple[str, ...],
    *,
    account_ids: tuple[str, ...],
    networks: tuple[str, ...],
    expires_in_days: int | None,
) -> None:
    """Create an API key and print it.

    The key is for the account's organisation and mode. Requests use the account ACCOUNT_ID unless they name another
    one. The key is shown only once: Tonne stores a hash of it.
    """
    allowed, now = list(dict.fromkeys(rights)), utc_now()
    if allowed and permissions:
        raise click.UsageError("Use --permit or --allow: with --permit, persons:write and api_keys:write exist.")
    expires_at = None if expires_in_days is None else now + timedelta(days=expires_in_days)
    restrictions = check_restrictions(permissions or None, account_ids or None, networks, expires_at, now)
    _, secret = run_for_account(
        account_id, issue_key, name, by=ACTOR.at(now), rights=allowed, restrictions=restrictions
    )
    click.echo(secret)


@key.command("list")
@click.argument("organisation_id")
@output_options
def list_(organisation_id: str, output: Output) -> None:
    """List an organisation's keys by their last four characters."""
    found = run_in_transaction(lookup.list_keys, organisation_id)
    output.print_rows(found, COLUMNS, empty="No keys. Create one with `tonne key create`.")


@key.command("rotate")
@click.argument("key_id")
@click.option(
    "--overlap-hours",
    type=click.IntRange(0, 168),
    default=24,
    show_default=True,
    help="How long the old key still works.",
)
def rotate(key_id: str, overlap_hours: int) -> None:
    """Replace a key by a new one and print it.

    The new key has the same name, permissions, restrictions and limit. The old one stops working after the overlap.
    """
    _, secret = run_in_transaction(_rotate, key_id, timedelta(hours=overlap_hours), by=ACTOR.now())
    click.echo(secret)


async def _rotate(tx: Connection, key_id: str, overlap: timedelta, *, by: By) -> tuple[ApiKey, str]:
    tenant = await key_store.find_tenant_of_key_any_account(tx, key_id)
    if tenant is None:
        raise KeyNotFound(f"There is no API key {key_id}. Run `tonne key list` to see the keys of an organisation.")
    return await rotate_key(tx, tenant, key_id, overlap=overlap, by=by)


@key.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key. It stops working within 5 seconds."""
    revoked = run_in_transaction(revoke_key, key_id, by=ACTOR.now())
    click.echo(f"{revoked.id} (...{revoked.last_four}) is revoked.")


@key.command("limit")
@click.argument("key_id")
@click.argument("amount")
def limit(key_id: str, amount: str) -> None:
    """Limit what a key may order per month. AMOUNT is 100.00, or none.

    The amount is in the currency of the key's default account, and months are calendar months (UTC). A key with a limit
    cannot order in other currencies. Takes effect within 5 seconds.
    """
    set_to = run_in_transaction(set_key_limit, key_id, amount, by=ACTOR.now())
    click.echo(f"The monthly limit of {key_id} is {set_to}.")

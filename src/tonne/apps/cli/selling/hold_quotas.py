"""tonne hold-quota"""

import click

from tonne.apps.cli.database import ACTOR, plain_failures, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode
from tonne.selling.accounts.lookup import require_account_any_account, require_organisation
from tonne.selling.orders.quotes.set_hold_quota import HoldQuota, list_quotas_any_account, read_quota, set_hold_quota

COLUMNS: tuple[ValueColumn[HoldQuota], ...] = (
    *columns("subject_id: account or organisation", "mode", "quota_grams: tonnes"),
    ValueColumn("organisation_id", lambda each: each.organisation_id, in_table=False),
)


@click.group("hold-quota")
def hold_quota() -> None:
    """Manage how much supply locked quotes may hold."""


@hold_quota.command("set")
@click.argument("subject_id")
@click.argument("tonnes")
@click.option("--mode", type=MODE, help="For an organisation: which of its accounts.")
def set_(subject_id: str, tonnes: str, mode: Mode | None) -> None:
    """Grant SUBJECT_ID a quota of TONNES, or `none`.

    SUBJECT_ID is an account, or an organisation for all its accounts without a quota of their own. While a quote holds
    supply, nobody else can buy it: until the quote expires, or its order has its credits or has ended.
    """
    of_organisation = subject_id.startswith("org_")
    if of_organisation and mode is None:
        raise click.UsageError("Give --mode live or --mode test for the quota of an organisation.")
    with plain_failures():
        grams = read_quota(tonnes)

    async def work(tx: Connection) -> None:
        if mode is not None and of_organisation:
            await require_organisation(tx, subject_id)
            organisation_id, of_mode = subject_id, mode
        else:
            scope = (await require_account_any_account(tx, subject_id)).scope
            organisation_id, of_mode = scope.organisation_id, scope.mode
        await set_hold_quota(tx, organisation_id, subject_id, of_mode, grams, by=ACTOR.now())

    run_in_transaction(work)
    shown = "no supply" if grams is None else f"up to {format_tonnes(grams)} t"
    click.echo(f"Quotes of {subject_id} may hold {shown}. This takes effect within seconds.")


@hold_quota.command("list")
@output_options
def list_(output: Output) -> None:
    """List all quotas."""
    found = run_in_transaction(list_quotas_any_account)
    output.print_rows(found, COLUMNS, empty="There are no quotas: quotes hold no supply.")

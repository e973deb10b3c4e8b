"""tonne charge"""

from dataclasses import replace
from typing import Any

import click

from tonne.apps.cli.database import run_in_transaction
from tonne.apps.cli.money.mismatched_charges import accept_charge, refund_charge
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE, MOMENT, EnumChoice
from tonne.apps.lookup import charge_search_store
from tonne.money.cards.errors import ChargeUnknown
from tonne.money.cards.model import ChargeStatus
from tonne.platform.db.database import Connection
from tonne.selling.accounts.directory import Names, find_names_any_account


@click.group()
def charge() -> None:
    """Find and show charges of cards, and decide on mismatched ones."""


charge.add_command(refund_charge)
charge.add_command(accept_charge)


@charge.command("list")
@click.option("--order", "order_id", metavar="ID", help="Only charges of this order, or of its invoice.")
@click.option("--invoice", metavar="NUMBER", help="Only charges of this invoice, such as TN-LIVE-000123.")
@click.option("--reference", help="Only the charge with this reference of the gateway.")
@click.option("--status", type=EnumChoice(ChargeStatus), help="Only charges of this status.")
@click.option("--mode", type=MODE, help="Only charges of this mode.")
@click.option("--org", "organisation_id", metavar="ID", help="Only charges of this organisation.")
@click.option("--account", "account_id", metavar="ID", help="Only charges of this account.")
@click.option("--since", type=MOMENT, help="Only charges made from this time on.")
@click.option("--until", type=MOMENT, help="Only charges made before this time.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@output_options
def list_(limit: int, output: Output, **filters: Any) -> None:
    """List the newest charges of all organisations."""

    async def work(tx: Connection) -> tuple[list[charge_search_store.FoundCharge], Names]:
        found = await charge_search_store.search_charges_any_account(
            tx, charge_search_store.ChargeSearch(**filters), limit + 1
        )
        return found, await find_names_any_account(tx, [each.account_id for each in found])

    found, names = run_in_transaction(work)
    output.print_rows(found[:limit], _columns(names), empty="No charge matches.")
    if output.format is Format.TABLE and len(found) > limit:
        click.echo(f"There are more: these are the newest {limit:,}. Use --limit or --until.", err=True)


@charge.command("show")
@click.argument("charge_id")
@output_options
def show(charge_id: str, output: Output) -> None:
    """Show a charge. CHARGE_ID may also be the gateway's reference."""

    async def work(tx: Connection) -> tuple[charge_search_store.FoundCharge, Names]:
        found = await charge_search_store.find_charge_any_account(tx, charge_id)
        if found is None:
            raise ChargeUnknown(f"There is no charge {charge_id}. Run `tonne charge list` to see charges.")
        return found, await find_names_any_account(tx, [found.account_id])

    found, names = run_in_transaction(work)
    output.print_object(found, [replace(column, in_table=True) for column in _columns(names)])


def _columns(names: Names) -> tuple[ValueColumn[charge_search_store.FoundCharge], ...]:
    return (
        *columns("id: charge", "status", "created_at: created", "amount_minor"),
        ValueColumn("account_name", lambda c: names.of(c.account_id), head="account", shrinks=True),
        ValueColumn("outcome", lambda c: c.code or c.outcome, shrinks=True),
        *columns("order_id: order", "invoice"),
        *columns("reference", "message", "attempt", "gateway", "source", "mode", in_table=False),
        *columns("settled_at: settled", "refunded_at: refunded", "next_attempt_at: next attempt", in_table=False),
        *columns("account_id", "organisation_id: organisation", in_table=False),
    )

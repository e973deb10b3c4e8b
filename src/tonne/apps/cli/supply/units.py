"""tonne unit"""

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Output, TonnesColumn, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, utc_now
from tonne.supply.stock.parcels.units import Unit, close_unit_any_account, list_units_any_account

COLUMNS: tuple[ValueColumn[Unit], ...] = (
    *columns("id: unit", "mode", "status", "registry_project_id: project"),
    TonnesColumn("allocated_quantity", lambda unit: unit.allocated_grams, head="sold"),
    TonnesColumn("quantity", lambda unit: unit.quantity_grams, head="of"),
    ValueColumn(
        "fill_percent", lambda unit: unit.fill_percent, head="fill", show=lambda unit: f"{unit.fill_percent} %"
    ),
    ValueColumn("close_at", lambda unit: unit.close_at, head="closes"),
    ValueColumn("orders_waiting", lambda unit: len(unit.order_ids), head="waiting"),
    ValueColumn("beneficiary", lambda unit: unit.beneficiary, head="in the name of", shrinks=True),
    TonnesColumn("free_quantity", lambda unit: unit.free_grams, in_table=False),
    *columns("registry", "project_name", "account_id", "order_ids", "opened_at", in_table=False),
)


@click.group()
def unit() -> None:
    """List and close pooled units, which several orders share."""


@unit.command("list")
@click.option("--mode", type=MODE, help="Only this mode. Default: both.")
@output_options
def list_(mode: Mode | None, output: Output) -> None:
    """List open units, and those whose rest is for sale.

    An open unit waits for more fractions of its account. It is put on the work list when it is full, or at its closing
    date. Units in the service's name serve fractions of all accounts.
    """

    async def work(tx: Connection) -> list[Unit]:
        modes = [mode] if mode else list(Mode)
        return [found for each in modes for found in await list_units_any_account(tx, each)]

    output.print_rows(run_in_transaction(work), COLUMNS, empty="There are no pooled units.")


@unit.command("close")
@click.argument("unit_id")
def close(unit_id: str) -> None:
    """Put an open unit on the work list now, in the service's name.

    Its rest serves later fractions of any account.
    """
    service_name = settings_from_environment().seller_name
    run_in_transaction(close_unit_any_account, unit_id, service_name=service_name, actor=ACTOR, now=utc_now())
    click.echo(f"Unit {unit_id} is on the work list, in the name of {service_name}.")

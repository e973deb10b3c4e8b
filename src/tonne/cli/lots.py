"""tonne lot"""

import csv
import io
from dataclasses import replace
from pathlib import Path

import click

from tonne.base.clock import utc_now
from tonne.base.mass import format_tonnes
from tonne.base.scope import Mode
from tonne.cli.database import ACTOR, run_in_transaction
from tonne.cli.output import (
    STATUS_STYLES,
    Output,
    Table,
    TimeColumn,
    TonnesColumn,
    ValueColumn,
    output_options,
    print_object,
    print_rows,
)
from tonne.cli.parameters import MODE
from tonne.db.pool import Connection
from tonne.retirements.errors import LotNotFound
from tonne.retirements.lot_store import (
    ListedLot,
    ListedParcel,
    find_lot,
    find_withdrawn_lot,
    list_lots,
    list_parcels_any_account,
    list_withdrawn_lots,
)
from tonne.retirements.model import serial_range
from tonne.retirements.withdraw_lot import withdraw_lot
from tonne.sheets.formulas import escape_formula

MAX_REASON = 500
# The columns of lots.csv.
EXPORT_COLUMNS = (
    *("lot_id", "registry", "registry_project_id", "vintage", "serial_block", "first_number", "last_number"),
    *("status", "retirement_url", "retired_on", "country", "methodology"),
)
_mode_option = click.option("--mode", type=MODE, required=True, help="Catalogue to use: live and test have one each.")

COLUMNS: tuple[ValueColumn[ListedLot], ...] = (
    ValueColumn("id", lambda each: each.id, head="lot"),
    ValueColumn("registry", lambda each: each.registry),
    ValueColumn("registry_project_id", lambda each: each.registry_project_id, head="project"),
    ValueColumn("vintage", lambda each: each.vintage, show=lambda each: str(each.vintage)),
    TonnesColumn("quantity", lambda each: each.quantity_grams, head="tonnes"),
    TonnesColumn("free_quantity", lambda each: each.free_grams, head="free"),
    ValueColumn(
        "status", lambda each: each.status, show=lambda each: _status(each), styles=STATUS_STYLES, shrinks=True
    ),
    ValueColumn("serials", lambda each: _serials(each), shrinks=True),
    ValueColumn("mode", lambda each: each.mode, in_table=False),
    ValueColumn("serial_block", lambda each: each.serial_block, in_table=False),
    ValueColumn("first_number", lambda each: each.first_number, in_table=False),
    ValueColumn("last_number", lambda each: each.last_number, in_table=False),
    TimeColumn("retired_on", lambda each: each.retired_on, in_table=False),
    TimeColumn("withdrawn_at", lambda each: each.withdrawn_at, in_table=False),
    ValueColumn("reason", lambda each: each.reason, in_table=False),
    TimeColumn("created_at", lambda each: each.created_at, head="imported", in_table=False),
)
_HIDDEN_FACTS = {"serial_block", "first_number", "last_number", "retired_on", "withdrawn_at", "reason"}
FACTS = tuple(replace(column, in_table=column.name not in _HIDDEN_FACTS) for column in COLUMNS)


@click.group()
def lot() -> None:
    """List, export and withdraw lots of credits."""


@lot.command("list")
@_mode_option
@output_options
def list_(mode: str, output: Output) -> None:
    """List all lots with their free tonnes, including withdrawn ones."""

    async def work(tx: Connection) -> list[ListedLot]:
        return [*await list_lots(tx, Mode(mode)), *await list_withdrawn_lots(tx, Mode(mode))]

    lots = run_in_transaction(work)
    empty = f"There are no lots in {mode} mode: import some with `tonne catalogue import-lots --mode {mode}`."
    print_rows(lots, COLUMNS, output, empty=empty)


@lot.command("show")
@click.argument("lot_id")
@output_options
def show(lot_id: str, output: Output) -> None:
    """Show a lot and the orders that hold its credits."""

    async def work(tx: Connection) -> tuple[ListedLot, list[ListedParcel]]:
        found = await find_lot(tx, lot_id) or await find_withdrawn_lot(tx, lot_id)
        if found is None:
            raise LotNotFound
        return found, await list_parcels_any_account(tx, found)

    found, parcels = run_in_transaction(work)
    parcel_columns: tuple[ValueColumn[ListedParcel], ...] = (
        ValueColumn("id", lambda each: each.id, head="parcel"),
        ValueColumn("serials", lambda each: _parcel_serials(found, each)),
        TonnesColumn("quantity", lambda each: each.quantity_grams, head="tonnes"),
        ValueColumn("status", lambda each: each.status, styles=STATUS_STYLES),
        TimeColumn("retired_on", lambda each: each.retired_on, head="retired"),
        ValueColumn("order_ids", lambda each: each.order_ids, head="orders", shrinks=True),
    )
    print_object(found, FACTS, output, [Table("parcels", parcels, parcel_columns)])


def _parcel_serials(found: ListedLot, each: ListedParcel) -> str:
    return serial_range(found.serial_block, found.first_number, each.start_grams, each.quantity_grams)


@lot.command("export")
@_mode_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
def export(mode: str, output: Path) -> None:
    """Write the lots of which no order holds credits to a CSV file.

    To correct lots, change the file and import it with `tonne catalogue import-lots`.
    """
    lots = [each for each in run_in_transaction(list_lots, Mode(mode)) if not each.allocated_grams]
    try:
        with output.open("xb") as stream:
            stream.write(_csv(lots))
    except FileExistsError as error:
        raise click.ClickException(f"{output} already exists: choose another name, or move the file.") from error
    except OSError as error:
        raise click.ClickException(f"Cannot write {output}: {error.strerror}.") from error
    click.echo(f"{output}: {len(lots):,} {'lot' if len(lots) == 1 else 'lots'} that can be corrected.")


@lot.command("withdraw")
@click.argument("lot_id")
@click.option("--reason", required=True, help="Why, for the records.")
def withdraw(lot_id: str, reason: str) -> None:
    """Withdraw a lot of which no order holds credits.

    It supplies no orders any more. Its serial numbers may be imported again.
    """
    reason = reason.strip()
    if not reason or len(reason) > MAX_REASON:
        raise click.BadParameter(f"expected 1 to {MAX_REASON} characters", param_hint="--reason")
    withdrawn = run_in_transaction(withdraw_lot, lot_id, reason=reason, actor=ACTOR, now=utc_now())
    tonnes = format_tonnes(withdrawn.quantity_grams)
    click.echo(f"Lot {withdrawn.id} ({_serials(withdrawn)}, {tonnes} t) is withdrawn.")


def _serials(each: ListedLot) -> str:
    return serial_range(each.serial_block, each.first_number, 0, each.quantity_grams)


def _status(each: ListedLot) -> str:
    if each.withdrawn_at is not None:
        return f"withdrawn on {each.withdrawn_at.date()}: {each.reason}"
    return f"{each.status} on {each.retired_on}" if each.retired_on else each.status


def _csv(lots: list[ListedLot]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(EXPORT_COLUMNS)
    for each in lots:
        cells = {"lot_id": each.id, **{name: getattr(each, name) for name in EXPORT_COLUMNS if name != "lot_id"}}
        writer.writerow([escape_formula("" if cells[name] is None else str(cells[name])) for name in EXPORT_COLUMNS])
    return text.getvalue().encode("utf-8-sig")

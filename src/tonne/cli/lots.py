"""tonne lot"""

import csv
import io
from pathlib import Path

import click

from tonne.base.clock import to_wire, utc_now
from tonne.base.mass import format_tonnes
from tonne.base.scope import Mode
from tonne.cli.database import ACTOR, run_in_transaction
from tonne.cli.output import print_facts, print_table
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


@click.group()
def lot() -> None:
    """List, export and withdraw lots of credits."""


@lot.command("list")
@_mode_option
def list_(mode: str) -> None:
    """List all lots with their free tonnes, including withdrawn ones."""

    async def work(tx: Connection) -> list[ListedLot]:
        return [*await list_lots(tx, Mode(mode)), *await list_withdrawn_lots(tx, Mode(mode))]

    lots = run_in_transaction(work)
    if not lots:
        click.echo(f"There are no lots in {mode} mode: import some with `tonne catalogue import-lots --mode {mode}`.")
        return
    heads = ("lot", "registry", "project", "vintage", "serials", "tonnes", "free", "status")
    print_table(heads, [_cells(each) for each in lots])


@lot.command("show")
@click.argument("lot_id")
def show(lot_id: str) -> None:
    """Show a lot and the orders that hold its credits."""

    async def work(tx: Connection) -> tuple[ListedLot, list[ListedParcel]]:
        found = await find_lot(tx, lot_id) or await find_withdrawn_lot(tx, lot_id)
        if found is None:
            raise LotNotFound
        return found, await list_parcels_any_account(tx, found)

    found, parcels = run_in_transaction(work)
    print_facts(
        {
            "lot": found.id,
            "mode": found.mode.value,
            "project": f"{found.registry} {found.registry_project_id}",
            "vintage": str(found.vintage),
            "serials": _serials(found),
            "tonnes": format_tonnes(found.quantity_grams),
            "free": format_tonnes(found.free_grams),
            "status": _status(found),
            "imported": to_wire(found.created_at),
        }
    )
    if parcels:
        click.echo()
        rows = [
            (
                each.id,
                serial_range(found.serial_block, found.first_number, each.start_grams, each.quantity_grams),
                *(format_tonnes(each.quantity_grams), each.status, str(each.retired_on or "-")),
                ", ".join(each.order_ids),
            )
            for each in parcels
        ]
        print_table(("parcel", "serials", "tonnes", "status", "retired", "orders"), rows)


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


def _cells(each: ListedLot) -> tuple[str, ...]:
    return (
        *(each.id, each.registry, each.registry_project_id, str(each.vintage), _serials(each)),
        *(format_tonnes(each.quantity_grams), format_tonnes(each.free_grams), _status(each)),
    )


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

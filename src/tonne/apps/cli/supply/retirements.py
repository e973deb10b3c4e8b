"""tonne retirement"""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import FILE, MODE, creating, read_file, reported_errors
from tonne.apps.cli.progress import bars_on_terminal
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode
from tonne.supply.retirements.confirmations.confirm_lines import import_confirmations
from tonne.supply.retirements.confirmations.work_list import (
    Task,
    export_tasks,
    list_tasks_any_account,
    put_back_tasks_any_account,
    take_tasks_any_account,
)

# Longer lists are exported to a file.
SHOWN = 100

_mode_option = click.option("--mode", type=MODE, required=True, help="Work list to use: live and test have one each.")

COLUMNS: tuple[ValueColumn[Task], ...] = (
    *columns("parcel_id: parcel", "registry", "registry_project_id: project", "quantity_grams: tonnes"),
    *columns("opened_at: waiting since"),
    ValueColumn("serials", lambda t: t.serials, shrinks=True),
    ValueColumn("beneficiary", lambda t: t.named, show=lambda t: quoted(t.named), shrinks=True),
    *columns("project_name", "vintage", "serial", "parcel_ids", "exported_at", "exported_by", in_table=False),
)


@click.group()
def retirement() -> None:
    """Export credits to retire and import confirmations."""


@retirement.command("list")
@_mode_option
@output_options
def list_(mode: Mode, output: Output) -> None:
    """List the credits to retire, oldest first."""
    tasks = run_in_transaction(list_tasks_any_account, mode)
    is_table = output.format is Format.TABLE
    output.print_rows(tasks[:SHOWN] if is_table else tasks, COLUMNS, empty=f"Nothing to retire in {mode} mode.")
    if is_table and len(tasks) > SHOWN:
        click.echo(f"... and {len(tasks) - SHOWN:,} more: `tonne retirement export` writes them all to a file.")


@retirement.command("export")
@_mode_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@click.option("--all", "is_all", is_flag=True, help="Also what is in earlier files, with the day and the person.")
def export(mode: Mode, output: Path, *, is_all: bool) -> None:
    """Write the work list to a CSV file.

    Retire the credits, fill in the columns retired_on and retirement_url, and import the file with
    `tonne retirement import`.

    No later file has these lines again, so that nobody else retires them. With --all, nothing is marked: do not retire
    what others have in a file.
    """
    # Never overwrite: the file may be an earlier list that is partly filled in.
    with creating(output), output.open("xb") as stream:
        if is_all:
            tasks = run_in_transaction(list_tasks_any_account, mode)
        else:
            tasks = run_in_transaction(take_tasks_any_account, mode, by=ACTOR.now())
        with bars_on_terminal():
            stream.write(export_tasks(tasks))
    tonnes = format_tonnes(sum(task.quantity_grams for task in tasks))
    click.echo(f"{output}: {_count(len(tasks))} of {tonnes} t to retire.")


@retirement.command("put-back")
@_mode_option
@click.argument("parcel_ids", nargs=-1, required=True)
def put_back(mode: Mode, parcel_ids: tuple[str, ...]) -> None:
    """Put exported lines back on the work list: nobody has retired them.

    PARCEL_IDS are those of the lines. Make sure at the registry, and delete the lines from the file: what is retired
    after all is retired a second time.
    """
    tasks = run_in_transaction(put_back_tasks_any_account, mode, parcel_ids, by=ACTOR.now())
    missing = sorted(set(parcel_ids) - {task.parcel_id for task in tasks})
    tonnes = format_tonnes(sum(task.quantity_grams for task in tasks))
    click.echo(f"{_count(sum(len(task.parcel_ids) for task in tasks))} of {tonnes} t are on the work list again.")
    if missing:
        raise click.ClickException(f"These are not lines of an exported file: {', '.join(missing)}.")


@retirement.command("import")
@_mode_option
@FILE
def import_(mode: Mode, file: Path) -> None:
    """Import confirmations from a CSV FILE: all or nothing.

    The columns are parcel_id, serial, retired_on and retirement_url; other columns of an exported list may stay.
    Importing the same file again changes nothing. A confirmation can be corrected until a certificate states it. If
    the registry retired a part of a parcel, or other serials of the work list, enter those.

    If the file has errors, all of them are listed, nothing is imported, and the exit code is 1.
    """
    upload = read_file(file)
    pages = settings_from_environment().retirement_pages
    with reported_errors():
        report = run_in_transaction(import_confirmations, mode, upload, by=ACTOR.now(), pages=pages)
    if report.confirmed_count:
        tonnes = format_tonnes(report.confirmed_grams)
        click.echo(f"{_count(report.confirmed_count)} of {tonnes} t confirmed. Their orders complete automatically.")
    if report.corrected_count:
        click.echo(f"{_count(report.corrected_count)} corrected.")
    if not report.confirmed_count and not report.corrected_count:
        click.echo("No changes.")
    for detail in report.details[:SHOWN]:
        click.echo(detail)
    if len(report.details) > SHOWN:
        click.echo(f"... and {len(report.details) - SHOWN:,} more.")
    if report.known_count:
        click.echo(f"{_count(report.known_count)} had already been confirmed.")


def _count(parcels: int) -> str:
    return "1 parcel" if parcels == 1 else f"{parcels:,} parcels"

"""tonne retirement"""

from pathlib import Path

import click

from tonne.base.clock import to_wire, utc_now
from tonne.base.mass import format_tonnes
from tonne.base.scope import Mode
from tonne.catalog.csv_files import MAX_BYTES, show
from tonne.catalog.import_catalogue import BadLinesError
from tonne.cli.database import ACTOR, run_in_transaction
from tonne.cli.output import print_table
from tonne.retirements.import_confirmations import import_confirmations
from tonne.retirements.work_list import export_tasks, list_tasks_any_account

# More lines than this are for a file, not for a screen.
SHOWN = 100

_mode_option = click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    required=True,
    help="Which work list: each mode has one.",
)


@click.group()
def retirement() -> None:
    """Export credits to retire and import confirmations."""


@retirement.command("list")
@_mode_option
def list_(mode: str) -> None:
    """List what is to be retired, longest waiting first."""
    tasks = run_in_transaction(lambda tx: list_tasks_any_account(tx, Mode(mode)))
    if not tasks:
        click.echo(f"Nothing is to be retired in {mode} mode.")
        return
    heads = ("parcel", "registry", "project", "serials", "tonnes", "beneficiary", "waiting since")
    rows = [
        (
            *(task.parcel_id, task.registry, task.registry_project_id, task.serials),
            *(format_tonnes(task.quantity_grams), show(task.named), to_wire(task.opened_at)),
        )
        for task in tasks[:SHOWN]
    ]
    print_table(heads, rows)
    if len(tasks) > SHOWN:
        click.echo(f"... and {len(tasks) - SHOWN:,} more: `tonne retirement export` writes them all to a file.")


@retirement.command("export")
@_mode_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
def export(mode: str, output: Path) -> None:
    """Write the work list to a CSV file.

    Retire what it lists, add the columns retired_on and retirement_url, and bring it back with
    `tonne retirement import`.
    """
    tasks = run_in_transaction(lambda tx: list_tasks_any_account(tx, Mode(mode)))
    try:
        # Never over a file that is there: it may be an earlier list, half filled in.
        with output.open("xb") as stream:
            stream.write(export_tasks(tasks))
    except FileExistsError as error:
        raise click.ClickException(f"{output} exists already: name another file, or move that one away.") from error
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from error
    tonnes = format_tonnes(sum(task.quantity_grams for task in tasks))
    click.echo(f"{output}: {_count(len(tasks))} of {tonnes} t to retire.")


@retirement.command("import")
@_mode_option
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_(mode: str, file: Path) -> None:
    """Take in what was retired, from a CSV FILE, all of it or nothing.

    The columns are parcel_id, serial_block, first_number, last_number, retired_on and retirement_url; others of an
    exported list may stay. The same file again changes nothing.

    If any line is bad, every bad line is listed with what to do about it, nothing is taken in, and the exit code is 1.
    """
    try:
        with file.open("rb") as stream:
            # One byte more than allowed is enough to see that the file is too large.
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from error
    try:
        report = run_in_transaction(
            lambda tx: import_confirmations(tx, Mode(mode), file.name, content, now=utc_now(), actor=ACTOR)
        )
    except BadLinesError as error:
        for bad_line in error.bad_lines:
            click.echo(str(bad_line), err=True)
        count = len(error.bad_lines)
        faults = "is 1 fault" if count == 1 else f"are {count:,} faults"
        raise click.ClickException(f"Nothing was taken in: there {faults} to mend.") from error
    if report.confirmed_count:
        tonnes = format_tonnes(report.confirmed_grams)
        click.echo(f"{_count(report.confirmed_count)} of {tonnes} t confirmed; their orders complete by themselves.")
    else:
        click.echo("Nothing to change: no line says anything new.")
    if report.known_count:
        click.echo(f"{_count(report.known_count)} had been confirmed before.")


def _count(parcels: int) -> str:
    return "1 parcel" if parcels == 1 else f"{parcels:,} parcels"

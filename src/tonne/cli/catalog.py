"""`tonne catalogue`: what is sold."""

from collections.abc import Sequence
from pathlib import Path

import click

from tonne.base.clock import utc_now
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.catalog.bundle_store import ListedBundle, list_bundles
from tonne.catalog.csv_files import MAX_BYTES, CsvFile, FileKind
from tonne.catalog.import_catalogue import BadLinesError, CatalogueError, ImportReport, import_catalogue
from tonne.catalog.switch_bundle import switch_bundle
from tonne.cli.database import run_in_transaction
from tonne.cli.output import print_table
from tonne.db.pool import Connection
from tonne.orders.queue import wake_short_any_account

# Orders that wait for supply are looked at again after these: lots, or projects that a bundle did not have before.
_BRINGS_SUPPLY = {FileKind.LOTS, FileKind.BUNDLE_PROJECTS}

_mode_option = click.option(
    "--mode",
    type=click.Choice([str(mode) for mode in Mode]),
    required=True,
    help="Which catalogue: live and test have one each.",
)


@click.group()
def catalogue() -> None:
    """Manage projects, bundles, prices and supply."""


@catalogue.command("import")
@_mode_option
@click.option(
    "--currency", metavar="CODE", help="Currency of the prices, such as EUR. Needed for the first import only."
)
@click.argument(
    "sources", metavar="FOLDER_OR_FILES...", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True
)
def import_files(mode: str, currency: str | None, sources: tuple[Path, ...]) -> None:
    """Import CSV files into a catalogue, all of them or nothing.

    A file is known by its name: projects.csv, bundles.csv, bundle_projects.csv, exchange_rates.csv, lots.csv,
    defaults.csv. Give any of them, or a folder that holds them. Rows that are there already are updated, and the same
    files again change nothing.

    If any line is bad, every bad line is listed with what to do about it, nothing is imported, and the exit code is 1.
    """
    _import(Mode(mode), _collect(sources), currency)


@catalogue.command("import-lots")
@_mode_option
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_lots(mode: str, file: Path) -> None:
    """Import lots of supply from one CSV FILE, whatever its name.

    The columns are those of lots.csv, and the projects must be in the catalogue already.
    """
    _import(Mode(mode), [_read(file, FileKind.LOTS)], None)


@catalogue.command("list")
@_mode_option
def list_all(mode: str) -> None:
    """List the bundles of a catalogue, those not on sale too."""
    bundles = run_in_transaction(lambda tx: list_bundles(tx, Mode(mode)))
    if not bundles:
        click.echo(f"The {mode} catalogue has no bundles yet: import some with `tonne catalogue import --mode {mode}`.")
        return
    header = ("id", "slug", "name", "price", "enabled", "free tonnes")
    print_table(header, [_cells(bundle) for bundle in bundles])


@catalogue.command()
@click.argument("bundle_id")
def enable(bundle_id: str) -> None:
    """Put a bundle on sale."""
    bundle = run_in_transaction(lambda tx: switch_bundle(tx, bundle_id, enabled=True))
    click.echo(f"{bundle.slug} ({bundle.mode}) is on sale{' as before' if bundle.enabled else ' now'}.")


@catalogue.command()
@click.argument("bundle_id")
def disable(bundle_id: str) -> None:
    """Take a bundle off sale. Orders placed already are not touched."""
    bundle = run_in_transaction(lambda tx: switch_bundle(tx, bundle_id, enabled=False))
    click.echo(f"{bundle.slug} ({bundle.mode}) is off sale{' now' if bundle.enabled else ' as before'}.")
    if bundle.in_default_selection:
        click.echo(
            "It is part of the catalogue's default selection, so orders that name no bundles now wait for a price: "
            "import a defaults.csv without it.",
            err=True,
        )


def _import(mode: Mode, files: Sequence[CsvFile], currency: str | None) -> None:
    async def work(tx: Connection) -> ImportReport:
        if any(file.kind in _BRINGS_SUPPLY for file in files):
            # Before any lot is touched: a worker holds an order first and then the lots, too, and nobody is locked out.
            await wake_short_any_account(tx, mode)
        return await import_catalogue(tx, mode, files, utc_now(), currency=currency)

    try:
        report = run_in_transaction(work)
    except CatalogueError as error:
        raise click.ClickException(str(error)) from error
    except BadLinesError as error:
        for bad_line in error.bad_lines:
            click.echo(str(bad_line), err=True)
        count = len(error.bad_lines)
        faults = "is 1 fault" if count == 1 else f"are {count:,} faults"
        raise click.ClickException(f"Nothing was imported: there {faults} to mend.") from error
    _print_report(mode, report)


def _collect(sources: Sequence[Path]) -> list[CsvFile]:
    """The files named, and those in the folders named. Another name is refused: it may be a misspelling."""
    paths: list[Path] = []
    for source in sources:
        found = sorted(source.glob("*.csv")) if source.is_dir() else [source]
        if not found:
            raise click.ClickException(f"The folder {source} holds no CSV file: the names are {', '.join(FileKind)}.")
        paths += found
    files = []
    for path in paths:
        if path.name not in set(FileKind):
            raise click.ClickException(f"{path} is not a file of a catalogue: the names are {', '.join(FileKind)}.")
        files.append(_read(path, FileKind(path.name)))
    return files


def _read(path: Path, kind: FileKind) -> CsvFile:
    try:
        with path.open("rb") as stream:
            # One byte more than allowed is enough to see that the file is too large.
            return CsvFile(kind, path.name, stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}.") from error


def _print_report(mode: Mode, report: ImportReport) -> None:
    if report.changed:
        click.echo(f"The {mode} catalogue ({report.currency}) is now at version {report.version}.")
    else:
        click.echo(f"Nothing to change: the {mode} catalogue ({report.currency}) stays at version {report.version}.")
    click.echo()
    rows = [
        (file.name, *map(str, (file.new_count, file.changed_count, file.unchanged_count, file.removed_count)))
        for file in report.files
    ]
    print_table(("file", "new", "changed", "unchanged", "removed"), rows)


def _cells(bundle: ListedBundle) -> tuple[str, ...]:
    price = f"{format_money(bundle.unit_price_minor, bundle.currency)} {bundle.currency}"
    enabled = "yes" if bundle.enabled else "no"
    return (bundle.id, bundle.slug, bundle.name, price, enabled, format_tonnes(bundle.free_grams))

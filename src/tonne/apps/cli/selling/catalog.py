"""tonne catalogue and tonne picture"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, cast

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import MoneyColumn, Output, TonnesColumn, ValueColumn, columns, output_options, print_table
from tonne.apps.cli.parameters import FILE, MODE, EnumChoice, read_file, reported_errors
from tonne.apps.cli.table import printable
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.bundle_store import ListedBundle, list_bundles, switch_bundle
from tonne.selling.catalogue.errors import PictureInvalid
from tonne.selling.catalogue.imports.import_catalogue import CatalogueError
from tonne.selling.catalogue.imports.plan import FileKind, Files
from tonne.selling.catalogue.pictures.import_pictures import NamedPicture, import_pictures
from tonne.selling.catalogue.pictures.model import MAX_FILE_BYTES, Picture
from tonne.selling.catalogue.pictures.pictures import PictureKind
from tonne.selling.catalogue.pictures.store import PictureSubject, list_subjects
from tonne.supply.stock.lots.import_lots import as_lots_file, import_files
from tonne.supply.stock.lots.public_exports import FIELDS, Columns, ExportDates, ExportRequest
from tonne.supply.stock.vintages import sum_by_bundle

# Corrections printed after an import.
SHOWN = 100
_NAMES = f"the names are {', '.join(FileKind)}"
_mode_option = click.option("--mode", type=MODE, required=True, help="Catalogue to use: live and test have one each.")


class _StockedBundle(NamedTuple):
    bundle: ListedBundle
    free_grams: int


COLUMNS: tuple[ValueColumn[_StockedBundle], ...] = (
    *columns("bundle.id", "bundle.slug"),
    MoneyColumn("unit_price", lambda b: b.bundle.unit_price_minor, lambda b: b.bundle.currency, head="price"),
    ValueColumn("enabled", lambda b: b.bundle.enabled),
    TonnesColumn("free_quantity", lambda b: b.free_grams, head="free tonnes"),
    ValueColumn("name", lambda b: b.bundle.name, shrinks=True),
)


@click.group()
def catalogue() -> None:
    """Manage projects, bundles, prices and supply."""


@catalogue.command("import")
@_mode_option
@click.option("--currency", metavar="CODE", help="Currency of the prices, such as EUR. Required for the first import.")
@click.option(
    "--allow-large-change", is_flag=True, help="Accept exchange rates that differ much from the previous ones."
)
@click.argument(
    "sources", metavar="FOLDER_OR_FILES...", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True
)
def import_(mode: Mode, currency: str | None, *, allow_large_change: bool, sources: tuple[Path, ...]) -> None:
    """Import CSV files into a catalogue: all or nothing.

    A file is recognised by its name: projects.csv, bundles.csv, bundle_projects.csv, exchange_rates.csv, lots.csv,
    defaults.csv. Name any of them, or a folder that contains them. Rows that already exist are updated; importing the
    same files again changes nothing.

    If a file has errors, all of them are listed, nothing is imported, and the exit code is 1. An exchange rate that
    differs from the previous one by more than TONNE_RATE_CHANGE_FACTOR counts as an error, unless --allow-large-change
    is given.
    """
    _import(mode, _collect(sources), currency, allow_large_change=allow_large_change)


@catalogue.command("import-lots")
@_mode_option
@click.option("--retirement-url", metavar="URL", help="Of an export: the page that shows its retirements as yours.")
@click.option("--held", is_flag=True, help="Of an export: you hold all units in it that are not retired.")
@click.option(
    "--dates", type=EnumChoice(ExportDates), default=ExportDates.ISO.value, help="Of an export: how it writes dates."
)
@click.option("--exported-on", type=click.DateTime(["%Y-%m-%d"]), help="Of an export: its day; today if not given.")
@click.option("--registry", default="", help="Of another file: the registry of its units.")
@click.option("--column", "chosen", multiple=True, metavar="NAME=COLUMN", help=f"Of another file: {', '.join(FIELDS)}.")
@FILE
def import_lots(
    mode: Mode,
    *,
    retirement_url: str | None,
    held: bool,
    dates: ExportDates,
    exported_on: datetime | None,
    registry: str,
    chosen: tuple[str, ...],
    file: Path,
) -> None:
    """Import lots from one CSV FILE with any name.

    The columns are those of lots.csv, and the projects must already be in the catalogue.

    Public exports of Verra, Gold Standard, ACR and CAR are recognised by their columns. They list what everybody has
    retired: leave only your lines in the file. What is not retired is imported only with --held. Of any other file, say
    with --registry and --column which of its columns are serial, project, vintage, quantity and retired_on.
    """
    request = ExportRequest(
        exported_on=(exported_on or ACTOR.now().at).date(),
        retirement_url=retirement_url,
        holds_issued=held,
        dates=dates,
        registry=registry,
        columns=_columns(chosen),
    )
    with reported_errors():
        lots, notes = run_in_transaction(as_lots_file, mode, read_file(file), request)
    for note in notes:
        click.echo(note)
    _import(mode, {FileKind.LOTS: lots}, None)


def _columns(chosen: Sequence[str]) -> Columns | None:
    pairs = dict(each.partition("=")[::2] for each in chosen)
    if not pairs:
        return None
    if not set(FIELDS) - {"retired_on"} <= pairs.keys() <= set(FIELDS):
        names = ", ".join(FIELDS)
        raise click.BadParameter(f"name {names} each once; only retired_on may be missing", param_hint="--column")
    return Columns(**pairs)


@catalogue.command("list")
@_mode_option
@output_options
def list_all(mode: Mode, output: Output) -> None:
    """List the bundles of a catalogue, including those not on sale."""
    bundles = run_in_transaction(_list_stocked, mode)
    empty = f"The {mode} catalogue has no bundles yet: import some with `tonne catalogue import --mode {mode}`."
    output.print_rows(bundles, COLUMNS, empty=empty)


async def _list_stocked(tx: Connection, mode: Mode) -> list[_StockedBundle]:
    free = await sum_by_bundle(tx, mode)
    return [_StockedBundle(bundle, free.get(bundle.id, 0)) for bundle in await list_bundles(tx, mode)]


@catalogue.command()
@click.argument("bundle_id")
def enable(bundle_id: str) -> None:
    """Put a bundle on sale."""
    bundle = run_in_transaction(switch_bundle, bundle_id, enabled=True, by=ACTOR.now())
    click.echo(f"{bundle.slug} ({bundle.mode}) is {'already' if bundle.enabled else 'now'} on sale.")


@catalogue.command()
@click.argument("bundle_id")
def disable(bundle_id: str) -> None:
    """Take a bundle off sale. Existing orders do not change."""
    bundle = run_in_transaction(switch_bundle, bundle_id, enabled=False, by=ACTOR.now())
    click.echo(f"{bundle.slug} ({bundle.mode}) is {'now' if bundle.enabled else 'already'} off sale.")
    if bundle.in_default_selection:
        click.echo(
            "It is part of the catalogue's default selection, so orders without a bundle selection now wait for a "
            "price: import a defaults.csv without it.",
            err=True,
        )


def _import(mode: Mode, files: Files, currency: str | None, *, allow_large_change: bool = False) -> None:
    factor = Decimal(str(settings_from_environment().rate_change_factor))
    try:
        with reported_errors():
            report = run_in_transaction(
                import_files,
                mode,
                files,
                by=ACTOR.now(),
                currency=currency,
                max_rate_change=None if allow_large_change else factor,
            )
    except CatalogueError as error:
        raise click.ClickException(f"{error} {error.command}") from error
    catalogue = f"the {mode} catalogue ({report.currency})"
    outcome = f"Imported: {catalogue} is now at" if report.changed else f"No changes: {catalogue} stays at"
    click.echo(f"{outcome} version {report.version}.")
    click.echo()
    rows = [
        (each.file, *map(str, (len(each.new), len(each.changed), each.unchanged_count, len(each.removed))))
        for each in report.files
    ]
    print_table(("file", "new", "changed", "unchanged", "removed"), rows)
    if report.details:
        click.echo()
        for detail in report.details[:SHOWN]:
            click.echo(printable(detail))
        if len(report.details) > SHOWN:
            click.echo(f"... and {len(report.details) - SHOWN:,} more.")


def _collect(sources: Sequence[Path]) -> Files:
    """The files and those in the folders. Other names are refused: they may be misspelt."""
    files: dict[FileKind, SheetFile] = {}
    for source in sources:
        paths = sorted(source.glob("*.csv")) if source.is_dir() else [source]
        if not paths:
            raise click.ClickException(f"The folder {source} contains no CSV file: {_NAMES}.")
        for path in paths:
            if path.name not in set(FileKind):
                raise click.ClickException(f"{path} is not a file of a catalogue: {_NAMES}.")
            kind = FileKind(path.name)
            if kind in files:
                raise click.ClickException(f"{kind} was given twice: import one after the other.")
            files[kind] = read_file(path)
    return files


FOLDERS: dict[str, PictureKind] = {"bundles": "bundle", "projects": "project"}
ENDINGS = (".jpg", ".jpeg", ".png", ".webp")

_bundle_option = click.option("--bundle", metavar="SLUG_OR_ID", help="The bundle that the picture shows.")
_project_option = click.option("--project", metavar="SLUG_OR_ID", help="The project that the picture shows.")

PICTURE_COLUMNS: tuple[ValueColumn[PictureSubject], ...] = (
    *columns("kind", "slug"),
    ValueColumn("picture", lambda s: s.picture or "drawn"),
    ValueColumn("name", lambda s: s.name, shrinks=True),
)


@click.group()
def picture() -> None:
    """Manage the pictures of projects and bundles."""


@picture.command("import")
@_mode_option
@_bundle_option
@_project_option
@click.argument("source", metavar="FOLDER_OR_FILE", type=click.Path(exists=True, path_type=Path))
def import_picture_files(mode: Mode, bundle: str | None, project: str | None, source: Path) -> None:
    """Import pictures from files: JPEG, PNG or WebP.

    A folder has subfolders `bundles` and `projects`, with files named by the slug: bundles/forest-mix.jpg. For one
    file, name its bundle or project by an option.

    The pixels are cut to 16:9 and stored anew in two sizes, without the metadata of the camera. If a file has an error,
    nothing is imported, and the exit code is 1.
    """
    files = _in_folder(source) if source.is_dir() else [(*_subject(bundle, project), source)]
    if source.is_dir() and (bundle or project):
        raise click.UsageError("--bundle and --project are for one file: a folder names them by its files.")
    named, faults = list[NamedPicture](), list[str]()
    for kind, name, path in files:
        try:
            named.append(NamedPicture(kind, name, _encode(path)))
        except PictureInvalid as error:
            faults.append(f"{path}: {error}")
    if faults:
        for fault in faults:
            click.echo(fault, err=True)
        raise click.ClickException(
            f"Nothing was imported: {'1 error' if len(faults) == 1 else f'{len(faults):,} errors'}."
        )
    _print(run_in_transaction(import_pictures, mode, named, by=ACTOR.now()), "imported")


@picture.command()
@_mode_option
@_bundle_option
@_project_option
def remove(mode: Mode, bundle: str | None, project: str | None) -> None:
    """Remove a picture: pages show a drawing instead.

    Its files are deleted, unless another bundle or project has the same picture.
    """
    kind, name = _subject(bundle, project)
    named = [NamedPicture(kind, name, None)]
    _print(run_in_transaction(import_pictures, mode, named, by=ACTOR.now()), "removed")


@picture.command("list")
@_mode_option
@output_options
def list_imported(mode: Mode, output: Output) -> None:
    """List bundles and projects with their pictures."""
    subjects = run_in_transaction(list_subjects, mode)
    output.print_rows(subjects, PICTURE_COLUMNS, empty=f"The {mode} catalogue has no bundles and no projects yet.")


def _subject(bundle: str | None, project: str | None) -> tuple[PictureKind, str]:
    if (bundle is None) == (project is None):
        raise click.UsageError("Give either --bundle or --project.")
    return ("project", cast("str", project)) if bundle is None else ("bundle", bundle)


def _in_folder(folder: Path) -> Iterator[tuple[PictureKind, str, Path]]:
    paths = [(kind, path) for name, kind in FOLDERS.items() for path in sorted((folder / name).glob("[!.]*"))]
    if not paths:
        raise click.ClickException(f"{folder} has no files in a subfolder `bundles` or `projects`.")
    for kind, path in paths:
        if path.suffix.lower() not in ENDINGS:
            raise click.ClickException(f"{path} is no picture: the names end with {', '.join(ENDINGS)}.")
        yield kind, path.stem, path


def _encode(path: Path) -> Picture:
    from tonne.selling.catalogue.pictures.encode_picture import encode_picture  # noqa: PLC0415 - it imports PIL

    try:
        with path.open("rb") as stream:
            # One byte above the limit is enough to see that the file is too large.
            return encode_picture(stream.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise click.ClickException(f"Cannot read {path}: {error.strerror}.") from error


def _print(outcome: Sequence[tuple[PictureSubject, bool]], done: str) -> None:
    for subject, changed in outcome:
        click.echo(f"{subject.kind} {subject.slug}: {done if changed else 'no change'}.")

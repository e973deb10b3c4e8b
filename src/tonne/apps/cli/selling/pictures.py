"""tonne picture"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.catalogue.errors import PictureInvalid
from tonne.selling.catalogue.pictures.import_pictures import NamedPicture, import_pictures
from tonne.selling.catalogue.pictures.model import MAX_FILE_BYTES, Picture
from tonne.selling.catalogue.pictures.pictures import PictureKind
from tonne.selling.catalogue.pictures.store import PictureSubject, list_subjects

FOLDERS: dict[str, PictureKind] = {"bundles": "bundle", "projects": "project"}
ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
_mode_option = click.option("--mode", type=MODE, required=True, help="Catalogue to use: live and test have one each.")
_bundle_option = click.option("--bundle", metavar="SLUG_OR_ID", help="The bundle that the picture shows.")
_project_option = click.option("--project", metavar="SLUG_OR_ID", help="The project that the picture shows.")

COLUMNS: tuple[ValueColumn[PictureSubject], ...] = (
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
def import_(mode: Mode, bundle: str | None, project: str | None, source: Path) -> None:
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
    _print(run_in_transaction(import_pictures, mode, named, actor=ACTOR, now=utc_now()), "imported")


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
    _print(run_in_transaction(import_pictures, mode, named, actor=ACTOR, now=utc_now()), "removed")


@picture.command("list")
@_mode_option
@output_options
def list_all(mode: Mode, output: Output) -> None:
    """List bundles and projects with their pictures."""
    subjects = run_in_transaction(list_subjects, mode)
    output.print_rows(subjects, COLUMNS, empty=f"The {mode} catalogue has no bundles and no projects yet.")


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

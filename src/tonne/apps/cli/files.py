"""Files that commands read and write: the same for every command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import MAX_BYTES, SheetFile

FILE = click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))


OUTPUT = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write."
)


def read_file(path: Path) -> SheetFile:
    try:
        with path.open("rb") as stream:
            # One byte above the limit is enough to see that the file is too large.
            return SheetFile(path.name, stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise click.ClickException(f"Cannot read {path}: {error.strerror}.") from error


@contextmanager
def reported_errors() -> Iterator[None]:
    """Print every error of an invalid file, and exit with code 1."""
    try:
        yield
    except SheetInvalid as error:
        for each in error.errors:
            click.echo(str(each), err=True)
        count = "1 error" if len(error.errors) == 1 else f"{len(error.errors):,} errors"
        raise click.ClickException(f"Nothing was imported: {count}.") from error


def write_file(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def creating(path: Path) -> Iterator[None]:
    """Explain why the file could not be created: none is overwritten."""
    try:
        yield
    except FileExistsError as error:
        raise click.ClickException(f"{path} already exists: choose another name, or move the file.") from error
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror}.") from error

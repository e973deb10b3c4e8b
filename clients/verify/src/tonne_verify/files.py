"""Files. Those to verify are single ones, those in a folder, and those in a ZIP file, such as an audit pack."""

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tonne_verify.errors import NotProven
from tonne_verify.pack_tables import PACK_FILE
from tonne_verify.pdf import MAX_PDF_SIZE

# Other files of a folder or a pack, such as tables, are no certificates.
SUFFIXES = {".pdf", ".json"}
MAX_FILES = 100_000

Read = Callable[[], bytes]


def list_files(path: Path) -> Iterator[tuple[str, Read]]:
    """The names of the files at a path, and how to read each. Reading raises NotProven."""
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if _may_be_certificate(each) and each.is_file())
        yield from _listed(path, [(str(each), partial(read_bytes, each)) for each in found])
    elif zipfile.is_zipfile(path) and path.suffix.lower() not in SUFFIXES:
        yield from _listed(path, _members(path))
    else:
        yield str(path), partial(read_bytes, path)


def _listed(path: Path, found: list[tuple[str, Read]]) -> list[tuple[str, Read]]:
    if not 1 <= len(found) <= MAX_FILES:
        return [(str(path), partial(_refuse, f"{path} has no PDF and no JSON, or more than {MAX_FILES}."))]
    return found


def _may_be_certificate(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.name != PACK_FILE


def _members(path: Path) -> list[tuple[str, Read]]:
    try:
        names = [each for each in list_names(path) if _may_be_certificate(Path(each))]
    except NotProven as error:
        return [(str(path), partial(_refuse, str(error)))]
    return [(f"{path}/{name}", partial(read_member, path, name)) for name in names]


def list_names(path: Path) -> list[str]:
    """The files in a ZIP file. Raises NotProven."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [each.filename for each in archive.infolist() if not each.is_dir()]
    except (zipfile.BadZipFile, OSError, UnicodeDecodeError):
        raise NotProven(f"{path} is a damaged ZIP file.") from None
    if len(set(names)) != len(names):
        raise NotProven(f"{path} has two files with one name.")
    return sorted(names)


def read_member(path: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as file:
            data = file.read(MAX_PDF_SIZE + 1)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, zlib.error, KeyError) as error:
        raise NotProven(f"{name} in {path} cannot be read: {error}.") from None
    return _bounded(data, name)


def read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PDF_SIZE + 1)
    except OSError as error:
        raise NotProven(f"{path} cannot be read: {error.strerror}.") from None
    return _bounded(data, str(path))


def write_text(path: Path, text: str) -> None:
    """Replaces the file as a whole: a crash leaves the old content or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8", errors="surrogateescape"
        ) as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise NotProven(f"{path} cannot be written: {error.strerror}.") from None


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_PDF_SIZE:
        raise NotProven(f"{name} is larger than {MAX_PDF_SIZE // 1_000_000} MB.")
    return data


def _refuse(sentence: str) -> bytes:
    raise NotProven(sentence)

"""The demo catalogue: real public projects, with invented prices, rates and serial numbers."""

from functools import lru_cache
from importlib import resources

from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.static_files import StaticFile
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.imports.plan import FileKind


def demo_files(mode: Mode) -> dict[FileKind, SheetFile]:
    """The modes differ only in the serial blocks: a serial number can be in one lot only."""
    folder = resources.files("tonne.selling.catalogue") / "demo"
    contents = {kind: (folder / kind).read_bytes() for kind in FileKind}
    if mode is Mode.LIVE:
        contents[FileKind.LOTS] = contents[FileKind.LOTS].replace(b",TEST-", b",TEST-LIVE-")
    return {kind: SheetFile(kind, content) for kind, content in contents.items()}


@lru_cache(maxsize=100)
def demo_image(name: str) -> StaticFile | None:
    """The image of a demo bundle. The name is compared, never joined to a path."""
    folder = resources.files("tonne.selling.catalogue") / "demo" / "images"
    return next((StaticFile.of(name, entry.read_bytes()) for entry in folder.iterdir() if entry.name == name), None)

"""The demo catalogue: real public projects, with invented prices, rates and serial numbers."""

from functools import lru_cache
from importlib import resources

from tonne.base.scope import Mode
from tonne.catalog.csv_files import CsvFile, FileKind


def demo_files(mode: Mode) -> list[CsvFile]:
    """The same for both modes, but for the serial blocks: a serial number can be in one lot only."""
    folder = resources.files("tonne.catalog") / "demo"
    contents = {kind: (folder / kind).read_bytes() for kind in FileKind}
    lots = contents[FileKind.LOTS]
    contents[FileKind.LOTS] = lots.replace(b",TEST-", b",TEST-LIVE-") if mode is Mode.LIVE else lots
    return [CsvFile(kind, kind, content) for kind, content in contents.items()]


@lru_cache(maxsize=100)
def demo_image(name: str) -> bytes | None:
    """A picture of one of the demo's bundles. The name is looked up, never joined to a path."""
    folder = resources.files("tonne.catalog") / "demo" / "images"
    return next((entry.read_bytes() for entry in folder.iterdir() if entry.name == name), None)

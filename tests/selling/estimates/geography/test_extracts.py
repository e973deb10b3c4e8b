"""The extracts of large packages."""

import gzip
from pathlib import Path

import pytest

from tools.extracts import EXTRACTS


@pytest.mark.parametrize("path", EXTRACTS, ids=lambda path: path.name)
def test_an_extract_is_that_of_the_locked_package(path: Path) -> None:
    stored = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    assert stored == EXTRACTS[path](), "run `python -m tools.extracts`"

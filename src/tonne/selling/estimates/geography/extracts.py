"""Data files, extracted from other packages by `python -m tools.extracts`."""

import gzip
from importlib import resources


def read_extract(name: str) -> bytes:
    return gzip.decompress((resources.files("tonne.selling.estimates.geography") / "data" / f"{name}.gz").read_bytes())

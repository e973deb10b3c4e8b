"""Data files of other packages, read without importing the packages: that costs seconds and hundreds of megabytes."""

from importlib.util import find_spec
from pathlib import Path


def data_file(package: str, *path: str) -> bytes:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"The package {package} is not installed.")
    return Path(spec.submodule_search_locations[0], *path).read_bytes()

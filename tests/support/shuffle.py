"""`--shuffle=SEED` runs the files, and the tests of each file, in an order that the seed decides.

A test that needs what an earlier one has left behind fails then. Files stay together, because their tests share
fixtures that take long to set up. `tests/conftest.py` imports the hook and adds the option.
"""

import random
from pathlib import Path

import pytest


def shuffle(items: list[pytest.Item], seed: int) -> None:
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    order = random.Random(seed)  # noqa: S311 - every test process has to make the same choices
    files = list(by_file)
    order.shuffle(files)
    for file in files:
        order.shuffle(by_file[file])
    items[:] = [item for file in files for item in by_file[file]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--shuffle")
    if seed is not None:
        shuffle(items, seed)
        return
    # One process begins with the pages in the browser, which take long: at the end the others would wait for them.
    items.sort(key=lambda item: "browser" not in item.path.parts)

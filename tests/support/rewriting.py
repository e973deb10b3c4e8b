"""Rewriting the assertions of all test modules takes a third of the time until the first test runs.

Without this, every process of pytest-xdist would rewrite all of them at once. Each rewrites a part and stores it where
pytest looks for it. `tests/conftest.py` imports the hook.
"""

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).parents[1]


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    part = int(worker["workerid"].removeprefix("gw"))
    state = config.stash[rewrite.assertstate_key]
    for path in sorted(TESTS.rglob("test_*.py"))[part :: worker["workercount"]]:
        folder = rewrite.get_cache_dir(path)
        stored = folder / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, stored) is None:
            digest, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(state, code, digest, stored)

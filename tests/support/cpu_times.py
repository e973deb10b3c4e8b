"""The CPU time of each test: of this process, of the processes that it has started, and of PostgreSQL for it.

Wall times of tests say little: they depend on what else the machine does. The tests that took the most CPU time are
listed at the end of every run. `tests/conftest.py` imports the hooks.
"""

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

NAME = "cpu_ms"
# The CPU time of PostgreSQL's processes that was seen last, by process id, and of those that have ended.
_backends: dict[int, float] = {}
_ended = 0.0
_began, _spent_by = pytest.StashKey[float](), pytest.StashKey[float]()
_spent: Counter[str] = Counter()


def watch_backend(pid: int) -> None:
    """Count the CPU time of this process of PostgreSQL from now on."""
    _backends.setdefault(pid, 0.0)


def _cpu_s() -> float:
    """Where the system does not tell the CPU time of other processes, that of PostgreSQL is missing."""
    global _ended  # noqa: PLW0603 - the sum of a process
    for pid in list(_backends):
        try:
            _backends[pid] = int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[0]) / 1e9
        except (OSError, IndexError, ValueError):
            _ended += _backends.pop(pid)
    times = os.times()
    return _ended + sum(_backends.values()) + times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[_began] = _cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    if nextitem is None:
        # What all tests share ends with the last one, which did not cause it.
        item.stash[_spent_by] = _cpu_s() - item.stash[_began]
    result = yield
    if nextitem is not None:
        item.stash[_spent_by] = _cpu_s() - item.stash[_began]
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown" and _spent_by in item.stash:
        # A worker of pytest-xdist sends it to the process that prints.
        report.user_properties.append((NAME, int(item.stash[_spent_by] * 1000)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _spent[report.nodeid] += sum(int(str(value)) for name, value in report.user_properties if name == NAME)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _spent:
        return
    terminalreporter.section(f"CPU time: {_spent.total() / 1000:.0f} s in {len(_spent):,} tests")
    for folder, ms in _by_folder().most_common():
        terminalreporter.line(f"{ms / 1000:8.1f} s  {folder}")
    terminalreporter.line("The tests that took most of it:")
    for test, ms in _spent.most_common(terminalreporter.config.getoption("--slowest")):
        terminalreporter.line(f"{ms / 1000:8.2f} s  {test}")


def _by_folder() -> Counter[str]:
    """Sums by package of the tests, such as tests/money/cards."""
    sums: Counter[str] = Counter()
    for test, ms in _spent.items():
        sums["/".join(test.partition("::")[0].split("/")[:-1][:3])] += ms
    return sums

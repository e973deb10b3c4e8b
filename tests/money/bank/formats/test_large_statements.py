"""The cost of a statement grows with its size, not with the square of it: `bench statements` measures 100,000 lines."""

import math
import time
from collections.abc import Callable

import pytest

from tests.money.bank.formats.large_statements import LARGE, large_batch, large_csv, large_mt940
from tests.money.bank.formats.test_statements import read, refusal
from tonne.money.bank.formats.identity import StoredLine, Verdict, identify, reference_key
from tonne.money.bank.formats.statement import StatementFormat

FEW, MANY = 150, 1500
AT_MOST, TRIES = 2.0, 10


def assert_linear(work: Callable[[int], object], many: int = MANY) -> None:
    """A line among many costs less than twice as much as one among few. Each least time counts.

    On a busy machine, every time may be too long by half: it is measured again until it is short enough.
    """
    least = {FEW: math.inf, many: math.inf}
    for _ in range(TRIES):
        for count in (FEW, FEW, many):
            started = time.process_time()
            work(count)
            least[count] = min(least[count], (time.process_time() - started) / count)
        if least[many] < AT_MOST * least[FEW]:
            return
    raise AssertionError(least)


@pytest.mark.parametrize("name", LARGE)
def test_reading_is_linear(name: str) -> None:
    # Counting the line breaks before every line of MT940 took as long as reading them only in larger files.
    many = 5000 if name == "MT940" else 1000
    files = {count: LARGE[name](count) for count in (FEW, many)}
    assert len(read(files[FEW])) == FEW
    assert_linear(lambda count: read(files[count]), many)


@pytest.mark.parametrize("before", ["CSV", "MT940"])
@pytest.mark.parametrize("name", ["CSV", "camt.053"])
def test_deciding_which_lines_are_new_is_linear(before: str, name: str) -> None:
    """Even if all lines have the same day and amount, in the same format or in another."""
    formats = {"CSV": StatementFormat.CSV, "MT940": StatementFormat.MT940, "camt.053": StatementFormat.CAMT}
    stored, lines = {}, {}
    for count in (FEW, MANY):
        lines[count] = read(LARGE[name](count))
        stored[count] = [
            StoredLine(f"trf_{number}", formats[before], line, {key} if key else set())
            for number, line in enumerate(read(LARGE[before](count)))
            for key in [reference_key(formats[before], line)]
        ]
    assert_linear(lambda count: identify(lines[count], formats[name], stored[count]))
    assert {each.verdict for each in identify(lines[MANY], formats[name], stored[MANY])} == {Verdict.KNOWN}


def test_too_many_lines_are_refused_before_they_are_read() -> None:
    started = time.process_time()
    empty = large_batch(1).replace(b"</NtryDtls>", b"<TxDtls/>" * 400_000 + b"</NtryDtls>")
    assert "more than 100,000 lines" in refusal(empty)
    assert time.process_time() - started < 3


def test_a_line_without_end_is_refused() -> None:
    assert "too long" in refusal(large_mt940(1).replace(b"?20", b"?20?21x" * 10_000))
    assert len(read(large_csv(3))) == 3

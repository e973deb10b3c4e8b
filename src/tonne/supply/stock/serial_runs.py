"""Runs of serial numbers, and how the work list writes them. No I/O."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

_NUMBERS = re.compile(r"([0-9]{1,15})(?:\s*(?:to|[-\u2010-\u2015\u2212])\s*([0-9]{1,15}))?")
# A cell of a spreadsheet holds 32,767 characters.
MAX_RUNS = 500


class SerialRun(Struct, frozen=True):
    """Consecutive units of a namespace, both ends included."""

    namespace: str
    first: int
    last: int

    @property
    def units(self) -> int:
        return self.last - self.first + 1

    def contains(self, other: "SerialRun") -> bool:
        return self.namespace == other.namespace and self.first <= other.first and other.last <= self.last

    def common(self, other: "SerialRun") -> "SerialRun | None":
        first, last = max(self.first, other.first), min(self.last, other.last)
        return SerialRun(self.namespace, first, last) if self.namespace == other.namespace and first <= last else None

    def without(self, part: "SerialRun | None") -> "list[SerialRun]":
        """What remains before and after a part of this run."""
        if part is None:
            return [self]
        ends = ((self.first, part.first - 1), (part.last + 1, self.last))
        return [SerialRun(self.namespace, first, last) for first, last in ends if first <= last]


def cut_run(run: SerialRun, after: Iterable[int]) -> list[SerialRun]:
    """In parts that end with these numbers."""
    ends = sorted(end for end in after if run.first <= end < run.last)
    bounds = zip([run.first, *(end + 1 for end in ends)], [*ends, run.last], strict=True)
    return [SerialRun(run.namespace, first, last) for first, last in bounds]


Numbers = tuple[int, int]


def join_runs(numbers: Iterable[Numbers]) -> list[Numbers]:
    """Runs that touch become one."""
    joined: list[Numbers] = []
    for first, last in sorted(numbers):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def format_runs(numbers: Sequence[Numbers]) -> str:
    """`101 to 300; 351`. A hyphen would be a date in some spreadsheets."""
    return "; ".join(str(first) if first == last else f"{first} to {last}" for first, last in numbers)


def parse_runs(text: str) -> list[Numbers] | None:
    """The runs of a cell such as `101 to 300; 351`; None if it is something else, or its runs overlap."""
    found: list[Numbers] = []
    for part in re.split(r"[;,]", text):
        numbers = _NUMBERS.fullmatch(part.strip())
        if numbers is None:
            return None
        first = int(numbers[1])
        found.append((first, int(numbers[2] or first)))
    ordered = sorted(found)
    is_valid = all(first <= last for first, last in ordered) and all(
        before[1] < after[0] for before, after in pairwise(ordered)
    )
    return ordered if is_valid and len(ordered) <= MAX_RUNS else None

"""One JSON line per result while the benchmarks run, and a table for people at the end."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What a ratio must reach, and what we would like it to be. With `at_most`, less is better."""

    reach: float
    aim: float | None = None
    at_most: bool = False

    def __str__(self) -> str:
        text = f"at {'most' if self.at_most else 'least'} {self.reach:.2f}"
        return text if self.aim is None else f"{text}, aim {self.aim:.2f}"

    def verdict(self, ratio: float) -> str:
        if (ratio > self.reach) if self.at_most else (ratio < self.reach):
            return "MISSED"
        if self.aim is None or ratio < self.aim:
            return "reached"
        return "aim reached"


@dataclass(frozen=True, slots=True)
class Result:
    """`limit` is in the same unit as `value`, and was measured in the same run unless it is a fixed bound.

    Without a goal the result is there for comparison only.
    """

    name: str
    value: float
    unit: str
    limit: float
    goal: Goal | None

    @property
    def ratio(self) -> float:
        return self.value / self.limit

    @property
    def verdict(self) -> str:
        return "for comparison" if self.goal is None else self.goal.verdict(self.ratio)


def print_line(result: Result) -> None:
    line = {
        "name": result.name,
        "value": round(result.value, 3),
        "unit": result.unit,
        "limit": round(result.limit, 3),
        "ratio": round(result.ratio, 3),
    }
    print(json.dumps(line), flush=True)


def print_table(results: list[Result]) -> None:
    rows = [("name", "value", "limit", "unit", "ratio", "goal", "verdict")] + [
        (
            result.name,
            f"{result.value:,.2f}",
            f"{result.limit:,.2f}",
            result.unit,
            f"{result.ratio:.2f}",
            str(result.goal or ""),
            result.verdict,
        )
        for result in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    numeric = {1, 2, 4}
    print()
    for row in rows:
        cells = [
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())

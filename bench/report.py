"""One JSON line per result while the benchmarks run, and a table at the end."""

import json
from dataclasses import dataclass


class NotMeasured(Exception):
    """The results of this run are invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The ratio that a result must reach, and the ratio that we aim at. With `at_most`, lower is better."""

    reach: float
    aim: float | None = None
    at_most: bool = False

    def __str__(self) -> str:
        text = f"at {'most' if self.at_most else 'least'} {self.reach:.2f}"
        return text if self.aim is None else f"{text}, aim {self.aim:.2f}"

    def verdict(self, ratio: float) -> str:
        if (ratio > self.reach) if self.at_most else (ratio < self.reach):
            return "MISSED"
        if self.aim is None or ((ratio > self.aim) if self.at_most else (ratio < self.aim)):
            return "reached"
        return "aim reached"


@dataclass(frozen=True, slots=True)
class Result:
    """`limit` has the unit of `value`, and was measured in the same run unless it is a fixed bound.

    A result without a goal is for comparison only.
    """

    name: str
    value: float
    unit: str
    limit: float
    goal: Goal | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.limit

    @property
    def verdict(self) -> str:
        return "for comparison" if self.goal is None else self.goal.verdict(self.ratio)

    def json_line(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "value": round(self.value, 3),
                "unit": self.unit,
                "limit": round(self.limit, 3),
                "ratio": round(self.ratio, 3),
            }
        )

    def table_row(self) -> tuple[str, ...]:
        numbers = (f"{self.value:,.2f}", f"{self.limit:,.2f}", self.unit, f"{self.ratio:.2f}")
        return (self.name, *numbers, str(self.goal or ""), self.verdict)


class Report:
    def __init__(self) -> None:
        self._results: list[Result] = []

    def add(self, *results: Result) -> None:
        for result in results:
            self._results.append(result)
            print(result.json_line(), flush=True)

    @property
    def missed(self) -> bool:
        return any(result.verdict == "MISSED" for result in self._results)

    def print_table(self) -> None:
        head = ("name", "value", "limit", "unit", "ratio", "goal", "verdict")
        rows = [head, *(result.table_row() for result in self._results)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        print()
        for row in rows:
            cells = [
                cell.rjust(width) if column in {1, 2, 4} else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            print("  ".join(cells).rstrip())

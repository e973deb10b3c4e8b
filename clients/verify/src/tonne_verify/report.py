"""What was checked about a file, in words."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, TypeVar

from tonne_verify.errors import NotFetched, NotProven

Result = TypeVar("Result")


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_CHECKED = "not checked"


class ExitCode(IntEnum):
    HOLDS = 0
    FAILS = 1
    UNREADABLE = 2


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class Results:
    """The last sentence of a report."""

    holds: str = "Everything that was checked holds."
    fails: str = "Do not rely on this document. Ask the seller for a new one, or verify it on the seller's website."
    incomplete: str = "A check that you asked for was not possible. Try again later."


@dataclass(slots=True)
class Report:
    """`facts` are the sentences that a person compares with what the document shows."""

    file: str
    checks: list[Check] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    # Why the file could not be read at all.
    unreadable: str | None = None
    # The user asked for a check that was impossible.
    incomplete: bool = False

    def add(self, name: str, verdict: Verdict, sentence: str) -> None:
        self.checks.append(Check(name, verdict, sentence))

    def attempt(self, name: str, check: Callable[[], Result], sentence: Callable[[Result], str]) -> Result | None:
        """Runs a check and adds its verdict. Returns None if it does not hold."""
        try:
            result = check()
        except NotFetched as error:
            self.add(name, Verdict.NOT_CHECKED, str(error))
            self.incomplete = True
            return None
        except NotProven as error:
            self.add(name, Verdict.FAILS, str(error))
            return None
        self.add(name, Verdict.HOLDS, sentence(result))
        return result

    @property
    def exit_code(self) -> ExitCode:
        if self.unreadable is not None:
            return ExitCode.UNREADABLE
        failed = any(each.verdict is Verdict.FAILS for each in self.checks)
        held = any(each.verdict is Verdict.HOLDS for each in self.checks)
        if failed:
            return ExitCode.FAILS
        return ExitCode.HOLDS if held and not self.incomplete else ExitCode.UNREADABLE

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "holds": self.exit_code is ExitCode.HOLDS,
            "error": self.unreadable,
            "facts": self.facts,
            "checks": [{"name": each.name, "verdict": each.verdict, "sentence": each.sentence} for each in self.checks],
        }

    def lines(self, results: Results | None = None) -> list[str]:
        if self.unreadable is not None:
            return [self.file, f"  cannot be checked: {self.unreadable}"]
        width = max((len(each.name) for each in self.checks), default=0)
        checks = [f"  {each.verdict:<13}  {each.name:<{width}}  {each.sentence}" for each in self.checks]
        return [
            self.file,
            *(f"  {fact}" for fact in self.facts),
            *checks,
            f"  Result: {self._result(results or Results())}",
        ]

    def _result(self, results: Results) -> str:
        if self.exit_code is ExitCode.UNREADABLE:
            return results.incomplete
        if self.exit_code is ExitCode.FAILS:
            return results.fails
        open_checks = [each.name for each in self.checks if each.verdict is Verdict.NOT_CHECKED]
        return results.holds + (f" Not checked: {', '.join(open_checks)}." if open_checks else "")

"""What was checked about a file, in words."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, TypeVar

from tonne_verify.errors import NotFetched, NotProven
from tonne_verify.evidence import ProvenEntry

Result = TypeVar("Result")


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_CHECKED = "not checked"
    # The policy demands it, and nothing contradicts it.
    NOT_PROVEN = "not proven"
    TEST = "test"


class ExitCode(IntEnum):
    PROVEN = 0
    FALSE = 1
    UNREADABLE = 2
    NOT_PROVEN = 3
    TEST = 4

    @classmethod
    def worst(cls, codes: Iterable["ExitCode"]) -> "ExitCode":
        """Of several files: whatever is false or unreadable is not hidden by others."""
        return min(codes, key=lambda code: (code is cls.PROVEN, code))


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class Results:
    """The last sentence of a report."""

    holds: str = "Proven, under {policy}."
    fails: str = "Do not rely on this document. Ask the seller for a new one, or verify it on the seller's website."
    incomplete: str = "A check that you asked for was not possible. Try again later."
    not_proven: str = "Not proven: {names}. Nothing was found to be false."
    test: str = "A test: no credits were retired. Otherwise everything that {policy} demands holds."


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
    # Whose demands were checked.
    policy: str = ""
    # Of the content of the file.
    sha256: str | None = None
    # What the log is proven to state, to compare it with other files.
    entries: list[ProvenEntry] = field(default_factory=list)

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
        verdicts = {each.verdict for each in self.checks}
        if Verdict.FAILS in verdicts:
            return ExitCode.FALSE
        if self.incomplete:
            return ExitCode.UNREADABLE
        if Verdict.NOT_PROVEN in verdicts or Verdict.HOLDS not in verdicts:
            return ExitCode.NOT_PROVEN
        return ExitCode.TEST if Verdict.TEST in verdicts else ExitCode.PROVEN

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "sha256": self.sha256,
            "holds": self.exit_code is ExitCode.PROVEN,
            "exit_code": self.exit_code,
            "policy": self.policy,
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
            f"  Result: {self.result(results or Results())}",
        ]

    def result(self, results: Results) -> str:
        match self.exit_code:
            case ExitCode.UNREADABLE:
                return results.incomplete
            case ExitCode.FALSE:
                return results.fails
            case ExitCode.NOT_PROVEN:
                names = self._names(Verdict.NOT_PROVEN) or self._names(Verdict.NOT_CHECKED) or "anything"
                return results.not_proven.format(names=names)
            case code:
                sentence = results.test if code is ExitCode.TEST else results.holds
                not_checked = self._names(Verdict.NOT_CHECKED)
                return sentence.format(policy=self.policy) + (f" Not checked: {not_checked}." if not_checked else "")

    def _names(self, verdict: Verdict) -> str:
        return ", ".join(dict.fromkeys(each.name for each in self.checks if each.verdict is verdict))


def printable(text: str) -> str:
    """Control characters from a file must not reach the terminal or a page."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)

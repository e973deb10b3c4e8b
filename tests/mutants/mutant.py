"""Small changes of the code, each of which breaks one sentence of the interface."""

import ast
import importlib
from functools import cached_property
from pathlib import Path

import msgspec

from tests.support.processes import ROOT
from tonne_conformance.checks import Check
from tonne_conformance.run import ALL_CHECKS

SOURCE = ROOT / "src" / "tonne"
SECTIONS = Path(__file__).parent / "sections"
CHECKS = {check.id: check for check in ALL_CHECKS}


class DoesNotApply(Exception):
    """The old text is not in the file exactly once, or the new text is no Python."""


class Mutant(msgspec.Struct, frozen=True, dict=True):
    """`check` is a check that quotes the broken sentence. `file` is below src/tonne.

    The mutant is killed if this check fails, or another one that quotes the same sentence.
    """

    name: str
    file: str
    old: str
    new: str
    check: str
    # Its change is the very thing that an order needs to complete: allowed for few.
    breaks_orders: bool = False

    @property
    def sentence(self) -> str:
        return CHECKS[self.check].sentence

    @cached_property
    def own_checks(self) -> list[Check]:
        """All that quote the sentence, the named one first."""
        named = CHECKS[self.check]
        return sorted(checks_of(named.sentence), key=lambda check: check is not named)

    def applied(self) -> str:
        """The changed text of the file. Raises DoesNotApply."""
        text = (SOURCE / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise DoesNotApply(f"{self.name}: {self.file} has its old text {text.count(self.old)} times, not once.")
        changed = text.replace(self.old, self.new)
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise DoesNotApply(f"{self.name}: its new text is no Python: {error}") from error
        return changed


def checks_of(sentence: str) -> list[Check]:
    return [check for check in ALL_CHECKS if check.sentence == sentence]


def all_mutants() -> list[Mutant]:
    """Of all sections, in the order of their files."""
    found: list[Mutant] = []
    for path in sorted(SECTIONS.glob("*.py")):
        if path.stem != "__init__":
            found += importlib.import_module(f"tests.mutants.sections.{path.stem}").MUTANTS
    return found


def sentences_without(mutants: list[Mutant]) -> list[tuple[str, str]]:
    """The sections and sentences that checks quote and no mutant breaks."""
    broken = {mutant.sentence for mutant in mutants}
    quoted = {(check.section, check.sentence): None for check in ALL_CHECKS}
    return [(section, sentence) for section, sentence in quoted if sentence not in broken]

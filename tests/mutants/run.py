"""Tries mutants and says which of them the conformance suite kills."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

import msgspec

from tests.mutants.mutant import Mutant, all_mutants, sentences_without
from tests.mutants.workshop import Workshop
from tonne_conformance.run import Outcome, Verdict, run

MOST_SURVIVORS = 0.02


class Fate(StrEnum):
    KILLED = "killed"
    SURVIVED = "SURVIVED"
    # It does not start, or completes no order: that proves nothing about its sentence.
    BROKEN = "BROKEN"


class Trial(msgspec.Struct, frozen=True):
    mutant: Mutant
    fate: Fate
    seconds: float
    # The check that failed, or why the mutant proves nothing.
    reason: str = ""


class _Killed(Exception):
    """Ends a run at the first failure."""


def try_mutant(workshop: Workshop, mutant: Mutant) -> Trial:
    began = time.monotonic()

    def trial(fate: Fate, reason: str = "") -> Trial:
        return Trial(mutant, fate, time.monotonic() - began, reason)

    def stop_at_failure(outcome: Outcome) -> None:
        if outcome.verdict is Verdict.FAILED:
            raise _Killed(outcome.check.id)

    try:
        with workshop.mutated(mutant) as own:
            only = tuple(check.id for check in mutant.own_checks)
            try:
                run(dataclasses.replace(own.options, only=only), own.certificate, stop_at_failure)
            except _Killed as killed:
                if mutant.breaks_orders or workshop.completes_an_order():
                    return trial(Fate.KILLED, str(killed))
                return trial(Fate.BROKEN, "It completes no order.")
            return trial(Fate.SURVIVED)
    except RuntimeError as error:
        return trial(Fate.BROKEN, str(error)[-300:])


def try_all(workshop: Workshop, mutants: Iterable[Mutant], say: Callable[[str], None]) -> list[Trial]:
    trials = []
    for mutant in mutants:
        done = try_mutant(workshop, mutant)
        say(f"{done.fate:8} {done.seconds:5.1f} s  {mutant.name}" + (f" ({done.reason})" if done.reason else ""))
        trials.append(done)
    return trials


def report(trials: Sequence[Trial]) -> list[str]:
    """What is printed at the end."""
    alive = [each for each in trials if each.fate is not Fate.KILLED]
    lines = ["", "Sentences without a mutant:"]
    lines += [f"  {section}: {sentence}" for section, sentence in sentences_without(all_mutants())]
    lines += ["", f"{len(trials)} mutants, {len(alive)} not killed ({len(alive) / max(len(trials), 1):.1%})"]
    for each in alive:
        lines += [f"{each.fate}: {each.mutant.name} ({each.mutant.file})", f"  “{each.mutant.sentence}” {each.reason}"]
    return lines


def is_sharp(trials: Sequence[Trial]) -> bool:
    return sum(each.fate is not Fate.KILLED for each in trials) <= MOST_SURVIVORS * len(trials)

"""A check: a plain function that proves one sentence of the interface, and says so."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., None])


class Skip(Exception):
    """The check cannot be made here. The message says why."""


@dataclass(frozen=True)
class Check:
    """`needs` names the parameters of the function: `service`, `receiver`, `live`, `options`."""

    id: str
    section: str
    sentence: str
    run: Callable[..., None]
    needs: tuple[str, ...]
    # Takes longer than five seconds, because it tries a real limit of time.
    slow: bool = False
    # The name of the entry, if the function makes one check for each.
    row: str = ""

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]

    def is_named(self, name: str) -> bool:
        """By its section, its module, its function or its whole id."""
        return any(own == name or own.startswith(f"{name}.") for own in (self.section, self.id))


@dataclass(frozen=True)
class Unproven:
    """A sentence that nobody can prove with an API key and a receiver alone."""

    section: str
    sentence: str
    reason: str


CHECKS: list[Check] = []


def check(section: str, sentence: str, *, slow: bool = False) -> Callable[[Function], Function]:
    """Register a function as the proof of this sentence."""

    def register(function: Function) -> Function:
        _add(function, section, sentence, slow=slow)
        return function

    return register


def check_each(section: str, sentences: Mapping[str, str], *, slow: bool = False) -> Callable[[Function], Function]:
    """Register one check for each entry. The function gets the name of the entry as its first argument."""

    def register(function: Function) -> Function:
        for name, sentence in sentences.items():
            _add(function, section, sentence, row=name, slow=slow)
        return function

    return register


def _add(function: Callable[..., None], section: str, sentence: str, *, row: str | None = None, slow: bool) -> None:
    area = function.__module__.rpartition(".")[2]
    parameters = tuple(inspect.signature(function).parameters)
    if row is None:
        added = Check(f"{area}.{function.__name__}", section, sentence, function, parameters, slow)
    else:

        def run(**given: Any) -> None:
            function(row, **given)

        added = Check(f"{area}.{function.__name__}.{row}", section, sentence, run, parameters[1:], slow, row)
    if any(known.id == added.id for known in CHECKS):
        raise ValueError(f"There are two checks with the id {added.id}.")
    CHECKS.append(added)

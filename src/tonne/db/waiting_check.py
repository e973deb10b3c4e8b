"""Checks for what needs the operator, each as a query that returns the objects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tonne.base.settings import Settings


def at_this_time(_: Settings, now: datetime) -> Sequence[object]:
    """The parameters of a check that needs only the current time."""
    return (now,)


@dataclass(frozen=True, slots=True)
class WaitingCheck:
    """Work that waits too long, or a setting that is missing. The data is correct, so this is a warning.

    `sql` returns one row per object, with a column `where` that names it, oldest first; `parameters` returns the values
    of its parameters. `meaning` says what is wrong, `remedy` names the command or the setting that deals with it.
    """

    name: str
    meaning: str
    remedy: str
    sql: str
    parameters: Callable[[Settings, datetime], Sequence[object]] = at_this_time

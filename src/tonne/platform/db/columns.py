"""Parameters of statements that are made of values."""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any


def columns(rows: Sequence[object], names: str) -> list[list[Any]]:
    """Arrays for `unnest`: one for each name of a column list such as `account_id, id`."""
    return [[read(row) for row in rows] for read in _readers(names)]


def parameters_of(value: object, names: str) -> list[Any]:
    """The attributes of one value that have the names of a column list."""
    return [read(value) for read in _readers(names)]


@cache
def _readers(names: str) -> tuple[Callable[[object], Any], ...]:
    return tuple(attrgetter(name.strip()) for name in names.split(","))

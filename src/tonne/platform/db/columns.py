"""Arrays for statements that write many rows with `unnest`."""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any


def columns(rows: Sequence[object], names: str) -> list[list[Any]]:
    """One array for each name of a column list such as `account_id, id`: the attributes of that name."""
    return [[read(row) for row in rows] for read in _readers(names)]


@cache
def _readers(names: str) -> tuple[Callable[[object], Any], ...]:
    return tuple(map(attrgetter, names.split(", ")))

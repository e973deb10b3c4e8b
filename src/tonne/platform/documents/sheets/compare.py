"""The rows of a file compared with those already stored."""

from collections.abc import Iterable
from typing import Any, Generic

from msgspec import Struct

from tonne.platform.documents.sheets.read_sheet import R


class RowChanges(Struct, Generic[R], frozen=True):
    """What importing one file changes. `file` is empty when none was given."""

    file: str
    new: list[R]
    changed: list[R]
    removed: list[R]
    unchanged_count: int
    # The rows with which the file was compared, by key.
    stored: dict[tuple[Any, ...], R]

    @property
    def saved(self) -> list[R]:
        return self.new + self.changed

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.removed)


def compare(file: str, rows: list[R], stored: Iterable[R], *, replaces: bool = False) -> RowChanges[R]:
    """With `replaces`, stored rows that are missing from the file are removed; otherwise they stay."""
    before = {row.key: row for row in stored}
    new = [row for row in rows if row.key not in before]
    changed = [row for row in rows if row.key in before and row != before[row.key]]
    kept = {row.key for row in rows} if replaces else before.keys()
    removed = [row for key, row in before.items() if key not in kept]
    return RowChanges(file, new, changed, removed, len(rows) - len(new) - len(changed), before)

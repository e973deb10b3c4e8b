"""What must always be true, each as one query that returns no row when all is well."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """`sql` returns one row per breach, with a column `where` that names the place; `meaning` is for people."""

    name: str
    meaning: str
    sql: str

"""Conditions that must always hold, each as a query that returns the violations."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """`sql` returns one row per violation, with a column `where` that locates it. `meaning` explains it to a person."""

    name: str
    meaning: str
    sql: str

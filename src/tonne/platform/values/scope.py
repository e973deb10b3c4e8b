"""The tenant of a request. Queries on tenant data take a `Scope`."""

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    LIVE = "live"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Scope:
    """One account of one organisation in one mode."""

    organisation_id: str
    account_id: str
    mode: Mode

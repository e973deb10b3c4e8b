"""The tenant of a request. Queries on tenant data take a `Scope`."""

from enum import StrEnum

from msgspec import Struct


class Mode(StrEnum):
    LIVE = "live"
    TEST = "test"


class Scope(Struct, frozen=True):
    """One account of one organisation in one mode."""

    organisation_id: str
    account_id: str
    mode: Mode

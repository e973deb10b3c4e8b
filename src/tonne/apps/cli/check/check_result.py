"""The result of one check of `tonne check`."""

from enum import StrEnum

from msgspec import Struct


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class CheckResult(Struct, frozen=True):
    """`found` says what is the case, `remedy` what to do about it."""

    name: str
    status: CheckStatus
    found: str
    remedy: str = ""

    @classmethod
    def ok(cls, name: str, found: str) -> "CheckResult":
        return cls(name, CheckStatus.OK, found)

    @classmethod
    def warning(cls, name: str, found: str, remedy: str) -> "CheckResult":
        return cls(name, CheckStatus.WARNING, found, remedy)

    @classmethod
    def error(cls, name: str, found: str, remedy: str) -> "CheckResult":
        return cls(name, CheckStatus.ERROR, found, remedy)

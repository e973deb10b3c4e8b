"""Errors shown to callers: a kind, a stable code, a message. `platform/http/errors.py` maps kinds to HTTP statuses."""

from collections.abc import Sequence
from enum import Enum, auto

import msgspec


class Kind(Enum):
    INVALID = auto()
    UNAUTHENTICATED = auto()
    FORBIDDEN = auto()
    NOT_FOUND = auto()
    CONFLICT = auto()
    TOO_LARGE = auto()
    WRONG_MEDIA_TYPE = auto()
    METHOD_NOT_ALLOWED = auto()
    RATE_LIMITED = auto()
    TIMED_OUT = auto()
    UNAVAILABLE = auto()
    INTERNAL = auto()


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong. `field` is a path such as `bundle_selection[1].percentage`."""

    error_code: str
    message: str
    field: str | None = None
    # Only of `charge_too_small`.
    minimum: str | None = None
    quantity_at_minimum: str | None = None


class TonneError(Exception):
    """An error that is shown to the caller. Subclasses, in the `errors.py` of each package, set kind and code."""

    kind: Kind
    code: str
    message: str

    def __init_subclass__(cls, *, kind: Kind, code: str) -> None:
        cls.kind, cls.code = kind, code

    def __init__(self, message: str | None = None, *, field: str | None = None, **values: object) -> None:
        """With `values`, the message has named placeholders, such as `%(amount)s`, so that it can be translated."""
        self.template = message or self.message
        self.values = values
        text = self.template % values if values else self.template
        self.faults: Sequence[Fault] = (Fault(self.code, text, field),)
        self.headers: dict[str, str] = {}
        super().__init__(self.faults[0].message)


class Invalid(TonneError, kind=Kind.INVALID, code="validation_error"):
    """The body is not JSON, contains a key twice, is nested too deeply, or has a field that is missing, unknown or
    invalid; or a query parameter is given twice or invalid.

    Fix what `errors` lists.

    Several faults at once, each with its own code.
    """

    message = "The request is not valid."

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(faults[0].message)
        self.faults = faults


class TimeRangeInvalid(TonneError, kind=Kind.INVALID, code="time_range_invalid"):
    """A time or date of a range is not valid, the range ends before it begins, or a range of analytics is longer than
    1,100 days.

    Send times such as `2026-11-01T00:00:00Z`, or dates such as `2026-11-01`; the first must be the earlier one.
    """

    message = "The time range is not valid."

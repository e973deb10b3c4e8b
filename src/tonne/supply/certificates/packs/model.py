"""Audit packs: the certificates of a period in one file."""

from calendar import monthrange
from datetime import date, datetime
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.context import Mode
from tonne.platform.values.errors import Kind, TonneError

# A pack has at most so many certificates: a longer period is divided.
MOST_CERTIFICATES = 5_000


class PackStatus(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    FAILED = "failed"


class AuditPack(Struct, frozen=True):
    organisation_id: str
    mode: Mode
    id: str
    first_day: date
    last_day: date
    status: PackStatus
    done: int
    total: int | None
    bytes: int | None
    failures: int
    created_at: datetime
    expires_at: datetime

    @property
    def previous_days(self) -> tuple[date, date]:
        return previous_year((self.first_day, self.last_day))

    @property
    def file_name(self) -> str:
        test = "-test" if self.mode is Mode.TEST else ""
        return f"audit-pack{test}-{self.first_day}-{self.last_day}.zip"


def previous_year(days: tuple[date, date]) -> tuple[date, date]:
    """The same period a year before, with which reports compare it. The end of a month stays the end of a month."""
    first, last = days
    is_end = last.day == monthrange(last.year, last.month)[1]
    return _year_before(first, first.day), _year_before(last, 31 if is_end else last.day)


def _year_before(day: date, number: int) -> date:
    year = max(day.year - 1, 1)
    return date(year, day.month, min(number, monthrange(year, day.month)[1]))


class PackTooLarge(TonneError, kind=Kind.INVALID, code="audit_pack_too_large"):
    """The period of an audit pack, or the same one a year before, has more than 5,000 certificates.

    Choose a shorter period.
    """

    message = (
        f"This period, or the same one a year before, has more than {MOST_CERTIFICATES:,} certificates. Choose a "
        "shorter one."
    )


class PackEmpty(TonneError, kind=Kind.INVALID, code="audit_pack_empty"):
    """No certificate was issued in the period of an audit pack.

    Choose another period.
    """

    message = "No certificate was issued in this period. Choose another one."


class PackLimitReached(TonneError, kind=Kind.CONFLICT, code="audit_pack_limit_reached"):
    """Three audit packs of the organisation and mode are being made.

    Wait until one is ready.
    """

    message = "Three packs are being made already. Wait until one of them is ready."

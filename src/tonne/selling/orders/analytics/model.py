"""What analytics are about: a period, the accounts, and how the sums are grouped."""

from collections.abc import Iterator
from datetime import date, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.errors import TimeRangeInvalid

DEFAULT_DAYS = 30
MAX_DAYS = 1_100


class Interval(StrEnum):
    DAY = "day"
    MONTH = "month"


class DayRange(Struct, frozen=True):
    """Days in UTC, both included."""

    first: date
    last: date

    def days(self) -> Iterator[date]:
        for number in range((self.last - self.first).days + 1):
            yield self.first + timedelta(days=number)

    def starts(self, interval: Interval) -> list[date]:
        """The days, or the first days of the months."""
        if interval is Interval.DAY:
            return list(self.days())
        return list(dict.fromkeys(day.replace(day=1) for day in self.days()))


def period_of(first: str | None, last: str | None, today: date) -> DayRange:
    """The last 30 days unless the client says otherwise. Raises TimeRangeInvalid."""
    end = today if last is None else _day(last, "through")
    start = end - timedelta(days=DEFAULT_DAYS) if first is None else _day(first, "from")
    if start > end:
        raise TimeRangeInvalid(f"from ({start}) is after through ({end}). Swap them or correct one.", field="from")
    if (end - start).days > MAX_DAYS:
        raise TimeRangeInvalid(
            f"from and through are {(end - start).days:,} days apart. Choose at most {MAX_DAYS:,}.", field="from"
        )
    return DayRange(start, end)


def _day(text: str, name: str) -> date:
    try:
        day = date.fromisoformat(text) if len(text) == len("2026-01-31") else None
    except ValueError:
        day = None
    # Below it, a default start would be before the first day that a date can have.
    if day is None or day.year < 1900:
        raise TimeRangeInvalid(f"{name} is not a date. Write it as 2026-01-31.", field=name)
    return day


class Accounts(Struct, frozen=True):
    """Whose sums: one account, or all of an organisation's mode that the API key may use.

    `account_id` None: all. `allowed` None: the key is not restricted.
    """

    account_id: str | None
    allowed: list[str] | None = None


class Grouping(Struct, frozen=True):
    """What the rows of a result are about."""

    interval: Interval | None = None
    by_account: bool = False
    by_bundle: bool = False
    by_project: bool = False

"""How much may be ordered in a calendar month (UTC)."""

from datetime import UTC, date, datetime

from msgspec import Struct


class SpendingLimit(Struct, frozen=True):
    """`subject_id` is an account or an API key, `named` what it is called in messages."""

    subject_id: str
    named: str
    limit_minor: int
    currency: str


def month_of(moment: datetime) -> date:
    """The first day of its month."""
    return moment.astimezone(UTC).date().replace(day=1)


def next_month(month: date) -> datetime:
    """When the month has ended."""
    first = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    return datetime(first.year, first.month, first.day, tzinfo=UTC)

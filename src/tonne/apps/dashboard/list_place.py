"""Where a page of a list begins, in its address: the time or the day of the last item before it, and its id."""

from datetime import UTC, date, datetime


def read_moment(after: str | None, first: datetime) -> tuple[datetime, str]:
    """A position of the list that is not valid is its beginning."""
    moment, _, id_ = (after or "").partition("_")
    try:
        return datetime.fromisoformat(moment).astimezone(UTC), id_
    except ValueError:
        return first, ""


def read_day(after: str | None, first: date) -> tuple[date, str]:
    day, _, id_ = (after or "").partition("_")
    try:
        return date.fromisoformat(day), id_
    except ValueError:
        return first, ""


def place_of(moment: datetime, id_: str) -> str:
    return f"{moment.astimezone(UTC).isoformat().replace('+00:00', 'Z')}_{id_}"

"""Times are in UTC with millisecond precision."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

Clock = Callable[[], datetime]
# What `to_wire` makes, as a field of the API.
Timestamp = Annotated[str, Meta(examples=["2026-11-15T10:00:00.123Z"], extra_json_schema={"format": "date-time"})]


def utc_now() -> datetime:
    """The current time, truncated to milliseconds, the precision of the API and the database."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def to_wire(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-15T10:00:00.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Time: UTC, to the millisecond, everywhere."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time now, cut to the millisecond that the wire and the database both hold."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def to_wire(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-15T10:00:00.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

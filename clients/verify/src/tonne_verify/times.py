"""Times as they are written in statements and keys: RFC 3339, with an offset."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tonne_verify.errors import NotProven


@dataclass(frozen=True, slots=True)
class Signing:
    """When a signature says that it was made, since when its key exists, and when it was stamped.

    The certificate of the time-stamp authority is not checked.
    """

    signed_at: datetime
    key_since: datetime | None = None
    stamped_at: datetime | None = None


def parse_time(value: Any) -> datetime:
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise NotProven(f"{value!r} is not a time such as 2026-05-04T10:00:00Z.") from None
    if at.tzinfo is None:
        raise NotProven(f"The time {value} does not say in which time zone it is.")
    return at.astimezone(UTC)

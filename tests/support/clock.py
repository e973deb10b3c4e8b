"""The clock that tests move."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
MARCH = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        """In seconds, for code that measures durations."""
        return self.now.timestamp()

    def advance(self, **duration: float) -> None:
        """By the arguments of `timedelta`."""
        self.now += timedelta(**duration)

    def turn_to(self, month: int, day: int, hour: int = 9) -> datetime:
        self.now = datetime(2026, month, day, hour, tzinfo=UTC)
        return self.now

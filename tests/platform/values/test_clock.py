"""Timestamps: RFC 3339, UTC, milliseconds."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.values.context import to_wire, utc_now

_moments = st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - the zone is the next argument
_zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def test_a_moment_is_written_in_utc_with_three_digits_and_z() -> None:
    assert to_wire(datetime(2026, 11, 15, 10, 0, 0, 123_000, UTC)) == "2026-11-15T10:00:00.123Z"
    assert to_wire(datetime(2026, 11, 15, 10, 0, tzinfo=UTC)) == "2026-11-15T10:00:00.000Z"
    assert to_wire(datetime(2026, 11, 15, 1, 30, tzinfo=timezone(timedelta(hours=2)))) == "2026-11-14T23:30:00.000Z"


def test_fractions_of_a_millisecond_are_truncated() -> None:
    assert to_wire(datetime(2026, 12, 31, 23, 59, 59, 999_999, UTC)) == "2026-12-31T23:59:59.999Z"


def test_the_clock_returns_utc_in_whole_milliseconds() -> None:
    for _ in range(1000):
        now = utc_now()
        assert now.tzinfo is UTC
        assert now.microsecond % 1000 == 0
    assert abs(datetime.now(UTC) - utc_now()) < timedelta(seconds=5)


@given(_moments, _zones)
def test_the_wire_form_reads_back_as_the_same_moment_from_any_zone(moment: datetime, zone: timezone) -> None:
    cut = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    text = to_wire(moment.astimezone(zone))
    assert datetime.fromisoformat(text) == cut
    assert len(text) == len("2026-11-15T10:00:00.123Z")


@given(_moments, _moments)
def test_the_wire_form_sorts_as_time_does(one: datetime, other: datetime) -> None:
    if one <= other:
        assert to_wire(one) <= to_wire(other)

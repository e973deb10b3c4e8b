"""Batches that were read a moment ago: the webhooks of an organisation get the same events, and share the reading."""

from collections import OrderedDict

from tonne.base.scope import Mode
from tonne.webhooks.model import Batch

_MAX_BYTES = 32 * 1024 * 1024


class RecentEvents:
    """Holds full batches only. Events never change and positions have no gaps, so what was read once stays true."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._batches: OrderedDict[tuple[str, Mode, int, int], Batch] = OrderedDict()

    def find(self, organisation_id: str, mode: Mode, after: int, limit: int) -> Batch | None:
        place = (organisation_id, mode, after, limit)
        batch = self._batches.get(place)
        if batch is not None:
            self._batches.move_to_end(place)
        return batch

    def keep(self, organisation_id: str, mode: Mode, limit: int, batch: Batch) -> None:
        """`batch` as it was read with `limit`; one that more events could still join is not kept."""
        place = (organisation_id, mode, batch.positions[0] - 1, limit)
        if len(batch.positions) < limit or place in self._batches:
            return
        self._batches[place] = batch
        self._size += batch.size
        while self._size > self._max_bytes:
            _, oldest = self._batches.popitem(last=False)
            self._size -= oldest.size

import asyncio
from collections.abc import Callable

from tonne.platform.http.limits.turns import in_turn
from tonne.platform.process.cost import give_place_back

MAX_CACHED = 200


class Drawings:
    """Renders images and PDFs one at a time and caches the latest. Concurrent requests for one render it once."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._lock = asyncio.Lock()

    async def draw(self, version: str, render: Callable[[], bytes]) -> bytes:
        """`version` names the content. `render` runs in a thread."""
        if version not in self._files:
            give_place_back()
            async with self._lock:
                # Another request may have rendered it while this one waited for the lock.
                if version not in self._files:
                    self._files[version] = await in_turn(render)
                    if len(self._files) > MAX_CACHED:
                        del self._files[next(iter(self._files))]
        return self._files[version]

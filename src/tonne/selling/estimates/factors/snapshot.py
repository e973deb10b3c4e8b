"""The emission factors cached in this process."""

import asyncio
import time
from collections.abc import Callable

from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.selling.estimates.factors import store
from tonne.selling.estimates.factors.import_rows import shipped_factors
from tonne.selling.estimates.factors.model import FactorSet


class Factors:
    """Those of the package and the imported ones. Looks for imports after `catalogue_refresh_s`."""

    def __init__(self, database: Database, settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._refresh_s = settings.catalogue_refresh_s
        self._monotonic = monotonic
        self._fresh_until = 0.0
        self._count = -1
        self._held: FactorSet | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> FactorSet:
        if self._held is None or self._fresh_until <= self._monotonic():
            async with self._lock:
                # Another task may have refreshed the copy while this one waited for the lock.
                if self._held is None or self._fresh_until <= self._monotonic():
                    self._held = await self._read(self._held)
                    self._fresh_until = self._monotonic() + self._refresh_s
        return self._held

    def forget(self) -> None:
        """Look for imports with the next call."""
        self._fresh_until = 0.0

    async def _read(self, held: FactorSet | None) -> FactorSet:
        async with self._database.snapshot() as connection:
            count = await store.count_versions(connection)
            if held is not None and count == self._count:
                return held
            imported = await store.load_latest(connection) if count else []
        self._count = count
        # In a thread: reading the file of the package takes 50 ms.
        return FactorSet((*await asyncio.to_thread(shipped_factors), *imported))

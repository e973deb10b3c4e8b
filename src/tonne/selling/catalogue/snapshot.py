"""The catalogue cached in this process."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, replace, utc_now
from tonne.selling.catalogue import store
from tonne.selling.catalogue.model import BundleProject, Catalogue, VintageSupply

# `stock` implements it: grams that are neither allocated nor held, by project.
LoadSupply = Callable[[Connection, Mode], Awaitable[dict[str, list[VintageSupply]]]]


class Catalogues:
    """Refreshes a copy after `catalogue_refresh_s`. The whole catalogue is read only if its version has changed."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        load_supply: LoadSupply,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._base_url = settings.base_url
        self._refresh_s = settings.catalogue_refresh_s
        self._rate_max_age = timedelta(days=settings.rate_max_age_days)
        self._load_supply = load_supply
        self._clock = clock
        self._monotonic = monotonic
        self._copies: dict[Mode, tuple[float, Catalogue]] = {}
        self._locks = {mode: asyncio.Lock() for mode in Mode}

    async def current(self, mode: Mode) -> Catalogue:
        known = self._fresh(mode)
        if known is None:
            async with self._locks[mode]:
                # Another task may have refreshed the copy while this one waited for the lock.
                known = self._fresh(mode) or await self._read(mode)
        return known

    def _fresh(self, mode: Mode) -> Catalogue | None:
        held = self._copies.get(mode)
        return held[1] if held is not None and held[0] > self._monotonic() else None

    async def _read(self, mode: Mode) -> Catalogue:
        held = self._copies.get(mode)
        async with self._database.snapshot() as connection:
            if held is not None and await store.find_version(connection, mode) == held[1].version:
                # Free supply changes with every order, and rates imported in advance take effect.
                catalogue = replace(
                    await self._with_supply(connection, held[1]),
                    rates=await store.load_rates(connection, mode, held[1].currency),
                )
            else:
                vintages = await self._load_supply(connection, mode)
                loaded = await store.load_catalogue(connection, mode, self._base_url, vintages)
                catalogue = loaded or empty_catalogue(mode)
        catalogue = replace(catalogue, rates_since=self._rates_since(mode))
        self._copies[mode] = (self._monotonic() + self._refresh_s, catalogue)
        return catalogue

    async def _with_supply(self, connection: Connection, catalogue: Catalogue) -> Catalogue:
        if catalogue.mode is Mode.TEST:
            return catalogue
        vintages = await self._load_supply(connection, catalogue.mode)
        free = store.supply_of(catalogue.mode, catalogue.projects, vintages)
        return replace(_with_free(catalogue, free), vintages=vintages)

    def _rates_since(self, mode: Mode) -> datetime | None:
        """Only in live mode: test orders must not depend on the operator's imports."""
        return self._clock() - self._rate_max_age if mode is Mode.LIVE else None


def _with_free(catalogue: Catalogue, free: dict[str, tuple[int, int]]) -> Catalogue:
    bundles = {
        bundle.id: replace(
            bundle,
            projects=tuple(
                BundleProject(share.project, share.weight, *free.get(share.project.id, (0, 0)))
                for share in bundle.projects
            ),
        )
        for bundle in catalogue.bundles.values()
    }
    return replace(catalogue, bundles=bundles)


def empty_catalogue(mode: Mode) -> Catalogue:
    """The catalogue before the first import. A stored catalogue has version 1 or above after its import."""
    return Catalogue(mode, "EUR", 0, None, {}, {}, {})

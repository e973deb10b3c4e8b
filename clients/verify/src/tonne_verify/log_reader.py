"""Reads a log over HTTP: checkpoint, tiles and entries."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tonne_verify.download import fetch
from tonne_verify.errors import NotFetched, NotProven
from tonne_verify.merkle import HASH_SIZE
from tonne_verify.tiles import TILE_WIDTH, TileId, entries_path, split_entries, tile_of, tile_path

MAX_CHECKPOINT_SIZE = 100_000
MAX_BUNDLE_SIZE = 1_000_000
PARALLEL = 8
# The first bundles and what is downloaded at a time: bounds the memory.
WINDOW = 64
RETRIED = {429, 500, 502, 503, 504}
PAUSES_S = (1.0, 3.0, 9.0)


class LogReader:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def checkpoint(self) -> str:
        try:
            return _fetch_patiently(f"{self._url}/checkpoint", MAX_CHECKPOINT_SIZE).decode()
        except UnicodeDecodeError:
            raise NotProven(f"{self._url}/checkpoint does not answer with text.") from None

    def tiles(self, wanted: Iterable[TileId]) -> dict[TileId, bytes]:
        wanted = sorted(wanted)
        with ThreadPoolExecutor(PARALLEL) as pool:
            return dict(zip(wanted, pool.map(self._tile, wanted), strict=True))

    def _tile(self, tile: TileId) -> bytes:
        full = TileId(tile.level, tile.index)
        content = self._fetch_part(tile_path(tile), tile_path(full), TILE_WIDTH * HASH_SIZE)
        return content[: tile.width * HASH_SIZE]

    def entries(self, start: int, size: int) -> Iterator[bytes]:
        """The entries from `start` to the end of a tree of this size, in order."""
        bundles = range(start // TILE_WIDTH, -(-size // TILE_WIDTH))
        with ThreadPoolExecutor(PARALLEL) as pool:
            for first in range(bundles.start, bundles.stop, WINDOW):
                window = bundles[first - bundles.start : first - bundles.start + WINDOW]
                for index, entries in zip(window, pool.map(lambda i: self._bundle(i, size), window), strict=True):
                    yield from entries[max(0, start - index * TILE_WIDTH) :]

    def _bundle(self, index: int, size: int) -> list[bytes]:
        width = tile_of(0, index, size).width
        content = self._fetch_part(entries_path(index, width), entries_path(index), MAX_BUNDLE_SIZE)
        entries = split_entries(content)[:width]
        if len(entries) != width:
            raise NotProven(f"{self._url}/{entries_path(index, width)} has {len(entries)} entries.")
        return entries

    def _fetch_part(self, partial: str, full: str, limit: int) -> bytes:
        """A log may remove a partial tile when the full one exists."""
        try:
            return _fetch_patiently(f"{self._url}/{partial}", limit)
        except NotFetched as error:
            if error.status != 404 or partial == full:
                raise
            return _fetch_patiently(f"{self._url}/{full}", limit)


def _fetch_patiently(url: str, limit: int) -> bytes:
    """Tries again if the server is overloaded."""
    for pause_s in PAUSES_S:
        try:
            return fetch(url, limit)
        except NotFetched as error:
            if error.status not in RETRIED:
                raise
        time.sleep(pause_s)
    return fetch(url, limit)

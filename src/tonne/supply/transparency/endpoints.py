"""The log as static files (c2sp.org/tlog-tiles), and a page about it for people."""

import re
from collections import OrderedDict
from typing import NamedTuple

from tonne.platform.db.database import Connection, Database
from tonne.platform.http.openapi.reference_page import AssetNotFound, redirect_to
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.values.context import Mode
from tonne.platform.web.render import Renderer
from tonne.supply.transparency.disclosed import parse_registries, read_page
from tonne.supply.transparency.log_store import find_latest, list_logs
from tonne.supply.transparency.served_store import find_bundle, find_note, find_tile
from tonne_verify.merkle import HASH_SIZE
from tonne_verify.tiles import TILE_HEIGHT, TILE_WIDTH, TileId, join_entries, parse_tile_path, split_entries

PREFIX = "/log/"
RETIREMENTS = "retirements.jsonl"
# The level that `parse_tile_path` gives to bundles of entries.
ENTRIES = -1
# Full tiles in the memory of the process, about 16 MB: most requests are for few of them.
CACHED_TILES = 2_000
BINARY = b"application/octet-stream"
# What is published never changes. Other sites may read it, such as monitors that run in a browser.
_PUBLIC = {"X-Robots-Tag": "noindex", "Access-Control-Allow-Origin": "*"}
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", **_PUBLIC}
_FOR_A_DAY = {"Cache-Control": "public, max-age=86400", **_PUBLIC}
_BRIEFLY = {"Cache-Control": "public, max-age=2", **_PUBLIC}
_PAGE = re.compile(r"0|[1-9][0-9]{0,12}", re.ASCII)
_PLACE = re.compile(r"(?P<test>test/)?(?:(?P<generation>[1-9][0-9]{0,5})/)?(?P<file>.*)", re.ASCII)


class LogPlace(NamedTuple):
    """A file of a log. `file` is empty for the page about it."""

    mode: Mode
    generation: int
    file: str


def parse_place(path: str) -> LogPlace:
    """`path` is what follows `/log/`: `checkpoint`, `test/2/tile/0/000`."""
    found = _PLACE.fullmatch(path)
    if found is None:
        raise AssetNotFound
    mode = Mode.TEST if found["test"] else Mode.LIVE
    return LogPlace(mode, int(found["generation"] or 1), found["file"])


class LogEndpoints:
    def __init__(self, database: Database, renderer: Renderer, discloses: str) -> None:
        self._database = database
        self._renderer = renderer
        self._registries = parse_registries(discloses)
        # By path, the least recently used first.
        self._full: OrderedDict[str, bytes] = OrderedDict()

    def routes(self) -> list[Route]:
        route = RouteMaker("Pages", Access.PUBLIC)
        return [
            route("GET /log", redirect_to(PREFIX)),
            route(f"GET {PREFIX}", self.show_page, None, show_error=self._renderer.error),
            route(f"GET {PREFIX}{{path:path}}", self.show_file, None, AssetNotFound),
        ]

    async def show_file(self, request: Request) -> Response:
        """A checkpoint, tile or bundle of entries of the transparency log."""
        path = request.path("path")
        cached = self._full.get(path)
        if cached is not None:
            self._full.move_to_end(path)
            return Response(cached, media_type=BINARY, headers={**_FOR_EVER})
        # Empty if it is not valid UTF-8.
        if not path:
            raise AssetNotFound
        place = parse_place(path)
        if place.file == "checkpoint":
            return await self._show_checkpoint(place)
        if place.file == RETIREMENTS:
            return await self._show_retirements(request, place)
        if not place.file:
            return await self.show_page(request)
        tile = parse_tile_path(place.file)
        if tile is None:
            raise AssetNotFound
        content = await self._database.run(_read, place, tile)
        if tile.width == TILE_WIDTH:
            self._keep(path, content)
        return Response(content, media_type=BINARY, headers={**_FOR_EVER})

    def _keep(self, path: str, content: bytes) -> None:
        self._full[path] = content
        if len(self._full) > CACHED_TILES:
            self._full.popitem(last=False)

    async def _show_checkpoint(self, place: LogPlace) -> Response:
        note = await self._database.run(find_note, place.mode, place.generation)
        if note is None:
            raise AssetNotFound
        return Response(note.encode(), media_type=b"text/plain; charset=utf-8", headers={**_BRIEFLY})

    async def _show_retirements(self, request: Request, place: LogPlace) -> Response:
        """A page of the retirements that the operator discloses. The page behind the last one is not found."""
        [page] = request.query("page")
        number = page or "0"
        if not self._registries or _PAGE.fullmatch(number) is None:
            raise AssetNotFound
        found = await self._database.run(read_page, place.mode, place.generation, int(number), self._registries)
        if found is None:
            raise AssetNotFound
        content, is_complete = found
        # The operator may disclose more later.
        return Response(content, media_type=b"application/jsonl", headers={**(_FOR_A_DAY if is_complete else _BRIEFLY)})

    async def show_page(self, request: Request) -> Response:
        """What the transparency log is, and its newest checkpoints."""
        async with self._database.connection() as connection:
            logs = [(log, await find_latest(connection, log.id)) for log in await list_logs(connection)]
        return self._renderer.page(request, "transparency_log.html", logs=logs)


async def _read(connection: Connection, place: LogPlace, tile: TileId) -> bytes:
    """The content of a tile of this width. Raises AssetNotFound if the newest checkpoint does not cover all of it."""
    is_bundle = tile.level == ENTRIES
    found = await (
        find_bundle(connection, place.mode, place.generation, tile.index)
        if is_bundle
        else find_tile(connection, place.mode, place.generation, tile)
    )
    height = 0 if is_bundle else tile.level * TILE_HEIGHT
    if found is None or (tile.index * TILE_WIDTH + tile.width) << height > found[0]:
        raise AssetNotFound
    if is_bundle:
        return join_entries(split_entries(found[1])[: tile.width])
    return found[1][: tile.width * HASH_SIZE]

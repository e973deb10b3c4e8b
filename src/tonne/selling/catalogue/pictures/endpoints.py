"""Serves the pictures of projects and bundles."""

import re

from tonne.platform.db.database import Database
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.http.static_files import FOR_EVER, StaticFile
from tonne.platform.web.caching import IMAGE_POLICY
from tonne.selling.catalogue.errors import ImageNotFound
from tonne.selling.catalogue.pictures.drawings import MOTIFS, VARIANTS, drawing
from tonne.selling.catalogue.pictures.model import PictureSize
from tonne.selling.catalogue.pictures.store import find_file

_DIGEST = re.compile(r"[0-9a-f]{32}")
_SIZES = {f"{size}.webp": size for size in PictureSize}
_DRAWINGS = {f"{motif}-{variant}.svg": (motif, variant) for motif in MOTIFS for variant in range(VARIANTS)}


class PictureEndpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_imported(self, request: Request) -> Response:
        """An imported picture."""
        digest, size = request.path("digest"), _SIZES.get(request.path("file"))
        if size is None or not _DIGEST.fullmatch(digest):
            raise ImageNotFound
        content = await self._database.run(find_file, digest, size)
        if content is None:
            raise ImageNotFound
        file = StaticFile(content, is_compressed=False, media_type=b"image/webp", digest=digest)
        # The URL of a picture changes with its content.
        return file.response(request, FOR_EVER, IMAGE_POLICY)

    async def read_drawing(self, request: Request) -> Response:
        """A drawn picture, for projects and bundles without an imported one."""
        drawn = _DRAWINGS.get(request.path("name"))
        if drawn is None:
            raise ImageNotFound
        return drawing(*drawn).response(request, FOR_EVER, IMAGE_POLICY)

    def routes(self) -> list[Route]:
        """Not in the OpenAPI document: pages and mails show these."""
        route = RouteMaker("Catalogue", Access.PUBLIC)
        return [
            route("GET /pictures/drawn/{name}", self.read_drawing, None, ImageNotFound),
            route("GET /pictures/{digest}/{file}", self.read_imported, None, ImageNotFound),
        ]

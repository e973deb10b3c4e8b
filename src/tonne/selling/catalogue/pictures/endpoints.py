"""Serves the pictures of projects and bundles."""

import re

from tonne.platform.db.database import Database
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.selling.catalogue.errors import ImageNotFound
from tonne.selling.catalogue.pictures.drawings import MOTIFS, VARIANTS, drawing
from tonne.selling.catalogue.pictures.model import PictureSize
from tonne.selling.catalogue.pictures.store import find_file

# The URL of a picture changes with its content.
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Security-Policy": "default-src 'none'"}
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
        return Response(content, media_type=b"image/webp", headers=dict(_KEPT))

    async def read_drawing(self, request: Request) -> Response:
        """A drawn picture, for projects and bundles without an imported one."""
        drawn = _DRAWINGS.get(request.path("name"))
        if drawn is None:
            raise ImageNotFound
        return Response(drawing(*drawn), media_type=b"image/svg+xml", headers=dict(_KEPT))

    def routes(self) -> list[Route]:
        """Not in the OpenAPI document: pages and mails show these."""
        route = RouteMaker("Catalogue", Access.PUBLIC)
        return [
            route("GET /pictures/drawn/{name}", self.read_drawing, None, ImageNotFound),
            route("GET /pictures/{digest}/{file}", self.read_imported, None, ImageNotFound),
        ]

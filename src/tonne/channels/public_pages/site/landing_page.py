"""The start page: what this service is, and where customers, engineers and organisations go."""

from msgspec import Struct

from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Mode
from tonne.platform.web.render import Renderer
from tonne.selling.catalogue.pictures.drawings import MIXED
from tonne.selling.catalogue.pictures.pictures import bundle_picture, drawing_url
from tonne.selling.catalogue.snapshot import Catalogues

BUNDLES_SHOWN = 6
_FIVE_MINUTES = {"Cache-Control": "public, max-age=300"}


class LandingPage(Struct, frozen=True):
    catalogues: Catalogues
    renderer: Renderer

    async def show(self, request: Request) -> Response:
        """The start page."""
        catalogue = await self.catalogues.current(Mode.LIVE)
        bundles = [bundle for bundle in catalogue.bundles.values() if bundle.enabled][:BUNDLES_SHOWN]
        return self.renderer.page(
            request,
            "landing.html",
            headers=_FIVE_MINUTES,
            scene=drawing_url(MIXED, "start"),
            bundles=[(bundle, bundle_picture(bundle)) for bundle in bundles],
        )

"""The images that other sites show in link previews of pages without an image of their own."""

import asyncio
from pathlib import Path

from tonne.platform.documents.pdf import render_png
from tonne.platform.http.openapi.reference_page import AssetNotFound
from tonne.platform.http.route import Request, Response
from tonne.platform.http.static_files import ONE_DAY, StaticFile
from tonne.platform.settings.settings import Settings
from tonne.platform.web.caching import IMAGE_POLICY

TEMPLATE = Path(__file__).parent / "templates" / "social.typ"
# In English: crawlers fetch the image for readers of all languages. By the name that `_social.html` passes.
TEXTS = {
    "site": ("Carbon credits, retired and proven", "Every tonne is retired in a public registry, with a certificate."),
    "verify": (
        "Is this certificate genuine?",
        "Check a certificate of retired carbon credits by its number or its PDF.",
    ),
    "certificate": ("Certificate of retirement", "Carbon credits retired in a public registry. Anyone can check it."),
    "offset": ("Offset your emissions", "Choose what to support, pay, and get a certificate."),
}


class SocialImages:
    """Each image is rendered once per process."""

    def __init__(self, settings: Settings) -> None:
        self._seller = settings.seller_name
        self._images: dict[str, StaticFile] = {}
        self._lock = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        """The image of a link preview."""
        kind = request.path("file").removesuffix(".png")
        if kind not in TEXTS or not request.path("file").endswith(".png"):
            raise AssetNotFound
        async with self._lock:
            if kind not in self._images:
                title, text = TEXTS[kind]
                record = {"title": title, "text": text, "seller": self._seller}
                image = await asyncio.to_thread(render_png, TEMPLATE, record)
                self._images[kind] = StaticFile.of("social.png", image)
        return self._images[kind].response(request, ONE_DAY, IMAGE_POLICY)

"""What other sites show of a Sustainability page: a badge (an image) and a widget (a small page for a frame)."""

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

from markupsafe import escape
from msgspec import Struct

from tonne.channels.public_pages.figures.drawings import Drawings
from tonne.channels.public_pages.figures.figures import Figures
from tonne.channels.public_pages.figures.read_figures import PageFigures, ReadFigures
from tonne.channels.public_pages.model import SustainabilityPage, page_path
from tonne.platform.documents.pdf import render_png, render_svg
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.platform.web import visitor
from tonne.platform.web.caching import IMAGE_POLICY
from tonne.platform.web.render import POLICY, Renderer
from tonne.platform.web.visitor import VisitorLanguage, visitor_language

PREVIEW = Path(__file__).parent / "templates" / "preview.typ"
# Emoji and other symbols begin here. The document fonts have no glyphs for them.
_FIRST_SYMBOL = 0x2190
_JOINERS = {0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400)}


def preview_record(page: SustainabilityPage, beneficiary: str, figures: Figures, seller: str) -> dict[str, Any]:
    """What the image shows, in English: crawlers fetch it for readers of all languages."""
    projects, countries = figures.projects_count, len(figures.countries)
    where = _count(projects, "project", "projects") if projects else "Nothing retired yet"
    if countries:
        where += f" in {_count(countries, 'country', 'countries')}"
    return {
        "title": without_symbols(page.title),
        "total": visitor.rounded(figures.total_grams, visitor.DEFAULT),
        "beneficiary": without_symbols(beneficiary),
        "seller": without_symbols(seller),
        "mode": page.scope.mode.value,
        "where": where,
    }


def preview_version(record: dict[str, Any]) -> str:
    """Changes with the content of the image, so that other sites fetch it again."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:12]


class Previews:
    def __init__(self, drawings: Drawings) -> None:
        self._drawings = drawings

    async def picture(self, record: dict[str, Any]) -> bytes:
        return await self._drawings.draw(preview_version(record), lambda: render_png(PREVIEW, record))


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def without_symbols(text: str) -> str:
    kept = "".join(
        letter
        for letter in text
        if ord(letter) not in _JOINERS and (ord(letter) < _FIRST_SYMBOL or unicodedata.category(letter) != "So")
    )
    return " ".join(kept.split())


TEMPLATE = Path(__file__).parent / "templates" / "badge.typ"
BADGE_WIDTH, BADGE_HEIGHT = 320, 96
WIDGET_WIDTH, WIDGET_HEIGHT = 380, 300
THEMES = ("light", "dark")
PNG_SCALE = 2
MAX_NAME = 60
# Only the widget may be shown in a frame of another site.
WIDGET_POLICY = POLICY.replace("frame-ancestors 'none'", "frame-ancestors *").replace("script-src 'self'; ", "")
# Sites show them to many visitors: a cache may answer with the last one while it fetches the next.
TEN_MINUTES = {"Cache-Control": "public, max-age=600, stale-while-revalidate=86400"}


def widget_path(mode: Mode, slug: str) -> str:
    return f"/widget/test/{slug}" if mode is Mode.TEST else f"/widget/{slug}"


class EmbedCodes(Struct, frozen=True):
    """The HTML that the owner of a page copies into another site."""

    badge_path: str
    widget_path: str
    badge_code: str
    widget_code: str
    badge_width: int = BADGE_WIDTH
    badge_height: int = BADGE_HEIGHT


def embed_codes(page: SustainabilityPage, base_url: str) -> EmbedCodes:
    address, widget = page.address(base_url), widget_path(page.scope.mode, page.slug)
    title = escape(page.title)
    badge_code = f"""<a href="{address}">
  <picture>
    <source media="(prefers-color-scheme: dark)" srcset="{address}/badge.svg?theme=dark">
    <img src="{address}/badge.svg" width="{BADGE_WIDTH}" height="{BADGE_HEIGHT}" alt="{title}">
  </picture>
</a>"""
    widget_code = (
        f'<iframe src="{base_url}{widget}" title="{title}" width="{WIDGET_WIDTH}" height="{WIDGET_HEIGHT}" '
        'loading="lazy" style="border: 0; max-width: 100%"></iframe>'
    )
    path = page_path(page.scope.mode, page.slug)
    return EmbedCodes(f"{path}/badge.svg", widget, badge_code, widget_code)


class Embeds:
    def __init__(self, figures: ReadFigures, drawings: Drawings, renderer: Renderer, settings: Settings) -> None:
        self._figures = figures
        self._drawings = drawings
        self._renderer = renderer
        self._base_url = settings.base_url

    async def badge_svg(self, request: Request, page: SustainabilityPage) -> Response:
        record = await self._badge(request, page)
        picture = await self._drawings.draw(f"svg {_version(record)}", lambda: render_svg(TEMPLATE, record))
        return _image(request, picture, b"image/svg+xml", _version(record))

    async def badge_png(self, request: Request, page: SustainabilityPage) -> Response:
        record = await self._badge(request, page)
        version = _version(record)
        picture = await self._drawings.draw(f"png {version}", lambda: render_png(TEMPLATE, record, scale=PNG_SCALE))
        return _image(request, picture, b"image/png", version)

    async def _badge(self, request: Request, page: SustainabilityPage) -> dict[str, Any]:
        language = visitor_language(request, page.language)
        found = await self._figures.read(page, language.locale)
        return badge_record(page, found, language, theme=_theme(request))

    async def show_widget(self, request: Request, page: SustainabilityPage) -> Response:
        """Without scripts and cookies, so that the site that shows it needs no consent for it."""
        found = await self._figures.read(page, visitor_language(request, page.language).locale)
        response = self._renderer.page(
            request,
            "widget.html",
            default_language=page.language,
            headers={**TEN_MINUTES, "Content-Security-Policy": WIDGET_POLICY, "X-Robots-Tag": "noindex"},
            test_mode=page.scope.mode is Mode.TEST,
            page=page,
            address=page_path(page.scope.mode, page.slug),
            logo_path=page.logo_address(""),
            theme=_theme(request, default="auto"),
            beneficiary=found.beneficiary,
            figures=found.figures,
        )
        del response.headers["Cross-Origin-Opener-Policy"]
        # The language of `?lang=` is not kept, so the page may be cached.
        response.headers |= TEN_MINUTES
        response.cookies = ()
        return response


def badge_record(
    page: SustainabilityPage, found: PageFigures, language: VisitorLanguage, *, theme: str
) -> dict[str, Any]:
    _, name = language.translator, without_symbols(found.beneficiary)
    return {
        "mode": page.scope.mode.value,
        "theme": theme,
        "total": visitor.rounded(found.figures.total_grams, language.locale),
        "retired": _("CO₂e retired on behalf of"),
        "beneficiary": name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…",
        "test": _("TEST"),
    }


def _version(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:24]


def _theme(request: Request, default: str = THEMES[0]) -> str:
    (theme,) = request.query("theme")
    return theme if theme in THEMES else default


def _image(request: Request, picture: bytes, media_type: bytes, version: str) -> Response:
    headers = {
        **TEN_MINUTES,
        **IMAGE_POLICY,
        # Other sites show it.
        "Cross-Origin-Resource-Policy": "cross-origin",
        "ETag": f'"{version}"',
        "Vary": "Accept-Language, Cookie",
    }
    if f'"{version}"' in request.headers.get(b"if-none-match", b"").decode("latin-1"):
        return Response(b"", 304, media_type, headers)
    return Response(picture, media_type=media_type, headers=headers)

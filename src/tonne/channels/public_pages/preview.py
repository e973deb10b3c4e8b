"""The image that other sites show in the link preview of a Sustainability page."""

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

from tonne.channels.public_pages.figures.drawings import Drawings
from tonne.channels.public_pages.figures.figures import Figures
from tonne.channels.public_pages.model import SustainabilityPage
from tonne.platform.documents.pdf import render_png
from tonne.platform.web import visitor

TEMPLATE = Path(__file__).parent / "templates" / "preview.typ"
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
        return await self._drawings.draw(preview_version(record), lambda: render_png(TEMPLATE, record))


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def without_symbols(text: str) -> str:
    kept = "".join(
        letter
        for letter in text
        if ord(letter) not in _JOINERS and (ord(letter) < _FIRST_SYMBOL or unicodedata.category(letter) != "So")
    )
    return " ".join(kept.split())

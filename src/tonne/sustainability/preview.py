"""The image that other sites show in the link preview of a Sustainability page."""

import asyncio
import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

from tonne.base.mass import format_tonnes
from tonne.gateways.pdf import render_png
from tonne.sustainability.figures import Figures
from tonne.sustainability.model import SustainabilityPage
from tonne.web import visitor

TEMPLATE = Path(__file__).parent / "templates" / "preview.typ"
MAX_CACHED = 100
# Emoji and other symbols begin here. The document fonts have no glyphs for them.
_FIRST_SYMBOL = 0x2190
_JOINERS = {0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400)}


def preview_record(page: SustainabilityPage, beneficiary: str, figures: Figures, seller: str) -> dict[str, Any]:
    """What the image shows, in English: crawlers fetch it for readers of all languages."""
    projects, countries = len(figures.projects) + len(figures.other_projects), figures.countries_count
    where = _count(projects, "project", "projects") if projects else "Nothing retired yet"
    if countries:
        where += f" in {_count(countries, 'country', 'countries')}"
    return {
        "title": _without_symbols(page.title),
        "total": visitor.number(format_tonnes(figures.total_grams), visitor.DEFAULT),
        "beneficiary": _without_symbols(beneficiary),
        "seller": _without_symbols(seller),
        "mode": page.scope.mode.value,
        "where": where,
    }


def preview_version(record: dict[str, Any]) -> str:
    """Changes with the content of the image, so that other sites fetch it again."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:12]


class Previews:
    """Renders images one at a time and caches the latest ones. Concurrent requests for one image render it once."""

    def __init__(self) -> None:
        self._pictures: dict[str, bytes] = {}
        self._lock = asyncio.Lock()

    async def picture(self, record: dict[str, Any]) -> bytes:
        version = preview_version(record)
        if version not in self._pictures:
            async with self._lock:
                # Another request may have rendered it while this one waited for the lock.
                if version not in self._pictures:
                    self._pictures[version] = await asyncio.to_thread(render_png, TEMPLATE, record)
                    if len(self._pictures) > MAX_CACHED:
                        del self._pictures[next(iter(self._pictures))]
        return self._pictures[version]


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _without_symbols(text: str) -> str:
    kept = "".join(
        letter
        for letter in text
        if ord(letter) not in _JOINERS and (ord(letter) < _FIRST_SYMBOL or unicodedata.category(letter) != "So")
    )
    return " ".join(kept.split())

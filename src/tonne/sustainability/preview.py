"""The picture that other sites show beside a link to a Sustainability page."""

import asyncio
import hashlib
import json
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tonne.base.mass import format_tonnes
from tonne.gateways.pdf import render_png
from tonne.sustainability.figures import Figures
from tonne.sustainability.model import Page
from tonne.web import visitor

TEMPLATE = Path(__file__).parent / "templates" / "preview.typ"
KEPT_S = 60.0
MAX_KEPT = 100
# Pictures among the letters begin here. The fonts of our documents have no shapes for them.
_FIRST_PICTURE = 0x2190
_JOINERS = {0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400)}


def preview_record(page: Page, beneficiary: str, figures: Figures, seller: str) -> dict[str, Any]:
    """All that the picture shows, in English: whoever asks for it asks for many readers."""
    projects, countries = len(figures.projects) + len(figures.other_projects), figures.countries_count
    where = _count(projects, "project", "projects") if projects else "Nothing is retired yet"
    if countries:
        where += f" in {_count(countries, 'country', 'countries')}"
    return {
        "title": _without_pictures(page.title),
        "total": visitor.number(format_tonnes(figures.total_grams), visitor.DEFAULT),
        "beneficiary": _without_pictures(beneficiary),
        "seller": _without_pictures(seller),
        "mode": page.scope.mode.value,
        "where": where,
    }


def preview_version(record: dict[str, Any]) -> str:
    """It changes with what the picture shows, so that other sites fetch it anew."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:12]


class Previews:
    """Draws pictures, and keeps each for a moment. They are drawn one at a time, so a crowd that asks for one waits."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._turn = asyncio.Lock()

    async def picture(self, record: dict[str, Any]) -> bytes:
        version = preview_version(record)
        picture = self._find(version)
        if picture is None:
            async with self._turn:
                # Whoever waited finds what the first one drew.
                picture = self._find(version)
                if picture is None:
                    picture = await asyncio.to_thread(render_png, TEMPLATE, record)
                    self._keep(version, picture)
        return picture

    def _find(self, version: str) -> bytes | None:
        kept_until, picture = self._kept.get(version, (0.0, b""))
        return picture if kept_until > self._monotonic() else None

    def _keep(self, version: str, picture: bytes) -> None:
        self._kept.pop(version, None)
        self._kept[version] = (self._monotonic() + KEPT_S, picture)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _without_pictures(text: str) -> str:
    kept = "".join(
        letter
        for letter in text
        if ord(letter) not in _JOINERS and (ord(letter) < _FIRST_PICTURE or unicodedata.category(letter) != "So")
    )
    return " ".join(kept.split())

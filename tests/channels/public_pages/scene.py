"""Sustainability pages and images for tests."""

import base64
import re
import struct
import zlib
from datetime import date
from html import unescape
from typing import Any

import httpx

from tests.support.api_client import ApiClient
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Scope
from tonne.selling.accounts.logos.logo import logo_of

PATH = "/v1/sustainability-page"
TEST_PAGE, LIVE_PAGE = "/sustainability/test/our-forest", "/sustainability/our-forest"
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQEAYABgAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQ"
    "Ew8QEBD/yQALCAABAAEBAREA/8wABgAQEAX/2gAIAQEAAD8A0s8g/9k="
)
LOSSLESS_WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
LOSSY_WEBP = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
TOTAL = """
INSERT INTO retired_totals (account_id, month, bundle_id, project_id, bundle_name, project_name, project_type, grams)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int = 3, height: int = 2, extra: bytes = b"") -> bytes:
    """A valid PNG. `extra` is a chunk between the header and the pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress((b"\x00" + b"\x1d\x6b\x4a" * width) * height))
    return b"\x89PNG\r\n\x1a\n" + header + extra + pixels + chunk(b"IEND", b"")


def extended_webp(width: int = 1, height: int = 1) -> bytes:
    """A WebP whose header says that it has this size. The image in it has one pixel."""
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    header = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + size
    return b"RIFF" + struct.pack("<I", len(header) + len(LOSSY_WEBP) - 12) + header + LOSSY_WEBP[12:]


def stored(content: bytes) -> bytes:
    """What is stored and served of a logo."""
    return logo_of(content).content


def logo(content: bytes, media_type: str = "image/png") -> dict[str, str]:
    return {"media_type": media_type, "data": base64.b64encode(content).decode()}


async def put(api: ApiClient, body: dict[str, Any], **headers: str) -> httpx.Response:
    return await api.http.put(PATH, json=body, headers=api._headers(headers))


async def set_up(api: ApiClient, **body: Any) -> dict[str, Any]:
    """Enable a page with all sections."""
    answer = await put(api, {"enabled": True, "slug": "our-forest", "title": "Our forest", **body})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def retire(
    services: Services,
    scope: Scope,
    month: date,
    grams: int,
    *,
    bundle: tuple[str, str] = ("bun_gone", "A bundle"),
    project: tuple[str, str] = ("prj_gone", "A project"),
    project_type: str = "Wind",
) -> None:
    """Insert totals, as if orders had been completed."""
    async with services.database.transaction() as tx:
        names = (bundle[1], project[1], project_type)
        await tx.execute(TOTAL, scope.account_id, month, bundle[0], project[0], *names, grams)


async def look(browser: httpx.AsyncClient, path: str = TEST_PAGE, language: str = "en") -> str:
    answer = await browser.get(path, headers={"Accept-Language": language})
    assert answer.status_code == 200, answer.text
    return answer.text


def words(html: str) -> str:
    """The text without markup, with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())

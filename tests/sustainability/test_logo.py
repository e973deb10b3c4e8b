"""Validating and serving logos."""

import base64
import struct
from typing import Any

import httpx
import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tests.sustainability.scene import (
    EXTENDED_WEBP,
    JPEG,
    LOSSLESS_WEBP,
    LOSSY_WEBP,
    chunk,
    logo,
    png,
    put,
    set_up,
)
from tonne.sustainability.errors import LogoInvalid
from tonne.sustainability.logo import MAX_LOGO_BYTES, logo_of

GOOD = {
    "png": (png(), "image/png"),
    "jpeg": (JPEG, "image/jpeg"),
    "lossless webp": (LOSSLESS_WEBP, "image/webp"),
    "lossy webp": (LOSSY_WEBP, "image/webp"),
    "extended webp": (EXTENDED_WEBP, "image/webp"),
}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>alert(1)</script>"
_CLAIMED = struct.pack("<I", len(LOSSY_WEBP) + 92)
BAD = {
    "nothing": b"",
    "svg": SVG,
    "svg with a declaration": b'<?xml version="1.0"?>' + SVG,
    "html": HTML,
    "gif": b"GIF89a\x01\x00\x01\x00\x00\x00\x00;",
    "only the magic of a png": png()[:8],
    "html behind the magic of a png": png()[:8] + HTML,
    "html behind a whole png": png() + HTML,
    "html behind a whole jpeg": JPEG + HTML + b"\xff\xd9",
    "html behind a whole webp": LOSSY_WEBP + HTML,
    "a png without its end": png()[:-12],
    "a png without pixels": png().partition(b"IDAT")[0][:-4] + chunk(b"IEND", b""),
    "a png cut in its header": png()[:20],
    "a png with a damaged pixel": png().replace(b"IDAT\x78", b"IDAT\x79"),
    "a png whose chunk says it is longer": png()[:8] + b"\xff\xff\xff\xff" + png()[12:],
    "a jpeg without its end": JPEG[:-2],
    "only the magic of a jpeg": b"\xff\xd8\xff",
    "html behind the magic of a jpeg": b"\xff\xd8\xff\xe0" + HTML,
    "a jpeg without a size": b"\xff\xd8\xff\xda\x00\x02\x00\xff\xd9",
    "a webp without its end": LOSSY_WEBP[:-3],
    "a webp that says it is longer": b"RIFF" + _CLAIMED + LOSSY_WEBP[8:],
    "a webp of no known kind": LOSSY_WEBP.replace(b"VP8 ", b"VP8?"),
    "a sound file": b"RIFF" + struct.pack("<I", 28) + b"WAVEfmt " + bytes(20),
    "more pixels than a browser should unfold": png(4097, 1),
    "no pixels at all": png(0, 5),
    "a huge webp": EXTENDED_WEBP.replace((299).to_bytes(3, "little"), b"\xff\xff\xff"),
}


@pytest.mark.parametrize("name", GOOD)
def test_the_media_type_is_detected_from_the_content(name: str) -> None:
    content, media_type = GOOD[name]
    assert logo_of(content).media_type == media_type


@pytest.mark.parametrize("name", BAD)
def test_other_files_are_rejected(name: str) -> None:
    with pytest.raises(LogoInvalid):
        logo_of(BAD[name])


@pytest.mark.parametrize("name", GOOD)
def test_a_truncated_image_is_rejected(name: str) -> None:
    content, _ = GOOD[name]
    for length in range(len(content)):
        with pytest.raises(LogoInvalid):
            logo_of(content[:length])


def test_the_size_limit_is_exact() -> None:
    padding = MAX_LOGO_BYTES - len(png()) - 12
    largest = png(extra=chunk(b"tEXt", b"x" * padding))
    assert len(largest) == MAX_LOGO_BYTES
    assert logo_of(largest).content == largest
    with pytest.raises(LogoInvalid, match="larger than 96 KiB"):
        logo_of(png(extra=chunk(b"tEXt", b"x" * (padding + 1))))


async def test_an_invalid_logo_names_the_field_and_keeps_the_old_logo(api: ApiClient) -> None:
    before = await set_up(api, logo=logo(png()))
    too_large = png(extra=chunk(b"tEXt", b"x" * MAX_LOGO_BYTES))
    refused: list[tuple[Any, str]] = [
        (logo(SVG, "image/svg+xml"), "logo.data"),
        (logo(SVG, "image/png"), "logo.data"),
        (logo(png() + HTML), "logo.data"),
        (logo(too_large), "logo.data"),
        (logo(png(), "image/jpeg"), "logo.media_type"),
        (logo(png(), "text/html"), "logo.media_type"),
        ({"media_type": "image/png", "data": "not base64!"}, "logo.data"),
        ({"media_type": "image/png", "data": "é"}, "logo.data"),
        ({"media_type": "image/png", "data": base64.b64encode(png()).decode() + "\n"}, "logo.data"),
        ({"media_type": "image/png", "data": "AAA"}, "logo.data"),
    ]
    for sent, field in refused:
        answer = await put(api, {"logo": sent, "title": "Changed"})
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["logo_invalid"], [field]), sent
    assert (await api.get("/v1/sustainability-page")).json() == before


async def test_a_body_over_the_limit_is_not_read(api: ApiClient) -> None:
    answer = await put(api, {"logo": {"media_type": "image/png", "data": "A" * 300_000}})
    assert (answer.status_code, codes(answer)) == (413, ["body_too_large"])


async def test_a_logo_stays_until_it_is_replaced_or_removed(api: ApiClient, browser: httpx.AsyncClient) -> None:
    first = await set_up(api, logo=logo(png()))
    assert first["logo_url"].startswith("http://tonne.test/sustainability/test/our-forest/logo?v=")
    assert (await set_up(api, title="Other"))["logo_url"] == first["logo_url"]
    replaced = await set_up(api, logo=logo(JPEG, "image/jpeg"))
    assert replaced["logo_url"] != first["logo_url"]
    answer = await browser.get(replaced["logo_url"])
    assert (answer.content, answer.headers["content-type"]) == (JPEG, "image/jpeg")
    assert (await set_up(api, logo=None))["logo_url"] is None
    assert (await browser.get(replaced["logo_url"])).status_code == 404


async def test_a_logo_is_served_as_an_image_and_cached_by_its_version(
    api: ApiClient, browser: httpx.AsyncClient
) -> None:
    page = await set_up(api, logo=logo(png()))
    answer = await browser.get(page["logo_url"])
    assert (answer.status_code, answer.content) == (200, png())
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    for other in (page["logo_url"].partition("?")[0], page["logo_url"][:-1]):
        answer = await browser.get(other)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "public, max-age=60")


async def test_the_logo_of_a_disabled_page_is_not_found(
    api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, logo=logo(png()))
    unknown = await browser.get("/sustainability/test/nobody/logo")
    assert unknown.status_code == 404
    assert (await browser.get("/sustainability/our-forest/logo")).content == unknown.content
    await set_up(api, enabled=False)
    assert (await browser.get("/sustainability/test/our-forest/logo")).content == unknown.content
    await set_up(api.as_key(world.ours_live.key))
    assert (await browser.get("/sustainability/our-forest/logo")).content == unknown.content

"""Validating and serving logos."""

import base64
import io
import re
import struct
from typing import Any

import httpx
import pytest
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

from tests.channels.public_pages.scene import (
    JPEG,
    LOSSLESS_WEBP,
    LOSSY_WEBP,
    chunk,
    extended_webp,
    logo,
    png,
    put,
    set_up,
    stored,
)
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.selling.accounts.errors import LogoInvalid
from tonne.selling.accounts.logos.encode_logo import MAX_STORED_BYTES
from tonne.selling.accounts.logos.logo import MAX_LOGO_BYTES, logo_of

GOOD = {
    "png": (png(), "image/png"),
    "jpeg": (JPEG, "image/jpeg"),
    "lossless webp": (LOSSLESS_WEBP, "image/webp"),
    "lossy webp": (LOSSY_WEBP, "image/webp"),
    "extended webp": (extended_webp(), "image/webp"),
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
    "more pixels than it may cost to decode": png(4096, 1025),
    "no pixels at all": png(0, 5),
    "a webp whose header contradicts its image": extended_webp(300, 100),
    "a png with fewer pixels than it says": png(40, 1)[:33] + png(1, 1)[33:],
    "a huge webp": extended_webp(2**24, 1),
}

_SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def _text(words: str) -> PngInfo:
    text = PngInfo()
    text.add_text("Comment", words)
    return text


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
    assert logo_of(largest).media_type == "image/png"
    with pytest.raises(LogoInvalid, match="larger than 96 KiB"):
        logo_of(png(extra=chunk(b"tEXt", b"x" * (padding + 1))))


def test_only_the_pixels_of_a_logo_are_stored() -> None:
    """No metadata, whatever the format; a camera's orientation is applied; transparency stays."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "Berlin, 52.5 N"
    for file_format, mode in (("PNG", "RGBA"), ("JPEG", "RGB"), ("WEBP", "RGBA")):
        drawn = Image.new(mode, (60, 20), (200, 80, 30, 128)[: len(mode)])
        file = io.BytesIO()
        extra = {"pnginfo": _text("Berlin, 52.5 N")} if file_format == "PNG" else {}
        drawn.save(file, file_format, exif=exif, icc_profile=_SRGB, lossless=True, **extra)
        assert b"Berlin" in file.getvalue()
        content = stored(file.getvalue())
        kinds = (b"Berlin", b"eXIf", b"iCCP", b"tEXt", b"EXIF", b"ICCP", b"Exif", b"ICC_PROFILE")
        assert [kind for kind in kinds if kind in content] == [], file_format
        with Image.open(io.BytesIO(content)) as shown:
            assert (shown.format, shown.size, shown.mode) == (file_format, (20, 60), mode)
            pixel = shown.getpixel((10, 30))
        assert isinstance(pixel, tuple)
        assert all(abs(a - b) <= 3 for a, b in zip(pixel, (200, 80, 30, 128), strict=False)), pixel


def test_a_large_logo_is_reduced_to_what_pages_show() -> None:
    with Image.open(io.BytesIO(stored(png(4096, 1024)))) as shown:
        assert shown.size == (1024, 256)
    # Noise in a palette: as RGB it is larger than the file.
    drawn = Image.effect_noise((280, 280), 90).convert("P")
    file = io.BytesIO()
    drawn.save(file, "PNG", transparency=0)
    content = stored(file.getvalue())
    assert len(content) <= MAX_STORED_BYTES
    with Image.open(io.BytesIO(content)) as shown:
        assert (shown.mode, shown.size, shown.info.get("transparency")) == ("P", (280, 280), 0)
    Image.effect_noise((600, 500), 90).save(file := io.BytesIO(), "WEBP", quality=2)
    content = stored(file.getvalue())
    assert len(content) <= MAX_STORED_BYTES
    with Image.open(io.BytesIO(content)) as shown:
        assert shown.size == (450, 375), "with a better quality it would not fit"


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
    assert (answer.content, answer.headers["content-type"]) == (stored(JPEG), "image/jpeg")
    assert (await set_up(api, logo=None))["logo_url"] is None
    assert (await browser.get(replaced["logo_url"])).status_code == 404


async def test_a_logo_is_served_as_an_image_and_cached_by_its_version(
    api: ApiClient, browser: httpx.AsyncClient
) -> None:
    page = await set_up(api, logo=logo(png()))
    answer = await browser.get(page["logo_url"])
    assert (answer.status_code, answer.content) == (200, stored(png()))
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
    # The links to other languages contain the address.
    addresses = re.compile("<nav.*</nav>", re.DOTALL)

    async def shown(path: str) -> str:
        answer = await browser.get(path)
        assert answer.status_code == 404
        return addresses.sub("", answer.text)

    unknown = await shown("/sustainability/test/nobody/logo")
    assert await shown("/sustainability/our-forest/logo") == unknown
    await set_up(api, enabled=False)
    assert await shown("/sustainability/test/our-forest/logo") == unknown
    await set_up(api.as_key(world.ours_live.key))
    assert await shown("/sustainability/our-forest/logo") == unknown

"""Re-encodes logos: only the pixels of an uploaded file are stored and served.

Everything else is dropped: the location of a camera, comments, content that is hidden in a chunk, and headers that a
browser or a PDF reader would have to cope with.
"""

import io
from contextlib import suppress
from typing import Any

from PIL import Image, ImageCms, ImageOps

from tonne.selling.accounts.errors import LogoInvalid

# The database accepts no more.
MAX_STORED_BYTES = 128 * 1024
# Twice what the widest page and a printed certificate show.
MAX_STORED_SIDE = 1024
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
_STORED_MODES = {"1", "L", "LA", "P", "RGB", "RGBA"}
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError, MemoryError)


def encode_logo(content: bytes, media_type: str) -> bytes:
    """The first frame, upright, in sRGB and in the same format.

    Takes up to a second of CPU time for the largest images: call it in a thread. Raises LogoInvalid.
    """
    file_format = _FORMATS[media_type]
    try:
        with Image.open(io.BytesIO(content), formats=[file_format]) as opened:
            pixels = _read(opened)
    except (*_DAMAGED, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise LogoInvalid("The logo is incomplete or damaged. Send the original file.", field="logo.data") from error
    options: dict[str, Any] = {"lossless": b"VP8L" in content} if file_format == "WEBP" else {"optimize": True}
    if max(pixels.size) > MAX_STORED_SIDE:
        pixels = _shrunk(pixels, MAX_STORED_SIDE)
    while len(encoded := _save(pixels, file_format, options)) > MAX_STORED_BYTES:
        pixels = _shrunk(pixels, max(pixels.size) * 3 // 4)
    return encoded


def _read(opened: Image.Image) -> Image.Image:
    profile = opened.info.get("icc_profile")
    pixels = ImageOps.exif_transpose(opened)
    if profile and pixels.mode in {"RGB", "RGBA", "L", "CMYK"}:
        pixels = _in_srgb(pixels, profile)
    if pixels.mode not in _STORED_MODES:
        pixels = pixels.convert("RGBA" if pixels.has_transparency_data else "RGB")
    # `save` would write the rest into the file again.
    transparency = pixels.info.get("transparency")
    pixels.info = {} if transparency is None else {"transparency": transparency}
    return pixels


def _in_srgb(pixels: Image.Image, profile: bytes) -> Image.Image:
    """A faulty profile is ignored, as browsers do."""
    alpha = pixels.getchannel("A") if pixels.mode == "RGBA" else None
    opaque = pixels if alpha is None else pixels.convert("RGB")
    with suppress(ImageCms.PyCMSError, OSError):
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(opaque, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
        opaque = converted or opaque
    if alpha is not None:
        opaque.putalpha(alpha)
    return opaque


def _shrunk(pixels: Image.Image, side: int) -> Image.Image:
    # Palettes cannot be interpolated.
    drawn = pixels.convert("RGBA" if pixels.has_transparency_data else "RGB")
    drawn.thumbnail((side, side), Image.Resampling.LANCZOS)
    return drawn


def _save(pixels: Image.Image, file_format: str, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    # PNG has no quality.
    pixels.save(file, file_format, quality=90, **options)
    return file.getvalue()

"""Re-encodes pictures: the pixels of a JPEG, PNG or WebP file become two WebP files, without metadata.

Nothing of the original file is stored or served: no location of a camera, no appended content, no faulty header that a
browser would have to cope with.
"""

import io
from contextlib import suppress
from hashlib import sha256

from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from tonne.selling.catalogue.errors import PictureInvalid
from tonne.selling.catalogue.pictures.model import MAX_FILE_BYTES, PIXELS, Picture, PictureSize

# A small file can decode to a huge image, which would exhaust the memory.
MAX_PIXELS = 50_000_000
MIN_WIDTH, MIN_HEIGHT = 320, 180
FORMATS = ("JPEG", "PNG", "WEBP")
# Behind transparent pixels.
_PAPER = (246, 247, 244)
_QUALITY = 80
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError, MemoryError)


def encode_picture(content: bytes) -> Picture:
    """Cut to 16:9 around the centre. Takes up to a second of CPU time: call it in a thread. Raises PictureInvalid."""
    if len(content) > MAX_FILE_BYTES:
        raise PictureInvalid(f"The picture is larger than {MAX_FILE_BYTES // 1024 // 1024} MB. Use a smaller file.")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
            _check_size(*opened.size)
            pixels = _read(opened)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureInvalid(_too_many_pixels()) from error
    except UnidentifiedImageError as error:
        raise PictureInvalid("The file is no JPEG, PNG or WebP picture. Convert it to one of these formats.") from error
    except _DAMAGED as error:
        raise PictureInvalid("The picture is incomplete or damaged. Use the original file.") from error
    files = {size: _encode(pixels, *PIXELS[size]) for size in PictureSize}
    return Picture(sha256(b"".join(files.values())).hexdigest()[:32], files)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise PictureInvalid(_too_many_pixels())
    if max(width, height) < MIN_WIDTH or min(width, height) < MIN_HEIGHT:
        raise PictureInvalid(
            f"The picture has only {width} x {height} pixels. Use one with at least {MIN_WIDTH} x {MIN_HEIGHT}."
        )


def _too_many_pixels() -> str:
    return f"The picture has more than {MAX_PIXELS // 1_000_000} million pixels. Make it smaller."


def _read(opened: Image.Image) -> Image.Image:
    """The first frame, upright, as opaque sRGB."""
    # A large JPEG is decoded at a fraction of its size, but never smaller than needed.
    opened.draft("RGB", PIXELS[PictureSize.WIDE])
    profile = opened.info.get("icc_profile")
    pixels = ImageOps.exif_transpose(opened)
    if profile and pixels.mode in {"RGB", "L", "CMYK"}:
        # A faulty profile is ignored, as browsers do.
        with suppress(ImageCms.PyCMSError, OSError):
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            pixels = (
                ImageCms.profileToProfile(pixels, source, ImageCms.createProfile("sRGB"), outputMode="RGB") or pixels
            )
    if pixels.has_transparency_data:
        layer = pixels.convert("RGBA")
        pixels = Image.new("RGB", layer.size, _PAPER)
        pixels.paste(layer, mask=layer.getchannel("A"))
    return pixels.convert("RGB")


def _encode(pixels: Image.Image, width: int, height: int) -> bytes:
    """Cut to the shape of `width` x `height` and shrunk to it. Small pictures are not enlarged."""
    scale = min(1.0, pixels.width / width, pixels.height / height)
    shown = ImageOps.fit(pixels, (round(width * scale), round(height * scale)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    shown.save(file, "WEBP", quality=_QUALITY, method=4)
    return file.getvalue()

"""Validating uploaded logos: PNG, JPEG or WebP.

SVG is rejected because it can contain scripts. The headers are checked, and that the file ends where its format says;
then the pixels are encoded again, and nothing else of the file is stored.
"""

import binascii
import struct
import zlib

from tonne.selling.accounts.errors import LogoInvalid
from tonne.selling.accounts.logos.store import Logo

MAX_LOGO_BYTES = 96 * 1024
# A small file can decode to a huge image, which would exhaust the memory of visitors' browsers.
MAX_SIDE = 4096
# What is decoded and encoded again costs CPU time by its pixels, not by its bytes.
MAX_PIXELS = 4_194_304
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_JPEG_STANDALONE = {0x01, *range(0xD0, 0xD8)}
_SCAN, _END = 0xDA, b"\xff\xd9"


def read_logo(media_type: str, data: str) -> Logo:
    """Decodes a logo sent as base64. CPU-bound, as `logo_of`."""
    try:
        content = binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise LogoInvalid("The data of the logo is not base64.", field="logo.data") from error
    logo = logo_of(content)
    if logo.media_type != media_type:
        raise LogoInvalid(
            f"The logo is {logo.media_type}, not {media_type}. Correct the media_type.", field="logo.media_type"
        )
    return logo


def logo_of(content: bytes) -> Logo:
    """Detects the media type from the content, and encodes the pixels again.

    CPU-bound: call it through `asyncio.to_thread` from a coroutine.
    """
    if len(content) > MAX_LOGO_BYTES:
        raise LogoInvalid("The logo is larger than 96 KiB. Send a smaller file.", field="logo.data")
    try:
        media_type, width, height = _inspect(content)
    except (struct.error, IndexError) as error:
        raise LogoInvalid("The logo is incomplete or damaged. Send the original file.", field="logo.data") from error
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        allowed = f"At most {MAX_SIDE} a side and 4 million in all are allowed."
        raise LogoInvalid(f"The logo has {width} x {height} pixels. {allowed}", field="logo.data")
    from tonne.selling.accounts.logos.encode_logo import encode_logo  # noqa: PLC0415 - it imports PIL

    return Logo(media_type, encode_logo(content, media_type))


def _inspect(content: bytes) -> tuple[str, int, int]:
    if content.startswith(_PNG):
        return "image/png", *_png_size(content)
    if content.startswith(_JPEG):
        return "image/jpeg", *_jpeg_size(content)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp", *_webp_size(content)
    raise LogoInvalid("The logo must be a PNG, JPEG or WebP image. SVG is not supported.", field="logo.data")


def _png_size(content: bytes) -> tuple[int, int]:
    """Checks the checksum of every chunk, and that nothing follows the last one."""
    at, kinds = len(_PNG), []
    while at < len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        (checksum,) = struct.unpack_from(">I", content, at + 8 + length)
        if zlib.crc32(content[at + 4 : at + 8 + length]) != checksum:
            raise IndexError("a chunk is damaged")
        kinds.append(kind)
        at += 12 + length
        if kind == b"IEND":
            break
    if at != len(content) or kinds[:1] != [b"IHDR"] or kinds[-1] != b"IEND" or b"IDAT" not in kinds:
        raise IndexError("incomplete image")
    width, height = struct.unpack_from(">II", content, len(_PNG) + 8)
    return width, height


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """Reads the segments up to the image data, which must reach the end of the file."""
    at, size = 2, None
    while content[at] == 0xFF:
        marker = content[at + 1]
        if marker in _JPEG_STANDALONE or marker == 0xFF:
            at += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", content, at + 2)
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            size = (width, height)
        at += 2 + length
        if marker == _SCAN:
            break
    if size is None or marker != _SCAN or content.find(_END, at) != len(content) - len(_END):
        raise IndexError("incomplete image")
    return size


def _webp_size(content: bytes) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", content, 4)
    if length + 8 != len(content):
        raise IndexError("incomplete image")
    kind = content[12:16]
    if kind == b"VP8X":
        return int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1
    if kind == b"VP8L" and content[20] == 0x2F:
        bits = int.from_bytes(content[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", content, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise IndexError("incomplete image")

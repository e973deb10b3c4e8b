"""Pictures of projects and bundles, as they are stored."""

from enum import StrEnum

from msgspec import Struct

MAX_FILE_BYTES = 20 * 1024 * 1024


class PictureSize(StrEnum):
    """`card` beside a text, `wide` over the width of a page. Both are 16:9."""

    CARD = "card"
    WIDE = "wide"


PIXELS = {PictureSize.CARD: (640, 360), PictureSize.WIDE: (1600, 900)}


class Picture(Struct, frozen=True):
    """The WebP file of each size. `digest` names the picture in URLs: it changes with the pixels."""

    digest: str
    files: dict[PictureSize, bytes]

"""Prepares uploaded images for PDFs."""

import base64
import io
from functools import lru_cache

# 60 x 22 mm at 300 dots per inch.
MAX_PIXELS = (708, 260)
_FORMATS = ("PNG", "JPEG", "WEBP")


@lru_cache(maxsize=64)
def image_as_svg(content: bytes) -> str | None:
    """The image as an SVG for the `inputs` of `render_pdf`, reduced to the size at which it is printed.

    None if the image cannot be decoded: a broken logo must not prevent a document. CPU-bound.
    """
    from PIL import Image  # noqa: PLC0415 - few processes need it

    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            image.draft("RGB", MAX_PIXELS)
            # Also converts CMYK and palettes, and drops profiles and other metadata.
            drawn = image.convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    drawn.thumbnail(MAX_PIXELS)
    file = io.BytesIO()
    drawn.save(file, "PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    width, height = drawn.size
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>"
        f"<image width='{width}' height='{height}' href='data:image/png;base64,{data}'/></svg>"
    )

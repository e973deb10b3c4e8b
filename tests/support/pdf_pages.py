"""Reads PDF files: text, fonts, links, positions of characters, and single pixels of a page."""

import io
from collections.abc import Iterator
from typing import Any

import pypdf
import pypdfium2  # type: ignore[import-untyped]

POINTS_PER_MM = 72 / 25.4


def page_texts(pdf: bytes) -> list[str]:
    return [page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(pdf)]


def lacks_signs(pdf: bytes) -> bool:
    """Whether a character has no glyph in any font: it is read as the null character."""
    return any("\x00" in page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages)


def squeezed(text: str) -> str:
    """Without whitespace, because line breaks and gaps depend on the layout."""
    return "".join(text.split())


def fonts(pdf: bytes) -> dict[str, bool]:
    """The name of each font without its subset prefix, and whether it is embedded."""
    found: dict[str, bool] = {}
    for page in pypdf.PdfReader(io.BytesIO(pdf)).pages:
        resources: Any = page["/Resources"]
        for font in resources["/Font"].values():
            for descendant in font.get_object()["/DescendantFonts"]:
                descriptor = descendant.get_object()["/FontDescriptor"].get_object()
                name = descriptor["/FontName"].rpartition("+")[2]
                found[name] = any(descriptor.get(f"/FontFile{kind}") is not None for kind in ("", "2", "3"))
    return found


def links(pdf: bytes) -> set[str]:
    notes = [note for page in pypdf.PdfReader(io.BytesIO(pdf)).pages for note in page.annotations or []]
    return {note.get_object()["/A"]["/URI"] for note in notes}


def outside(pdf: bytes, margin_mm: float) -> Iterator[str]:
    """Characters inside the margin of their page."""
    margin = margin_mm * POINTS_PER_MM
    for page in pypdfium2.PdfDocument(pdf):
        width, height = page.get_size()
        text = page.get_textpage()
        signs = text.get_text_range()
        for index in range(text.count_chars()):
            left, bottom, right, top = text.get_charbox(index)
            if left < margin or bottom < margin or right > width - margin or top > height - margin:
                yield f"{signs[index]!r} of {signs[max(0, index - 10) : index + 10]!r}"


def extent(pdf: bytes, letters: str) -> tuple[float, float]:
    """The leftmost and rightmost position of these letters on page one, in points."""
    text = pypdfium2.PdfDocument(pdf)[0].get_textpage()
    boxes = [text.get_charbox(index) for index, sign in enumerate(text.get_text_range()) if sign in letters]
    return min(box[0] for box in boxes), max(box[2] for box in boxes)


class Dots:
    """The pixels of a page, addressed in millimetres from its top left corner."""

    def __init__(self, pdf: bytes, page: int = 0, dots_per_point: int = 4) -> None:
        bitmap = pypdfium2.PdfDocument(pdf)[page].render(scale=dots_per_point, grayscale=True)
        self._rows: bytes = bytes(bitmap.buffer)
        self._stride: int = bitmap.stride
        self._dots_per_mm = dots_per_point * POINTS_PER_MM

    def is_dark(self, x_mm: float, y_mm: float) -> bool:
        row, column = int(y_mm * self._dots_per_mm), int(x_mm * self._dots_per_mm)
        return self._rows[row * self._stride + column] < 128

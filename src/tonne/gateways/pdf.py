"""PDF files and pictures, set by typst from a template and a frozen record. The only module that knows typst."""

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import typst

_PACKAGE = Path(__file__).parents[1]
_FONTS = Path(__file__).parent / "fonts"
# They would let a name turn around the words beside it, or hide a part of itself. Plain marks of direction (U+200E,
# U+200F) and joiners stay: Arabic and Persian names need them.
_REORDERING = {*range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF}
# Marks on one letter: no language needs more, and a tower of them would cover the lines above.
_MOST_MARKS = 5
_POINTS_PER_INCH = 72
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_IDEOGRAPHS = re.compile("[\u4e00-\u9fff]")


class PdfFailed(Exception):
    """A template did not compile with this record: a fault of ours, since no text in a record can bring it about."""


def render_pdf(template: Path, record: dict[str, Any], *, issued_at: datetime) -> bytes:
    """The same template, record and time give the same bytes, so that a file can be checked by its hash later.

    Text in the record reaches the page as it is, never as markup. It takes some milliseconds of processor time: from a
    coroutine call it through `asyncio.to_thread`. Threads take turns.
    """
    return _render(template, record, "pdf", issued_at.replace(microsecond=0))


def render_png(template: Path, record: dict[str, Any]) -> bytes:
    """The one page of a template as a picture, a pixel for each of its points. For the rest see `render_pdf`."""
    return _render(template, record, "png", None)


def _render(
    template: Path, record: dict[str, Any], file_format: Literal["pdf", "png"], timestamp: datetime | None
) -> bytes:
    printable = _printable(record)
    foreign = sorted(text for text in set(_texts(printable)) if not text.isascii())
    inputs = {
        "record": _json(printable),
        "right_to_left": _json([text for text in foreign if _is_right_to_left(text)]),
        "japanese": _json([text for text in foreign if _is_japanese(text)]),
    }
    compiler, turn = _compiler()
    with turn:
        try:
            file = compiler.compile(
                template, format=file_format, ppi=_POINTS_PER_INCH, sys_inputs=inputs, timestamp=timestamp
            )
        except RuntimeError as error:  # a TypstError, or that the template is not one of the package
            raise PdfFailed(f"{template.name}: {error}") from error
    if not isinstance(file, bytes):
        raise PdfFailed(f"{template.name}: typst returned no file.")
    return file


@cache
def _compiler() -> tuple[typst.Compiler, Lock]:
    """One for the process, as it keeps the fonts and what it has worked out; it refuses two threads at a time."""
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=False, font_paths=[_FONTS])
    return typst.Compiler(root=_PACKAGE, font_paths=fonts, ignore_system_fonts=True), Lock()


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        plain = value if value.isascii() and value.isprintable() else "".join(_harmless(value))
        # Spaces of all kinds, the unbreakable ones too: a line must be able to end somewhere.
        return " ".join(plain.split())
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return value


def _harmless(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        if marks <= _MOST_MARKS and ord(character) not in _REORDERING:
            yield {"Cc": " ", "Cs": "\ufffd"}.get(category, character)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_right_to_left(text: str) -> bool:
    """As the first letter with a direction says."""
    directions = map(unicodedata.bidirectional, text)
    return next((direction for direction in directions if direction in {"L", "R", "AL"}), "L") != "L"


def _is_japanese(text: str) -> bool:
    """Japanese and Chinese write some characters differently that share one code point.

    Kana settle it. Without them: characters that no Chinese set has together, but the Japanese one has.
    """
    if _KANA.search(text):
        return True
    ideographs = "".join(_IDEOGRAPHS.findall(text))
    return not _encodes(ideographs, "gb2312") and not _encodes(ideographs, "big5") and _encodes(ideographs, "shift_jis")


def _encodes(text: str, character_set: str) -> bool:
    try:
        text.encode(character_set)
    except UnicodeEncodeError:
        return False
    return True

"""Renders PDF files and images with typst, from a template and a record. The only module that uses typst.

Templates write numbers and dates in a language, and translated labels.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import typst
from babel import Locale
from babel.numbers import get_decimal_symbol
from msgspec import Struct, field

from tonne.platform.web.translate import Translator, translator

_PACKAGE = Path(__file__).parents[2]
_FONTS = Path(__file__).parent / "fonts"
# Bidirectional controls and invisible characters: a name could reverse the text beside it or hide a part of itself.
# Direction marks (U+200E, U+200F) and joiners stay, because Arabic and Persian names need them.
_REORDERING = {*range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF}
# Maximum number of combining marks on a letter. More would cover the lines above.
_MAX_MARKS = 5
_POINTS_PER_INCH = 72
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_IDEOGRAPHS = re.compile("[\u4e00-\u9fff]")


class PdfFailed(Exception):
    """A template does not compile. Without a PDF standard this is a bug: no text in a record can cause it."""


def render_pdf(
    template: Path,
    record: dict[str, Any],
    *,
    issued_at: datetime,
    inputs: Mapping[str, str] | None = None,
    standard: Literal["a-3b"] | None = None,
) -> bytes:
    """The same template, record and time give the same bytes, so that a file can be verified by its hash.

    Text in the record is never interpreted as markup. `inputs` are passed to the template as they are. Rendering takes
    milliseconds of CPU time: call it from a coroutine with `asyncio.to_thread`. A lock serialises threads. Raises
    PdfFailed if the record has characters that no font has, and `standard` forbids such a file.
    """
    options = _Options("pdf", issued_at.replace(microsecond=0), inputs or {}, standard)
    return _render(template, record, options)


def render_png(template: Path, record: dict[str, Any], *, scale: int = 1) -> bytes:
    """Render a template of one page as an image with `scale` pixels per point. See also `render_pdf`."""
    return _render(template, record, _Options("png", scale=scale))


def render_svg(template: Path, record: dict[str, Any]) -> bytes:
    """Render a template of one page as an image without fonts: letters are shapes. See also `render_pdf`."""
    return _render(template, record, _Options("svg"))


class _Options(Struct, frozen=True):
    file_format: Literal["pdf", "png", "svg"]
    timestamp: datetime | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    standard: Literal["a-3b"] | None = None
    scale: int = 1


def _render(template: Path, record: dict[str, Any], options: _Options) -> bytes:
    printable = _printable(record)
    foreign = sorted(text for text in set(_texts(printable)) if not text.isascii())
    inputs = {
        **options.inputs,
        "record": _json(printable),
        "right_to_left": _json([text for text in foreign if _is_right_to_left(text)]),
        "japanese": _json([text for text in foreign if _is_japanese(text)]),
    }
    compiler, turn = _compiler()
    with turn:
        try:
            file = compiler.compile(
                template,
                format=options.file_format,
                ppi=_POINTS_PER_INCH * options.scale,
                sys_inputs=inputs,
                timestamp=options.timestamp,
                pdf_standards=options.standard,
            )
        except RuntimeError as error:  # a TypstError, or the template is outside the package
            raise PdfFailed(f"{template.name}: {error}") from error
    if not isinstance(file, bytes):
        raise PdfFailed(f"{template.name}: typst returned no file.")
    return file


@cache
def _compiler() -> tuple[typst.Compiler, Lock]:
    """One per process: it caches fonts and layouts, and may be used by one thread at a time."""
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=False, font_paths=[_FONTS])
    return typst.Compiler(root=_PACKAGE, font_paths=fonts, ignore_system_fonts=True), Lock()


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        plain = value if value.isascii() and value.isprintable() else "".join(_without_controls(value))
        # All kinds of spaces become plain ones, so that lines can break.
        return " ".join(plain.split())
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return value


def _without_controls(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        if marks <= _MAX_MARKS and ord(character) not in _REORDERING:
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
    """Decided by the first character with a strong direction."""
    directions = map(unicodedata.bidirectional, text)
    return next((direction for direction in directions if direction in {"L", "R", "AL"}), "L") != "L"


def _is_japanese(text: str) -> bool:
    """Japanese and Chinese draw some characters differently that share a code point.

    Text with kana is Japanese. Otherwise: text that Shift JIS can encode, and neither GB 2312 nor Big5.
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


_FIELDS = re.compile(r"'([^']*)'|(d+|M+|y+)")
_NAMES = {"d": "{day}", "M": "{month}", "y": "{year}"}


def label_inputs(_: Translator, labels: dict[str, str]) -> dict[str, str]:
    """Inputs for `render_pdf`. A label may contain values as `{name}`, which the template fills in: see `fill`."""
    return {"labels": json.dumps({**_conventions(_.language), **labels}, ensure_ascii=False)}


@cache
def _conventions(language: str) -> dict[str, Any]:
    """`day` is a pattern for dates such as `{day}. {month} {year}`."""
    _ = translator(language)
    locale = Locale.parse("en_GB" if language == "en" else language)
    pattern = _FIELDS.sub(lambda found: found[1] or _NAMES[found[2][0]], locale.date_formats["long"].pattern)
    return {
        "language": language,
        "decimal": get_decimal_symbol(locale),
        "months": [locale.months["format"]["wide"][month] for month in range(1, 13)],
        "day": pattern,
        "page": _("Page %(page)s of %(pages)s", page="{page}", pages="{pages}"),
    }

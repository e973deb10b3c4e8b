"""CSV bytes to lines: encodings, separators and limits. They are the same for every import."""

import codecs
import csv
import io
import re
from collections.abc import Iterator

from msgspec import Struct

MAX_BYTES = 20_000_000
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# ZIP (.xlsx, .ods, archives) and the old .xls format.
_WORKBOOKS = (b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0")
_FIRST_LINE = re.compile(r"\S[^\r\n]*")


class SheetFile(Struct, frozen=True):
    """`name` appears in error reports."""

    name: str
    content: bytes


class Unreadable(Exception):
    """The file cannot be read from `line` on; None means from the beginning."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_lines(content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line that is not blank, with the number of its first line: quoted cells may span several.

    The separator is the comma, semicolon or tab that occurs most often in the header.
    """
    text = _decode(content)
    header = _FIRST_LINE.search(text)
    if header is not None and "\0" in header[0]:
        raise Unreadable(1, "the header contains NUL characters: save the file as “CSV UTF-8”.")
    separator = max(",;\t", key=header[0].count) if header else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            # Also raised for a cell of more than 131,072 characters, which is usually a quote that was never closed.
            message = f"the line is not valid CSV ({error}): correct its quotes and separators, then import again."
            raise Unreadable(line, message) from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


def _decode(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise Unreadable(None, f"the file is larger than {MAX_BYTES // 1_000_000} MB: split it and import the parts.")
    if content.startswith(_WORKBOOKS):
        raise Unreadable(None, "the file is a workbook or an archive, not CSV: save it as “CSV UTF-8” and import that.")
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        name = encoding.upper().removesuffix("-SIG")
        raise Unreadable(line, f"the file is not {name} from here on: save it as “CSV UTF-8”.") from error

"""Finds the number of a certificate in a PDF that was changed, so that the page can say which one it claims to be.

`web/static/verify.js` does the same in the browser.
"""

import re
import zlib

# A reader accepts a PDF whose header is within the first 1024 bytes.
_HEADER_WITHIN = 1024
_NUMBER = re.compile(rb"(?<![0-9A-Za-z])(?:TEST-)?(?:[0-9A-HJKMNP-TV-Z]{4}-){3}[0-9A-HJKMNP-TV-Z]{4}(?![0-9A-Za-z-])")
_STREAM = re.compile(rb"stream\r?\n")
# A hostile file may have thousands of streams, each of which unpacks to a thousand times its size.
MAX_STREAMS = 300
MAX_UNPACKED = 256 * 1024


def is_pdf(content: bytes) -> bool:
    return b"%PDF-" in content[:_HEADER_WITHIN]


def find_number(content: bytes) -> str:
    """The first number in the file's texts, or "". The work is bounded. CPU-bound: call it with `asyncio.to_thread`."""
    if found := _number_in(content):
        return found
    for stream, start in enumerate(_STREAM.finditer(content)):
        if stream == MAX_STREAMS:
            break
        try:
            packed = content[start.end() : start.end() + MAX_UNPACKED]
            unpacked = zlib.decompressobj().decompress(packed, MAX_UNPACKED)
        except zlib.error:
            continue
        if found := _number_in(unpacked):
            return found
    return ""


def _number_in(content: bytes) -> str:
    # Titles may be UTF-16, in which every other byte of a number is zero.
    found = _NUMBER.search(content) or _NUMBER.search(content.replace(b"\0", b""))
    return "" if found is None else found[0].decode()

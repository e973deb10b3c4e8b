"""Attachments that a mail refers to: the outbox holds a note with the key of a stored file instead of a copy.

The note is replaced by the file when the mail is sent. It stays in the outbox, and says what was sent.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from email.message import EmailMessage
from typing import NamedTuple

HEADER = "X-Tonne-File"
MARK = f"\r\n{HEADER}: ".encode()
BOUNDARY = re.compile(rb'^Content-Type: multipart/mixed;\s+boundary="([^"]+)"', re.MULTILINE)
_KEY = re.compile(rb"^X-Tonne-File: (\S+)\r?$", re.MULTILINE)
_NAME = re.compile(rb'^Content-Disposition: attachment;\s+filename="([^"]+)\.txt"', re.MULTILINE)
# Returns the file with a key.
ReadFile = Callable[[str], Awaitable[bytes]]


class StoredFile(NamedTuple):
    """A stored file. `name` and `key` become parts of headers: they must not contain user input."""

    name: str
    key: str
    size: int
    sha256: str
    media_type: str = "application/pdf"


def attach_stored(message: EmailMessage, file: StoredFile) -> None:
    note = f"{file.name} ({file.size} bytes) is attached to the mail that is sent.\nSHA-256: {file.sha256}\n"
    message.add_attachment(
        note, filename=f"{file.name}.txt", headers=[f"{HEADER}: {file.key}", f"X-Tonne-Type: {file.media_type}"]
    )


async def with_files(message: bytes, read: ReadFile) -> bytes:
    """The mail as it is sent. It is cut as bytes, in the form that `compose_mail` gives it."""
    keys = {key.decode() for key in _KEY.findall(message)} if MARK in message else set()
    return _replace(message, {key: await read(key) for key in sorted(keys)}) if keys else message


_TYPE = re.compile(rb"^X-Tonne-Type: (\S+)\r?$", re.MULTILINE)


def _replace(message: bytes, files: Mapping[str, bytes]) -> bytes:
    head, _, body = message.partition(b"\r\n\r\n")
    if (found := BOUNDARY.search(head)) is None:
        return message
    line = b"\r\n--" + found[1]
    return b"\r\n\r\n".join([head, line.join(_part(part, files) for part in body.split(line))])


def _part(part: bytes, files: Mapping[str, bytes]) -> bytes:
    head = part.partition(b"\r\n\r\n")[0]
    key, name, media_type = _KEY.search(head), _NAME.search(head), _TYPE.search(head)
    if key is None or name is None or media_type is None:
        return part
    encoded = base64.encodebytes(files[key[1].decode()]).replace(b"\n", b"\r\n")
    lines = (
        b"",
        b"Content-Type: " + media_type[1],
        b"Content-Transfer-Encoding: base64",
        b'Content-Disposition: attachment; filename="' + name[1] + b'"',
        b"MIME-Version: 1.0",
        b"",
        encoded,
    )
    return b"\r\n".join(lines)

"""Forms with files: the body of `multipart/form-data`, as browsers send it (RFC 7578)."""

import re

from msgspec import Struct

from tonne.platform.http.errors import FormInvalid

MULTIPART = b"multipart/form-data"
_BOUNDARY = re.compile(rb'boundary="?([A-Za-z0-9\'()+_,./:=?-]{1,70})"?', re.IGNORECASE)
_NAME = re.compile(r';\s*name="([^"]*)"')
_FILE_NAME = re.compile(r';\s*filename="([^"]*)"')
MAX_PARTS = 200
# What a part has before its content. Without a limit, a file of line breaks would be taken apart as headers.
MAX_PART_HEAD = 8 * 1024
MAX_FILE_NAME = 200


class UploadedFile(Struct, frozen=True):
    """`name` is that of the file on the sender's machine, without its folder: it is only shown, never opened."""

    name: str
    content: bytes


class MultipartForm(Struct, frozen=True):
    fields: dict[str, list[str]]
    files: dict[str, UploadedFile]


def parse_multipart(content_type: bytes, body: bytes) -> MultipartForm:
    """Raises FormInvalid. A file field in which nothing was chosen is left out."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise FormInvalid
    separator = b"\r\n--" + found[1]
    # The first boundary has no line break before it.
    if not body.startswith(separator[2:]):
        raise FormInvalid
    form, start = MultipartForm({}, {}), len(separator) - 2
    # Bodies are large: only the content of a part is copied.
    for _ in range(MAX_PARTS):
        if body.startswith(b"--", start):
            return form
        end = body.find(separator, start)
        if end < 0:
            break
        _add(form, body, start, end)
        start = end + len(separator)
    raise FormInvalid


def _add(form: MultipartForm, body: bytes, start: int, end: int) -> None:
    head_end = body.find(b"\r\n\r\n", start, min(end, start + MAX_PART_HEAD))
    if head_end < 0:
        raise FormInvalid
    head, content = body[start:head_end], body[head_end + 4 : end]
    try:
        disposition = next(
            line for line in head.decode("utf-8").split("\r\n") if line.lower().startswith("content-disposition:")
        )
        name = _NAME.search(disposition)
        file_name = _FILE_NAME.search(disposition)
        if name is None:
            raise FormInvalid
        if file_name is None:
            form.fields.setdefault(name[1], []).append(content.decode("utf-8").replace("\x00", ""))
        elif file_name[1] or content:
            form.files[name[1]] = UploadedFile(_base_name(file_name[1]), content)
    except (UnicodeDecodeError, StopIteration) as error:
        raise FormInvalid from error


def _base_name(name: str) -> str:
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c for c in last if c.isprintable())[:MAX_FILE_NAME].strip() or "file"

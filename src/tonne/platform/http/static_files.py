"""Static files: sent compressed, with a tag by which clients keep what has not changed."""

import gzip
import hashlib
import re

from msgspec import Struct

from tonne.platform.http.route import Request, Response

# For addresses that change with the content.
FOR_EVER = "public, max-age=31536000, immutable"
# For addresses that stay.
REVALIDATE = "public, no-cache"
ONE_DAY = "public, max-age=86400"
_MEDIA_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "ico": b"image/x-icon",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "png": b"image/png",
    "svg": b"image/svg+xml",
    "woff2": b"font/woff2",
}
# Copies of configuration files and programs, to be read.
_PLAIN = b"text/plain; charset=utf-8"
_COMPACT = {b"image/png", b"image/jpeg", b"font/woff2"}


class StaticFile(Struct, frozen=True):
    """`content` is compressed if `is_compressed`; few clients do not accept that."""

    content: bytes
    is_compressed: bool
    media_type: bytes
    digest: str

    @classmethod
    def of(cls, name: str, content: bytes, media_type: bytes = b"") -> "StaticFile":
        """The ending of the name says the type, and `.gz` after it that the content is already compressed."""
        shown = name.removesuffix(".gz")
        media_type = media_type or _MEDIA_TYPES.get(shown.rpartition(".")[2], _PLAIN)
        digest = hashlib.sha256(content).hexdigest()[:16]
        if shown == name and media_type not in _COMPACT:
            return cls(gzip.compress(content, mtime=0), True, media_type, digest)
        return cls(content, shown != name, media_type, digest)

    @property
    def plain(self) -> bytes:
        return gzip.decompress(self.content) if self.is_compressed else self.content

    def response(self, request: Request, cache_control: str, headers: dict[str, str] | None = None) -> Response:
        # Weak: the compressed and the plain form have the same tag.
        tag = f'W/"{self.digest}"'
        sent = {"Cache-Control": cache_control, "ETag": tag, **(headers or {})}
        if self.is_compressed:
            sent["Vary"] = "Accept-Encoding"
        if tag in request.headers.get(b"if-none-match", b"").decode("latin-1"):
            return Response(b"", 304, self.media_type, sent)
        if self.is_compressed and _accepts_gzip(request.headers.get(b"accept-encoding", b"")):
            return Response(self.content, 200, self.media_type, {**sent, "Content-Encoding": "gzip"})
        return Response(self.plain, 200, self.media_type, sent)


def _accepts_gzip(header: bytes) -> bool:
    for part in header.decode("latin-1").lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() == "gzip":
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight)
    return False

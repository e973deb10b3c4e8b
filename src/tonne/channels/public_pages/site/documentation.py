"""The documentation: a static site that `make docs` builds into this package. It loads nothing from other hosts."""

import fcntl
import gzip
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from tonne.platform.http.openapi.reference_page import AssetNotFound
from tonne.platform.http.route import Request, Response
from tonne.platform.values.errors import Kind, TonneError

# Icons of the style sheet are data URLs, and the search runs in a worker.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
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
# The generator puts a digest into the names of scripts and style sheets.
_NAMED_BY_CONTENT = re.compile(r"assets/.+\.[0-9a-f]{8}\.min\.(js|css)")
_FOR_EVER = "public, max-age=31536000, immutable"
# Pages keep their address when they change.
_REVALIDATE = "public, no-cache"
_NOT_FOUND_PAGE = "404.html"
FOLDER = Path(__file__).with_name("documentation")
# `make run` holds a lock on this file from its start until the documentation is built.
BUILD_LOCK = Path(__file__).with_name("documentation.lock")
RETRY_AFTER_S = 5


class DocumentationNotBuilt(TonneError, kind=Kind.NOT_FOUND, code="documentation_not_built"):
    """The service runs from a checkout in which the documentation was not built.

    Run `make docs`.
    """

    message = "This installation has no documentation. Build it with `make docs`, then reload this page."


class DocumentationBeingBuilt(TonneError, kind=Kind.UNAVAILABLE, code="documentation_being_built"):
    """The service was started by `make run` for the first time and is still building the documentation.

    Repeat the request after `Retry-After` seconds.
    """

    message = "The documentation is being built and will be here in about a minute. This page reloads itself."

    def __init__(self) -> None:
        super().__init__()
        # Browsers reload the page by themselves.
        self.headers |= {"Retry-After": str(RETRY_AFTER_S), "Refresh": str(RETRY_AFTER_S)}


class DocumentationFile(Struct, frozen=True):
    content: bytes
    is_compressed: bool
    media_type: bytes
    etag: str
    cache_control: str


class Documentation:
    async def show(self, request: Request) -> Response:
        """A page or a file of the documentation."""
        files = _files()
        if not files:
            raise DocumentationBeingBuilt if _is_being_built() else DocumentationNotBuilt
        path = request.location.partition("?")[0].removeprefix("/docs/")
        name = f"{path}index.html" if not path or path.endswith("/") else path
        if name in files:
            return _response(files[name], request)
        # As the repository names its pages, and as people type them.
        page = path.removesuffix(".md").removesuffix("/index")
        if f"{page}/index.html" in files:
            return Response(b"", 308, headers={"Location": f"/docs/{page}/", "Cache-Control": _REVALIDATE})
        if b"text/html" in request.headers.get(b"accept", b"").lower():
            return _response(files[_NOT_FOUND_PAGE], request, 404)
        raise AssetNotFound


def _response(file: DocumentationFile, request: Request, status: int = 200) -> Response:
    headers = {
        "Cache-Control": file.cache_control if status == 200 else "no-store",
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    if status == 200:
        headers["ETag"] = file.etag
        if file.etag in request.headers.get(b"if-none-match", b"").decode("latin-1"):
            return Response(b"", 304, file.media_type, headers)
    if not file.is_compressed:
        return Response(file.content, status, file.media_type, headers)
    headers["Vary"] = "Accept-Encoding"
    if _accepts_gzip(request.headers.get(b"accept-encoding", b"")):
        return Response(file.content, status, file.media_type, {**headers, "Content-Encoding": "gzip"})
    return Response(gzip.decompress(file.content), status, file.media_type, headers)


def _accepts_gzip(header: bytes) -> bool:
    for part in header.decode("latin-1").lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() == "gzip":
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight)
    return False


def _files() -> dict[str, DocumentationFile]:
    """All files by their path below /docs/; empty if the site was not built. A site that is built later is found."""
    try:
        return _read_site((FOLDER / "index.html.gz").stat().st_mtime_ns)
    except FileNotFoundError:
        return {}


@lru_cache(1)
def _read_site(_built_at: int) -> dict[str, DocumentationFile]:
    """About 1 MB."""
    return dict(_read_folder(FOLDER, ""))


def _is_being_built() -> bool:
    try:
        with BUILD_LOCK.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read_folder(folder: Path, prefix: str) -> list[tuple[str, DocumentationFile]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read_folder(entry, f"{prefix}{entry.name}/")
        else:
            name = f"{prefix}{entry.name}"
            found.append((name.removesuffix(".gz"), _read(name, entry.read_bytes())))
    return found


def _read(name: str, content: bytes) -> DocumentationFile:
    shown = name.removesuffix(".gz")
    return DocumentationFile(
        content,
        is_compressed=shown != name,
        media_type=_MEDIA_TYPES.get(shown.rpartition(".")[2], _PLAIN),
        # Weak: the compressed and the plain form have the same tag.
        etag=f'W/"{hashlib.sha256(content).hexdigest()[:16]}"',
        cache_control=_FOR_EVER if _NAMED_BY_CONTENT.fullmatch(shown) else _REVALIDATE,
    )

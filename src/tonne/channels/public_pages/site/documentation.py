"""The documentation: a static site that `make docs` builds into this package. It loads nothing from other hosts."""

import fcntl
import re
from functools import lru_cache
from pathlib import Path

from tonne.platform.http.openapi.reference_page import AssetNotFound
from tonne.platform.http.route import Request, Response
from tonne.platform.http.static_files import FOR_EVER, REVALIDATE, StaticFile
from tonne.platform.values.errors import Kind, TonneError

# Icons of the style sheet are data URLs, and the search runs in a worker.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
# The generator puts a digest into the names of scripts and style sheets.
_NAMED_BY_CONTENT = re.compile(r"assets/.+\.[0-9a-f]{8}\.min\.(js|css)")
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


class Documentation:
    async def show(self, request: Request) -> Response:
        """A page or a file of the documentation."""
        files = _files()
        if not files:
            raise DocumentationBeingBuilt if _is_being_built() else DocumentationNotBuilt
        path = request.location.partition("?")[0].removeprefix("/docs/")
        name = f"{path}index.html" if not path or path.endswith("/") else path
        if name in files:
            # Pages keep their address when they change.
            cache_control = FOR_EVER if _NAMED_BY_CONTENT.fullmatch(name) else REVALIDATE
            return files[name].response(request, cache_control, _HEADERS)
        # As the repository names its pages, and as people type them.
        page = path.removesuffix(".md").removesuffix("/index")
        if f"{page}/index.html" in files:
            return Response(b"", 308, headers={"Location": f"/docs/{page}/", "Cache-Control": REVALIDATE})
        if b"text/html" in request.headers.get(b"accept", b"").lower():
            page_404 = files[_NOT_FOUND_PAGE]
            return Response(page_404.plain, 404, page_404.media_type, {**_HEADERS, "Cache-Control": "no-store"})
        raise AssetNotFound


def _files() -> dict[str, StaticFile]:
    """All files by their path below /docs/; empty if the site was not built. A site that is built later is found."""
    try:
        return _read_site((FOLDER / "index.html.gz").stat().st_mtime_ns)
    except FileNotFoundError:
        return {}


@lru_cache(1)
def _read_site(_built_at: int) -> dict[str, StaticFile]:
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


def _read_folder(folder: Path, prefix: str) -> list[tuple[str, StaticFile]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read_folder(entry, f"{prefix}{entry.name}/")
        else:
            name = f"{prefix}{entry.name}"
            found.append((name.removesuffix(".gz"), StaticFile.of(name, entry.read_bytes())))
    return found

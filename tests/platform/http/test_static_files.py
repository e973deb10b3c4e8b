"""Static files are sent compressed and once: the same address again gets 304."""

import asyncio
import re
from importlib import resources
from pathlib import Path

import httpx
import msgspec

from tests.support.api_client import ApiClient
from tonne.apps.wiring.app import Services
from tonne.channels.public_pages.site import documentation
from tonne.channels.public_pages.site.routes import TEXTS
from tonne.platform.http.route import Access, Request
from tonne.platform.settings.settings import Settings
from tonne.platform.web.assets import asset_routes
from tonne.platform.web.render import SiteFrame
from tonne.selling.catalogue.pictures.drawings import MOTIFS
from tools.docs import build as builder

COMPACT = ("image/png", "image/webp", "font/woff2")
# The values of the parameter of a route. Routes that are not here read the database, or have no parameter.
FILES = {
    "/assets/{name}": [file.name for file in (resources.files("tonne.platform.web") / "static").iterdir()],
    "/docs/try/assets/{name}": ["try.js", "test-key.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"],
    "/images/bundles/{name}": [
        file.name for file in (resources.files("tonne.selling.catalogue") / "demo" / "images").iterdir()
    ],
    "/pictures/drawn/{name}": [f"{motif}-0.svg" for motif in MOTIFS],
    "/social/{file}": [f"{name}.png" for name in TEXTS],
}
# What they send depends on the database, the settings or the time.
DYNAMIC = re.compile(
    r"/|/(v1|\.well-known|card|certificates|checkout|credentials|dashboard|find-orders|health|log|logo|o|offset|projects"
    r"|sustainability|verify|widget)(/.*)?|/metrics|/pictures/\{digest\}/\{file\}"
)
REDIRECTS = {"/docs", "/docs/try"}
# Tested below: it may have to be built first.
DOCUMENTATION = {"/docs/", "/docs/{path:path}"}


async def check(http: httpx.AsyncClient, address: str) -> None:
    found = await http.get(address, headers={"Accept-Encoding": "br, gzip"})
    assert found.status_code == 200, address
    assert found.headers["cache-control"].startswith("public"), address
    is_compact = found.headers["content-type"] in COMPACT
    assert found.headers.get("content-encoding") == (None if is_compact else "gzip"), address
    plain = await http.get(address, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers, address
    assert plain.content == found.content, address
    assert plain.headers["etag"] == found.headers["etag"], address
    again = await http.get(address, headers={"If-None-Match": f'"other", {found.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", found.headers["etag"]), address
    changed = await http.get(address, headers={"If-None-Match": 'W/"other"'})
    assert changed.status_code == 200, address


async def test_every_static_file_is_compressed_and_sent_once(api: ApiClient, services: Services) -> None:
    public = {route.path for route in services.routes() if route.access is Access.PUBLIC and route.method == "GET"}
    static = {path for path in public - REDIRECTS - DOCUMENTATION if not DYNAMIC.fullmatch(path)}
    single = {"/openapi.json", "/docs/try/", "/favicon.ico", "/apple-touch-icon.png", "/robots.txt"}
    assert static == single | FILES.keys(), "add new files here"
    for address in single:
        await check(api.http, address)
    for path, names in FILES.items():
        for name in names:
            await check(api.http, f"{path.partition('{')[0]}{name}")


async def test_every_file_of_the_documentation_is_compressed_and_sent_once(api: ApiClient) -> None:
    await asyncio.to_thread(builder.build)
    for name in documentation._files():
        await check(api.http, f"/docs/{name.removesuffix('index.html')}")


async def test_the_operators_logo_is_compressed_and_sent_once(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "logo.svg"
    file.write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0h9v9z"/></svg>')
    frame = SiteFrame.of(msgspec.structs.replace(settings, logo_file=str(file)))
    (route,) = [route for route in asset_routes(frame) if route.path == "/logo"]
    first = await route.endpoint(Request.without_body("/logo", b"", {b"accept-encoding": b"gzip"}))
    assert first.headers["Content-Encoding"] == "gzip"
    again = await route.endpoint(Request.without_body("/logo", b"", {b"if-none-match": first.headers["ETag"].encode()}))
    assert again.status == 304

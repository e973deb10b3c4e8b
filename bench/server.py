"""The benchmarked server: `tonne api` with a few more routes, which return bytes that they already hold.

The bare routes use the same server, middleware, router, access log and metrics as all others. The cost of a real
endpoint beyond theirs is authentication, the query and building the response.
"""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from granian.server import Server

from tonne.apps.cli.operations import processes
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.http.route import Access, Request, Response, Route
from tonne.platform.process.telemetry.logs import configure_logs
from tonne.platform.settings.load_settings import load_settings

BARE_ROUTES = ("order", "page", "quote", "locked_quote", "tile", "entries")


def bare_path(name: str) -> str:
    return f"/bare/{name}"


def body_file(folder: Path, name: str) -> Path:
    """Where a bare route finds its bodies, which it returns in turn."""
    return folder / f"bare-{name}"


def hold_bodies(folder: Path, name: str, bodies: Sequence[bytes]) -> None:
    body_file(folder, name).write_bytes(msgspec.msgpack.encode(bodies))


class BenchServices(Services):
    def routes(self) -> list[Route]:
        bare = [_bare_route(name, body_file(self.settings.data_path, name)) for name in BARE_ROUTES]
        return [*super().routes(), *bare]


def create_app() -> AsgiApp:
    settings = load_settings(os.environ)
    configure_logs(settings.log_level, "api")
    return build_app(BenchServices(Database(settings.database_url, settings), settings))


def _bare_route(name: str, file: Path) -> Route:
    held: list[bytes] = []
    turns = itertools.count()

    async def endpoint(_: Request) -> Response:
        if not held:
            held.extend(msgspec.msgpack.decode(file.read_bytes(), type=list[bytes]))  # noqa: ASYNC240 - once, during the warm-up
        return Response(held[next(turns) % len(held)])

    return Route(
        method="GET",
        path=bare_path(name),
        endpoint=endpoint,
        access=Access.PUBLIC,
        tag="Bench",
        answers={200: None},
    )


def _create_server(_target: str, **options: Any) -> Any:
    return Server("bench.server:create_app", **options)


if __name__ == "__main__":
    # Run the command itself, so that the server has the options of `tonne api`.
    processes.Server = _create_server  # type: ignore[assignment,attr-defined]
    processes.api(["--stop-with-parent"])

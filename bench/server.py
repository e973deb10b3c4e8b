"""The benchmarked server: `tonne api` with two more routes, which answer with bytes that they hold already.

Those bare routes pass through the same server, edge, router, access log and metrics as every other: what a real
endpoint costs beyond them is the key, the query and the making of the answer.
"""

import os
from pathlib import Path
from typing import Any

from granian.server import Server

from tonne.app import Services, build_app
from tonne.base.logs import configure_logs
from tonne.base.settings import load_settings
from tonne.cli import serve
from tonne.db.pool import Database
from tonne.http.asgi import AsgiApp
from tonne.http.route import Access, Endpoint, Request, Response, Route

# Where the bodies of the bare routes lie, one file each.
BODIES_VARIABLE = "BENCH_BODIES"
BARE_ROUTES = ("order", "page")


def bare_path(name: str) -> str:
    return f"/bare/{name}"


class BenchHouse(Services):
    def routes(self) -> list[Route]:
        return [*super().routes(), *(_bare_route(name) for name in BARE_ROUTES)]


def create_app() -> AsgiApp:
    settings = load_settings(os.environ)
    configure_logs(settings.log_level, "api")
    return build_app(BenchHouse(Database(settings.database_url, settings), settings))


def _bare_route(name: str) -> Route:
    return Route(
        method="GET",
        path=bare_path(name),
        endpoint=_bare_endpoint(Path(os.environ[BODIES_VARIABLE]) / name),
        access=Access.PUBLIC,
        summary="Bytes that are at hand",
        tag="Bench",
        answers={200: None},
    )


def _bare_endpoint(file: Path) -> Endpoint:
    held: list[bytes] = []

    async def answer(_: Request) -> Response:
        if not held:
            held.append(file.read_bytes())  # noqa: ASYNC240 - once, during the warm-up
        return Response(held[0])

    return answer


def _start_ours(_target: str, **options: Any) -> Any:
    return Server("bench.server:create_app", **options)


def main() -> None:
    # The command itself runs, so that the options of the server are those of `tonne api`, today and later.
    serve.Server = _start_ours  # type: ignore[assignment,attr-defined]
    serve.api(["--stop-with-parent"])


if __name__ == "__main__":
    main()

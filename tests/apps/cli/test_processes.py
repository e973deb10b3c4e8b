"""The child processes of `tonne serve`, and how many files they may open."""

import resource
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.processes import free_port
from tonne.apps.cli.operations.processes import MAX_CONNECTIONS, Processes, allow_open_files, wait_until_ready
from tonne.platform.settings.settings import Settings


class _Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health/ready" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - the server of the test listens on one address
def test_the_api_is_ready_also_if_a_proxy_is_set(port: int, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr("tonne.apps.cli.operations.processes.READY_WITHIN_S", 5.0)
    settings = Settings(host=host, port=port)
    assert wait_until_ready(Processes("", settings), settings, [])


@pytest.mark.parametrize(
    ("limits", "raised", "fitting"),
    [
        ((1024, 1 << 20), 8192 + 256 + 30 + 200, MAX_CONNECTIONS),
        ((1024, 4096), 4096, 4096 - 256 - 30),
        ((1 << 16, 1 << 20), None, MAX_CONNECTIONS),
        ((1024, resource.RLIM_INFINITY), 8192 + 256 + 30 + 200, MAX_CONNECTIONS),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, MAX_CONNECTIONS),
        ((200, 200), None, 64),
    ],
)
def test_security_1_a_process_takes_no_more_connections_than_it_may_open_files(
    limits: tuple[int, int], raised: int | None, fitting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 half-sent bodies took all 1,024 files that a shell allows: pages failed, and a read hung for 40 seconds."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: asked.append(wanted))
    settings = Settings(database_connections=30, webhook_concurrency=200)
    assert (allow_open_files(settings), asked) == (fitting, [] if raised is None else [(raised, limits[1])])

"""The child processes of `tonne serve`."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.processes import free_port
from tonne.apps.cli.operations.processes import Processes, wait_until_ready
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

"""The Containerfile and compose.yaml.

No image is built: that needs a registry of images and a container engine. Tested are the format of both files, the
files that they name, their settings, and their health checks.
"""

import contextlib
import functools
import http.server
import json
import re
import shlex
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import HOST, ROOT, environment, free_port
from tonne import __version__
from tonne.apps.cli.main import COMMANDS
from tonne.apps.cli.operations.processes import STOP_MARGIN_S
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings

CONTAINER = ROOT / "deploy" / "container"
UV = Path(sysconfig.get_path("scripts")) / "uv"
# Has the schema of compose files as types.
VALIDATOR = ["--with", "compose-spec==0.2.1", "--with", "pyyaml==6.0.3"]
VALIDATE = """
import json, sys, yaml, compose_spec
found = yaml.safe_load(sys.stdin)
compose_spec.ComposeSpecification.model_validate({key: found[key] for key in found if not key.startswith("x-")})
print(json.dumps(found))
"""
GRANIAN_STOP_S = 15


def _instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile with their arguments, continued lines joined."""
    text = (CONTAINER / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines()]


def _final_stage() -> dict[str, str]:
    names = [name for name, _ in _instructions()]
    last = len(names) - 1 - names[::-1].index("FROM")
    return dict(_instructions()[last:])


@functools.cache
def _compose() -> dict[str, Any]:
    text = (CONTAINER / "compose.yaml").read_text(encoding="utf-8")
    command: list[str | Path] = [
        UV,
        "run",
        "--quiet",
        "--no-project",
        "--python",
        sys.executable,
        *VALIDATOR,
        "python",
        "-c",
        VALIDATE,
    ]
    done = subprocess.run(command, input=text, env=environment({}), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_file_that_is_copied_exists_and_is_part_of_the_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    copied = [shlex.split(words)[:-1] for name, words in _instructions() if name == "COPY"]
    sources = [source for words in copied for source in words if not words[0].startswith("--from")]
    assert "src" in sources
    for source in sources:
        assert (ROOT / source).exists()
        either = "|".join(re.escape(each) for each in (source, source.partition("/")[0]))
        assert re.search(rf"^!({either})/?$", ignored, re.MULTILINE), source


def test_the_image_runs_as_a_user_without_rights() -> None:
    stage = _final_stage()
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", stage["USER"])
    assert json.loads(stage["ENTRYPOINT"]) == ["tonne"]
    assert set(json.loads(stage["CMD"])) <= set(COMMANDS)
    assert stage["STOPSIGNAL"] == "SIGTERM"


def test_the_python_of_the_image_is_one_that_is_tested() -> None:
    bases = {words.split()[0] for name, words in _instructions() if name == "FROM"}
    assert bases == {"docker.io/library/python:3.11-slim-bookworm"}


def test_the_versions_agree() -> None:
    assert _compose()["services"]["api"]["image"] == f"tonne:{__version__}"
    assert f"-t tonne:{__version__} " in (CONTAINER / "Containerfile").read_text(encoding="utf-8")


class _Health(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health/ready" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _server(status: int, port: int) -> Iterator[None]:
    handler = type("Handler", (_Health,), {"status": status})
    with http.server.ThreadingHTTPServer((HOST, port), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def _code(words: list[str], port: int) -> int:
    command = [sys.executable if word == "python" else word for word in words]
    return subprocess.run(command, env=environment({"port": port}), capture_output=True, check=False).returncode


@pytest.mark.parametrize("of", ["image", "worker"])
def test_the_health_check_fails_unless_the_service_is_ready(of: str) -> None:
    if of == "image":
        words = json.loads(_final_stage()["HEALTHCHECK"].partition("CMD ")[2])
    else:
        kind, *words = _compose()["services"]["worker"]["healthcheck"]["test"]
        assert kind == "CMD"
    port = free_port()
    words = [word.replace(":9464/", f":{port}/") for word in words]
    assert _code(words, port) != 0
    for status, is_healthy in ((200, True), (503, False)):
        with _server(status, port):
            assert (_code(words, port) == 0) == is_healthy


def test_the_settings_in_the_compose_file_are_valid(tmp_path: Path) -> None:
    compose = _compose()
    named = set(compose["secrets"])
    values = {"database_url": "postgresql://tonne:x@postgres/tonne", "secret_key": "A" * 43 + "="}
    for name, service in compose["services"].items():
        assert set(service.get("secrets", ())) <= named
        if name == "postgres":
            continue
        assert service["command"][0] in COMMANDS
        variables = {key: str(value) for key, value in service["environment"].items()}
        variables["TONNE_PUBLIC_URL"] = "https://offsets.example.com"
        for key, value in variables.items():
            if value.startswith("/run/secrets/"):
                secret = value.removeprefix("/run/secrets/")
                assert secret in service["secrets"]
                (tmp_path / secret).write_text(values[secret], encoding="utf-8")
                variables[key] = str(tmp_path / secret)
        settings = load_settings(variables)
        assert settings.database_url == values["database_url"]
        assert str(settings.proxy_networks[0].network_address) == "172.30.0.1"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_a_stop_may_take_as_long_as_requests_and_the_drain() -> None:
    services = _compose()["services"]
    drain_s = float(services["api"]["environment"]["TONNE_DRAIN_S"])
    assert _seconds(services["api"]) >= drain_s + GRANIAN_STOP_S + STOP_MARGIN_S
    assert _seconds(services["worker"]) >= Settings().webhook_timeout_s + STOP_MARGIN_S


def _seconds(service: dict[str, Any]) -> float:
    return float(service["stop_grace_period"].removesuffix("s"))

"""The wheel, installed with pipx outside the repository."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT, environment, free_port
from tonne import __version__

UV = Path(sysconfig.get_path("scripts")) / "uv"
PIPX = "pipx==1.18.4"
READY_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: the build writes into its folder, and would find files of an earlier one there."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", "clients/verify", "requirements"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build: list[str | Path] = [
        UV,
        "build",
        "--quiet",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        folder / "dist",
    ]
    # The wheel is made of the source archive, so this also tests the archive.
    _run([*build, source], folder)
    return next((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def tonne(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, installed with the locked versions of its dependencies."""
    folder = tmp_path_factory.mktemp("pipx")
    locked = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", locked, re.MULTILINE)), encoding="utf-8")
    places = {f"PIPX_{name}": str(folder / name.lower()) for name in ("HOME", "BIN_DIR", "MAN_DIR")}
    pipx: list[str | Path] = [
        UV,
        "tool",
        "run",
        "--quiet",
        PIPX,
        "install",
        "--backend",
        "uv",
        "--python",
        sys.executable,
        wheel,
    ]
    # pipx looks for uv in the path, and the environment of the tests need not be active.
    path = os.pathsep.join([str(UV.parent), os.environ.get("PATH", os.defpath)])
    _run(pipx, folder, {**places, "UV_CONSTRAINT": str(constraints), "PATH": path})
    return folder / "bin_dir" / "tonne"


def _run(command: list[str | Path], folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """Without the variables that would lead to the modules of the repository."""
    inherited = {name: value for name, value in environment({}).items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        command, cwd=folder, env=inherited | dict(variables or {}), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tonne/")}
    source = ROOT / "src"
    files = [path for path in (source / "tonne").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert packed == {path.relative_to(source).as_posix() for path in files}
    endings = {Path(name).suffix for name in packed}
    assert {".sql", ".html", ".css", ".js", ".typ", ".ttf", ".csv", ".svg", ".toml", ".typed"} <= endings


def test_the_installed_command_prints_its_version(tonne: Path, tmp_path: Path) -> None:
    assert _run([tonne, "--version"], tmp_path) == f"tonne, version {__version__}\n"


def test_the_installed_command_serves_the_demo_and_completes_an_order(tonne: Path, tmp_path: Path) -> None:
    """Completing an order needs the migrations, the demo's catalogue, the templates and the fonts of PDF files."""
    with _demo(tonne, tmp_path) as (url, demo):
        client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {demo['test']['api_key']}"}, timeout=30)
        with client:
            placed = client.post("/v1/orders/by-mass", json={"mass": {"amount": "1", "unit": "t"}})
            assert placed.status_code == 201, placed.text
            order_id = placed.json()["id"]

            def is_complete() -> bool:
                return bool(client.get(f"/v1/orders/{order_id}").json()["status"] == "complete")

            wait_until(is_complete, 60, "the order is complete")
            certificate = client.get(f"/v1/orders/{order_id}/certificate")
            assert certificate.content.startswith(b"%PDF-")
            assert client.get("/docs/").status_code == 200
            assert client.get("/docs/try/").status_code == 200


@contextlib.contextmanager
def _demo(tonne: Path, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    port, data = free_port(), folder / "data"
    variables = environment({"port": port, "data_dir": data})
    del variables["PATH"]
    variables = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    with (folder / "out").open("wb") as log:
        server = subprocess.Popen(
            [tonne, "serve", "--demo=empty"], cwd=folder, env=variables | {"PATH": os.defpath}, stdout=log, stderr=log
        )
    try:

        def is_ready() -> bool:
            assert server.poll() is None, (folder / "out").read_text(encoding="utf-8")
            return "Press Ctrl-C to stop." in (folder / "out").read_text(encoding="utf-8")

        wait_until(is_ready, READY_WITHIN_S, "the demo is ready")
        yield f"http://{HOST}:{port}", msgspec.json.decode((data / "demo.json").read_bytes())
    finally:
        server.terminate()
        assert server.wait(60) == 0

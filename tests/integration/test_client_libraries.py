"""The client libraries as people install them: the wheel in an environment of its own, the compiled package of npm."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clients import node
from tests.clients.test_typescript import check_shown
from tests.integration.node_packages import HOME, find_node_program
from tests.support.processes import HOST, ROOT, Process, environment, free_port

UV = Path(sysconfig.get_path("scripts")) / "uv"
PYTHON_CLIENT = ROOT / "clients" / "python"
GUIDE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Demo:
    url: str
    key: str

    def filled_in(self, text: str) -> str:
        return text.replace("http://localhost:8080", self.url).replace("tonne_test_…", self.key)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder, port = tmp_path_factory.mktemp("clients"), free_port()
    url = f"http://{HOST}:{port}"
    private = {"webhook_allow_private": "127.0.0.0/8"}
    settings = {"data_dir": folder / "data", "port": port, "public_url": url, **private}
    tonne = Process("tonne", "serve", "--demo=empty", settings=settings, log=folder / "tonne.log")
    try:
        tonne.wait_until_ready(port)
        facts = msgspec.json.decode((folder / "data" / "demo.json").read_bytes())
        yield Demo(url, facts["test"]["api_key"])
    finally:
        tonne.stop()


def run(*command: str | Path, folder: Path, code: int = 0) -> str:
    """Without the variables that would lead to the modules of the repository."""
    inherited = {name: value for name, value in environment({}).items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=folder, env=inherited, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def block(language: str) -> str:
    """The first block of this language in the guide."""
    return str(re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)[0])


def test_the_wheel_of_the_python_client_works_alone(demo: Demo, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(PYTHON_CLIENT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    build = ("build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", tmp_path / "dist")
    run(UV, *build, source, folder=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tonne_client/")}
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA")]
    files = (source / "src").rglob("*")
    assert packed == {path.relative_to(source / "src").as_posix() for path in files if path.suffix in {".py", ".typed"}}
    assert re.findall(r"^Requires-Dist: (\w+)", metadata, re.MULTILINE) == ["httpx"]
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, wheel, folder=tmp_path)
    (tmp_path / "guide.py").write_text(demo.filled_in(block("python")), encoding="utf-8")
    assert "order.placed" in run(python, "guide.py", folder=tmp_path)


def test_the_typescript_client_compiles_and_works(demo: Demo, tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(node.TYPESCRIPT, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    run(find_node_program("tsc"), "-p", package, folder=tmp_path)
    assert (package / "dist" / "index.d.ts").exists()
    programs = tmp_path / "programs"
    (programs / "node_modules").mkdir(parents=True)
    (programs / "node_modules" / "tonne-client").symlink_to(package)
    (programs / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    shutil.copy(node.HERE / "client.ts", programs)
    (programs / "guide.ts").write_text(demo.filled_in(block("typescript")), encoding="utf-8")
    readme = "\n".join(
        re.findall(r"^```ts\n(.*?)^```$", (package / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    (programs / "readme.ts").write_text(demo.filled_in(readme), encoding="utf-8")
    options = json.loads((package / "tsconfig.json").read_text("utf-8"))["compilerOptions"]
    changed = {**options, "rootDir": ".", "outDir": "built", "declaration": False}
    config = {"compilerOptions": changed, "files": ["client.ts", "guide.ts", "readme.ts", "process.d.ts"]}
    (programs / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    (programs / "process.d.ts").write_text("declare const process: { argv: string[] };\n", encoding="utf-8")
    run(find_node_program("tsc"), "-p", programs, folder=programs)
    printed: dict[str, Any] = json.loads(run(node.NODE, "built/client.js", demo.url, demo.key, folder=programs))
    assert printed["shown"]["lost"]
    check_shown({**printed["shown"], "account": "account test"})
    assert run(node.NODE, "built/guide.js", folder=programs).startswith("ord_")
    assert run(node.NODE, "built/readme.js", folder=programs).endswith("401\n")


def test_both_locks_have_the_same_compiler() -> None:
    own = json.loads((node.TYPESCRIPT / "package.json").read_text("utf-8"))["devDependencies"]["typescript"]
    assert json.loads((HOME / "package.json").read_text("utf-8"))["dependencies"]["typescript"] == own

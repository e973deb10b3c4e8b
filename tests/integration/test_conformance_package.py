"""tonne-conformance as a stranger installs it: its wheel alone, in an environment of its own."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.conformance.own_installation import own_installation
from tests.integration.test_client_libraries import UV, run
from tests.support.processes import ROOT


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conformance")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "clients" / "conformance", source, ignore=ignored)
    build = ("build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder / "dist")
    run(UV, *build, source, folder=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, wheel, folder=folder)
    with pytest.raises(AssertionError, match="No module named 'tonne'"):
        run(python, "-c", "import tonne", folder=folder)
    return python.with_name("tonne-conformance")


def test_the_installed_command_proves_a_section(command: Path, tmp_path: Path) -> None:
    with own_installation(tmp_path) as own:
        options = own.options
        shown = run(
            *(command, "--url", options.url, "--key", options.key, "--receiver", options.receiver.base_url),
            *("--certificate-dir", tmp_path / "certificates", "--report-dir", "report", "--only", "5.2", "limits"),
            folder=tmp_path,
        )
    assert "TONNE_WEBHOOK_CA_FILE=" in shown
    assert " 0 failed, 0 skipped." in shown
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["junit.xml", "report.html", "report.txt"]

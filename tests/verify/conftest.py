from pathlib import Path

import pytest

from tests.verify.seller import Seller


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `tonne-verify` writes: not in the home of who runs the tests, and evidence of forks not in the project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture(scope="session")
def seller() -> Seller:
    """RSA keys take long to make."""
    return Seller()

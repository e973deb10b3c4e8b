"""The documentation names files, packages, jobs, settings and commands that exist."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.architecture.source import PACKAGE, ROOT
from tonne.platform.settings.load_settings import CONFIG_VARIABLE
from tonne.platform.settings.settings import Settings

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# Also a path inside a package, such as `selling/orders/model.py`, and a file beside it in the same sentence.
SOURCE_FILE = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|sql|html|css|js))`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
VARIABLE = re.compile(r"\bTONNE_[A-Z_]+\b")
PROJECT_FOLDERS = ("src", "tests", "tools", "bench", "chaos", "deploy", "docs", "examples")


def _is_file(name: str) -> bool:
    folder = ROOT if name.split("/", maxsplit=1)[0] in PROJECT_FOLDERS else PACKAGE
    return (folder / name).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_resolves(page: Path) -> None:
    found = LINK.findall(page.read_text(encoding="utf-8"))
    # Pages of the site that are made when it is built: tests/site checks links to them.
    targets = [target for target in found if "://" not in target and not target.startswith("/docs/")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_source_file_named_exists(page: Path) -> None:
    assert [name for name in SOURCE_FILE.findall(page.read_text(encoding="utf-8")) if not _is_file(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_named_exists(page: Path) -> None:
    known = {f"TONNE_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}
    known |= {f"{name}_FILE" for name in known}
    known |= {CONFIG_VARIABLE, "TONNE_API_KEY", "TONNE_API_URL", "TONNE_LISTEN_SECRET"}
    assert set(VARIABLE.findall(page.read_text(encoding="utf-8"))) <= known


def test_the_architecture_page_lists_all_jobs() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| Job | Due rows | Held by |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in re.findall(r"`([a-z_]+)`", row.split(" | ")[0])}
    wiring = (PACKAGE / "apps" / "wiring" / "jobs.py").read_text(encoding="utf-8")
    jobs = re.findall(r'(?:Job|_throttled)\(\s*f?"([a-z_{}]+)"', wiring)
    # Jobs that a package composes itself.
    for path in PACKAGE.rglob("jobs.py"):
        jobs += re.findall(r'^        "([a-z_]+)": ', path.read_text(encoding="utf-8"), re.MULTILINE)
    modes = ("live", "test")
    assert listed == {name.replace("{mode}", mode) for name in jobs for mode in modes}

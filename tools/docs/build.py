"""Stages the sources, runs the generator in its strict mode, and publishes the result into the package."""

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.docs.openapi import openapi_document
from tools.docs.publish import publish
from tools.docs.reference import reference_pages
from tools.docs.sources import ROOT, stage

SITE = ROOT / "src" / "tonne" / "channels" / "public_pages" / "site" / "documentation"
STAGE = ROOT / "build" / "docs"
CONFIG = Path(__file__).parent / "zensical.toml"
OVERRIDES = Path(__file__).parent / "overrides"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class BuildFailed(Exception):
    """The generator refused a page. The message is its report."""


def build(*, force: bool = False) -> bool:
    """Whether it was built: the site of unchanged sources is kept. Concurrent builds wait for each other."""
    STAGE.parent.mkdir(exist_ok=True)
    with (STAGE.parent / "docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = openapi_document()
        digest = _stage_all(document)
        stamp = STAGE / "published"
        if not force and SITE.is_dir() and stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
            return False
        stamp.unlink(missing_ok=True)
        _generate()
        publish(STAGE / "site", SITE)
        stamp.write_text(digest, encoding="utf-8")
        return True


def _stage_all(document: dict[str, Any]) -> str:
    """Write what the generator reads, and return a digest of it."""
    pages = STAGE / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    stage(pages)
    navigation = reference_pages(document, pages / "api")
    shutil.rmtree(STAGE / "overrides", ignore_errors=True)
    shutil.copytree(OVERRIDES, STAGE / "overrides")
    config = CONFIG.read_text(encoding="utf-8")
    if config.count("[REFERENCE]") != 1:
        raise BuildFailed(f"{CONFIG.name} must have [REFERENCE] once, where the pages of the API reference go.")
    entries = ", ".join(f"{{ {json.dumps(title)} = {json.dumps(page)} }}" for title, page in navigation)
    (STAGE / "zensical.toml").write_text(config.replace("[REFERENCE]", f"[{entries}]"), encoding="utf-8")
    digest = hashlib.sha256()
    tools = sorted(Path(__file__).parent.glob("*.py"))
    staged = [STAGE / "zensical.toml", *sorted(pages.rglob("*")), *sorted((STAGE / "overrides").rglob("*")), *tools]
    for path in staged:
        if path.is_file():
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _generate() -> None:
    shutil.rmtree(STAGE / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", "zensical.toml"]
    done = subprocess.run(command, cwd=STAGE, capture_output=True, text=True, check=False)
    if done.returncode:
        report = _COLOURS.sub("", done.stdout + done.stderr).partition("Traceback")[0]
        raise BuildFailed(
            f"The documentation has errors. Lines are those of {STAGE.relative_to(ROOT)}/pages.\n{report}"
        )

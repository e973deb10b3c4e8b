"""Lock files, make targets and CI."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, imports, modules

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def test_there_are_locks_for_every_purpose() -> None:
    names = ["build", "dev", "docs", "failover", "otel", "pkcs11", "runtime", "sentry", "uv"]
    assert [lock.stem for lock in LOCKS] == names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_file_names_no_package_index(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    assert "http" not in re.sub(r"^(http\w*|[\w-]*http[\w-]*)==", "", text, flags=re.MULTILINE)
    options = [line.split()[0] for line in text.splitlines() if line.startswith("-")]
    assert options == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_of_a_lock_is_pinned_with_hashes(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
    pins = [entry for entry in entries if not entry.startswith("#")]
    assert pins
    for pin in pins:
        assert re.match(r"[\w.\[\],-]+==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin


def test_development_pins_agree_with_the_runtime() -> None:
    def versions(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE))

    runtime, dev = versions("runtime.txt"), versions("dev.txt")
    assert {name: dev.get(name) for name in runtime if name in dev} == {n: v for n, v in runtime.items() if n in dev}


@pytest.mark.parametrize(
    ("folder", "kind"), [("tests/integration/clients", "dependencies"), ("clients/typescript", "devDependencies")]
)
def test_node_packages_are_pinned_with_hashes_and_name_no_registry(folder: str, kind: str) -> None:
    text = (ROOT / folder / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in text
    lock, requested = json.loads(text), json.loads((ROOT / folder / "package.json").read_text(encoding="utf-8"))
    assert lock["packages"].pop("")[kind] == requested[kind], "run make lock"
    assert all(re.fullmatch(r"[0-9.]+", version) for version in requested[kind].values())
    assert [name for name, package in lock["packages"].items() if "integrity" not in package] == []


OWN = {"tonne", "tests", "bench", "chaos", "tools", "clients", "tonne_client", "tonne_verify", "tonne_conformance"}
# Optional packages, and the only modules that may import them: everything else runs without.
EXTRAS = {
    "otel.in": "src/tonne/platform/process/telemetry/tracing_sdk.py",
    "pkcs11.in": "src/tonne/platform/keys/signing/pkcs11_key.py",
    "sentry.in": "src/tonne/platform/process/telemetry/sentry_reports.py",
}


def test_every_imported_package_is_a_requirement_of_its_own() -> None:
    """A package that another one brings along goes when that one goes."""

    def named(name: str) -> set[str]:
        lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
        return {re.split(r"[<>=\[]", line)[0] for line in lines if line and line[0] not in "#-"}

    runtime = named("runtime.in")
    packages = packages_distributions()
    missing = set()
    for module in modules():
        is_source = module.path.is_relative_to(ROOT / "src")
        allowed = runtime if is_source else runtime | named("dev.in")
        for extra, importer in EXTRAS.items():
            allowed |= named(extra) if module.name == importer or not is_source else set()
        for name, _ in imports(module):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names | OWN:
                continue
            if not {found.lower().replace("_", "-") for found in packages[top]} & allowed:
                missing.add(f"{module.name}: {top}")
    assert missing == set()


@pytest.mark.parametrize(
    "target",
    [
        "run",
        "test",
        "test-integration",
        "test-random",
        "setup",
        "lint",
        "format",
        "clients",
        "bench",
        "chaos",
        "conformance",
        "tools",
        "lock",
        "clean",
    ],
)
def test_every_make_target_can_be_read(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"warning|error", done.stderr, re.IGNORECASE)


def test_make_says_which_python_it_needs(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    for name in ("Makefile", "tools/install.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    done = subprocess.run(["make", "PYTHON=", "setup"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == "Tonne needs Python 3.11 or newer: install it, then run make again."
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("failing", ["lint", "test", "test-integration", "none"])
def test_ci_runs_what_people_run_and_fails_if_one_of_it_fails(failing: str, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(f'#!/bin/sh\necho "$1" >>{tmp_path}/begun\necho "made $1"\n[ "$1" != {failing} ]\n')
    make.chmod(0o755)
    path = f"{make.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [tmp_path / ".ci" / "run"], env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    # The integration tests begin with lint, and end when lint fails.
    shown = {"setup", "lint"} if failing == "lint" else {"setup", "lint", "test", "test-integration"}
    assert (done.returncode == 0) == (failing == "none"), done
    begun = set((tmp_path / "begun").read_text(encoding="utf-8").split())
    assert begun | {"test-integration"} == shown | {"test-integration"}
    assert {line.removeprefix("made ") for line in done.stdout.splitlines()} == shown, "CI shows what each printed"


def test_no_two_templates_have_the_same_name() -> None:
    """The folders of all packages are searched one after the other: the second template would never be found."""
    names = [path.name for path in (ROOT / "src" / "tonne").glob("*/templates/*.html")]
    assert sorted(names) == sorted(set(names))

"""The sample units for systemd: verified by systemd, and their commands run with the settings that they state.

systemd itself does not run here. Its sandbox is only checked for valid directives and by its own exposure level.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.integration.programs import find_program
from tests.support.command import TONNE, wait_until
from tests.support.processes import HOST, ROOT, free_port
from tonne.apps.cli.operations.processes import STOP_MARGIN_S
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings

UNITS = ROOT / "deploy" / "systemd"
COMMON = Path("tonne-.service.d") / "common.conf"
PROGRAM = "/opt/tonne/bin/tonne"
INSTANCE = "8081"
NAMES = ["tonne-migrate.service", "tonne-check.service", f"tonne-api@{INSTANCE}.service", "tonne-worker.service"]
# Those that a timer starts, and what runs when they fail.
SCHEDULED = ["doctor", "backup", "restore-test"]
NAMES += [*(f"tonne-{name}.service" for name in SCHEDULED), "tonne-failed@backup.service"]
TIMERS = [f"tonne-{name}.timer" for name in SCHEDULED]
# On a scale of ten. Above it, systemd calls a service less than OK.
MAX_EXPOSURE = 2.0


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A copy with the path of our own program: systemd looks whether it is there."""
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for path in folder.glob("*.service"):
        text = path.read_text(encoding="utf-8")
        assert text.count(f"ExecStart={PROGRAM} ") == 1
        path.write_text(text.replace(PROGRAM, str(TONNE)), encoding="utf-8")
    return folder


def _analyze(folder: Path, *words: str) -> str:
    """The output of systemd-analyze, which must not complain."""
    environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:", "SYSTEMD_LOG_TARGET": "console"}
    command = [find_program("systemd-analyze"), *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_all_units_are_tested() -> None:
    named = {re.sub(r"@\w+", "@", name) for name in (*NAMES, *TIMERS)}
    assert {path.name for path in UNITS.glob("*.*") if path.is_file()} == named


def test_systemd_accepts_the_units(units: Path) -> None:
    _analyze(units, "verify", "--man=no", *(f"./{name}" for name in (*NAMES, *TIMERS)))


def test_systemd_reads_what_the_units_have_in_common(units: Path) -> None:
    with (units / COMMON).open("a", encoding="utf-8") as file:
        file.write("Misspelt=yes\n")
    for name in NAMES:
        with pytest.raises(AssertionError, match="Misspelt"):
            _analyze(units, "verify", "--man=no", f"./{name}")


def test_the_units_are_isolated(units: Path) -> None:
    for name in NAMES:
        found = _analyze(units, "security", "--offline=yes", "--no-pager", f"./{name}")
        level = re.search(r"exposure level for \S+: ([0-9.]+)", found)
        assert level is not None
        assert float(level[1]) <= MAX_EXPOSURE, found


def test_a_stop_may_take_as_long_as_requests_and_the_drain() -> None:
    settings = Settings()
    worker, api = _directives("tonne-worker.service"), _directives(f"tonne-api@{INSTANCE}.service")
    assert float(worker["TimeoutStopSec"][0]) >= settings.webhook_timeout_s + STOP_MARGIN_S
    drain_s = float(next(value for value in api["Environment"] if "DRAIN" in value).partition("=")[2])
    # Granian kills its processes after 15 s.
    assert float(api["TimeoutStopSec"][0]) >= drain_s + 15 + STOP_MARGIN_S


def _directives(name: str) -> dict[str, list[str]]:
    """The lines of a unit with its drop-ins, in the order of systemd; the specifiers %i and %d as they are."""
    template = re.sub(r"@\w+", "@", name)
    found: dict[str, list[str]] = {}
    for path in (UNITS / template, UNITS / COMMON, *sorted((UNITS / f"{template}.d").glob("*.conf"))):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "=" in line and not line.startswith("#"):
                key, _, value = line.partition("=")
                # An empty value forgets those before it.
                found[key] = [*found.get(key, []), value] if value else []
    return found


def test_the_test_of_a_restore_runs_as_postgres_and_leaves_the_folder_of_the_service_alone() -> None:
    unit = _directives("tonne-restore-test.service")
    assert (unit["User"][-1], unit["StateDirectory"]) == ("postgres", ["tonne-restore-test"])
    assert [each for each in unit["Environment"] if "DATA_DIR" in each][-1].endswith("=/var/lib/tonne-restore-test")
    folders = [path.name for path in UNITS.iterdir() if path.is_dir()]
    assert sorted(folders) == ["tonne-.service.d", "tonne-restore-test.service.d"]


class Unit:
    """Runs the command of a unit as systemd does, without its sandbox and as this user."""

    def __init__(self, name: str, folder: Path, database: Database, settings: Settings) -> None:
        self._directives = _directives(name)
        self._folder = folder
        secrets = {"database_url": database._url, "secret_key": settings.secret_key}
        credentials = folder / "credentials"
        credentials.mkdir(mode=0o700, exist_ok=True)
        for entry in self._directives["LoadCredential"]:
            (credentials / entry.partition(":")[0]).write_text(f"{secrets[entry.partition(':')[0]]}\n")
        (folder / "tonne.toml").write_text(f'host = "{HOST}"\n', encoding="utf-8")
        self.port, self.metrics_port = free_port(), free_port()
        values = dict(entry.split("=", 1) for entry in self._directives["Environment"])
        assert values.get("TONNE_PORT", "%i") == "%i"
        values |= {
            "TONNE_CONFIG": str(folder / "tonne.toml"),
            "TONNE_DATA_DIR": str(folder),
            "TONNE_PORT": str(self.port),
            "TONNE_METRICS_PORT": str(self.metrics_port),
            "TONNE_DRAIN_S": "0",
        }
        self._instance = re.sub(r".*@|\..*", "", name)
        self._environment = {name: value.replace("%d", str(credentials)) for name, value in values.items()}
        self._environment["PATH"] = os.environ["PATH"]
        self._environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")

    @property
    def _command(self) -> list[str]:
        program, *words = self._directives["ExecStart"][0].split()
        assert program == PROGRAM
        return [str(TONNE), *(word.replace("%i", self._instance) for word in words)]

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command, env=self._environment, cwd=self._folder, capture_output=True, text=True, check=False
        )

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, cwd=self._folder)


@pytest.fixture
def running(populated_db: Database, settings: Settings, tmp_path: Path) -> dict[str, Unit]:
    return {name: Unit(name, tmp_path, populated_db, settings) for name in NAMES}


def test_the_commands_of_the_units_work(running: dict[str, Unit]) -> None:
    migrate, check, api, worker, doctor, backup, restore_test, failed = (running[name] for name in NAMES)
    migrated = migrate.run()
    assert (migrated.returncode, "up to date" in migrated.stdout) == (0, True), migrated.stderr
    checked = check.run()
    assert checked.returncode in {0, 3}, checked.stdout
    assert "ERROR" not in checked.stdout
    examined = doctor.run()
    assert examined.returncode in {0, 3}, examined.stdout + examined.stderr
    for unit in (backup, failed):
        done = unit.run()
        assert done.returncode == 0, done.stderr
    # There is no repository with a backup here.
    tested = restore_test.run()
    assert (tested.returncode, "The backup cannot be restored" in tested.stderr) == (1, True), tested
    processes = {api.port: api.start(), worker.metrics_port: worker.start()}
    try:
        for port, process in processes.items():
            wait_until(lambda port=port, process=process: _is_ready(port, process), 60, "ready")  # type: ignore[misc]
    finally:
        for process in processes.values():
            process.terminate()
        codes = [process.wait(60) for process in processes.values()]
    assert codes == [0, 0]


def _is_ready(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None
    try:
        return httpx.get(f"http://{HOST}:{port}/health/ready").status_code == 200
    except httpx.TransportError:
        return False

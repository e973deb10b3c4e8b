"""The embedded PostgreSQL: private, supervised, and never confused with another process."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from tonne.platform.db.server import postmaster as server_files
from tonne.platform.db.server.embedded import EmbeddedServer, start_server
from tonne.platform.db.server.postmaster import DatabaseUnavailable, Postmaster

WITHIN_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "postgres"
    yield path
    Postmaster(path).stop()


def answers(server: EmbeddedServer) -> bool:
    return asyncio.run(_ask(server))


async def _ask(server: EmbeddedServer) -> bool:
    connection = await asyncpg.connect(server.url("postgres"))
    try:
        return bool(await connection.fetchval("SELECT true"))
    finally:
        await connection.close()


def process_of(server: EmbeddedServer) -> psutil.Process:
    process = server.postmaster.running()
    assert process is not None
    return process


def wait_for_restart(server: EmbeddedServer, old: psutil.Process) -> None:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        # In this order: the file of the old server also says that it is ready.
        if server.postmaster.running() not in (None, old) and server.postmaster.is_ready():
            return
        time.sleep(0.05)
    raise AssertionError("the server was not restarted")


def test_operations_5_a_process_with_the_id_of_a_stale_pid_file_is_left_alone(folder: Path) -> None:
    start_server(folder).close()
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        lines = [
            str(stranger.pid),
            str(folder / "data"),
            "1700000000",
            "5432",
            str(folder),
            "",
            "  1234  5678",
            "ready",
        ]
        (folder / "data" / "postmaster.pid").write_text("\n".join(lines) + "\n")
        server = start_server(folder)
        assert answers(server)
        server.close()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_operations_6_a_killed_server_is_restarted(folder: Path) -> None:
    server = start_server(folder)
    old = process_of(server)
    old.kill()
    wait_for_restart(server, old)
    assert answers(server)
    server.close()


def test_operations_6_a_server_that_cannot_restart_recovers_once_the_cause_is_gone(folder: Path) -> None:
    server = start_server(folder)
    old = process_of(server)
    settings = folder / "data" / "postgresql.auto.conf"
    settings.write_text("no_such_setting = 1\n")
    tries = server.postmaster.log.read_text().count("no_such_setting")
    old.kill()
    deadline = time.monotonic() + WITHIN_S
    while server.postmaster.log.read_text().count("no_such_setting") == tries and time.monotonic() < deadline:
        time.sleep(0.05)
    settings.write_text("")
    wait_for_restart(server, old)
    assert answers(server)
    server.close()


def test_operations_6_a_server_that_could_not_write_its_state_is_joined(folder: Path) -> None:
    """A full disk truncates `postmaster.pid`. Others must not wait for a state that is never written."""
    server = start_server(folder)
    try:
        pid_file = server.postmaster.data / "postmaster.pid"
        pid_file.write_text("".join(pid_file.read_text().splitlines(keepends=True)[:7]))
        polls = iter(range(20))
        Postmaster(folder).start(keep_waiting=lambda: next(polls, None) is not None)
        assert next(polls, None) is not None
    finally:
        server.close()


class SlowPostmaster(Postmaster):
    """Its server stops itself before it does anything, and starts when it is continued."""

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = super()._command(program, *arguments)
        return ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command] if program == "postgres" else command

    def resume(self) -> None:
        assert self._child is not None
        os.kill(self._child.pid, signal.SIGCONT)


def test_operations_6_a_slow_start_is_waited_for_with_progress_reports(folder: Path) -> None:
    reports: list[str] = []

    def report(message: str) -> None:
        reports.append(message)
        postmaster.resume()

    postmaster = SlowPostmaster(folder, report, report_every_s=0.3)
    postmaster.prepare()
    postmaster.start()
    assert postmaster.is_ready()
    assert reports
    assert reports[0].startswith("The database is starting (")
    postmaster.stop()


@pytest.mark.parametrize("name", ["with space", "100%", "a#b", "a,b", 'it\'s "quoted"', "ünïcode", "x" * 120])
def test_operations_15_any_name_of_the_data_folder_works(tmp_path: Path, name: str) -> None:
    server = start_server(tmp_path / name / "postgres")
    try:
        assert answers(server)
        assert len(server.socket_folder) < 108
        assert stat.S_IMODE(Path(server.socket_folder).stat().st_mode) == 0o700
    finally:
        server.close()


def test_security_3_and_4_socket_and_folders_stay_private(tmp_path: Path) -> None:
    parent = tmp_path / "private"
    parent.mkdir(mode=0o700)
    server = start_server(parent / "data" / "postgres")
    try:
        assert stat.S_IMODE(parent.stat().st_mode) == 0o700
        assert stat.S_IMODE((parent / "data" / "postgres").stat().st_mode) == 0o700
        [socket] = Path(server.socket_folder).glob(".s.PGSQL.*[0-9]")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert process_of(server).net_connections("inet") == []
    finally:
        server.close()


def test_security_3_a_socket_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    postmaster = Postmaster(tmp_path / ("x" * 120))
    postmaster.socket_folder.symlink_to("/", target_is_directory=True)
    with pytest.raises(DatabaseUnavailable, match="belongs to another user"):
        postmaster.prepare()


def test_the_last_of_several_processes_stops_the_server(folder: Path) -> None:
    first, second = start_server(folder), start_server(folder)
    process = process_of(first)
    first.close()
    assert answers(second)
    second.close()
    assert not process.is_running()


STARTS_AND_CLOSES = """
import sys
from pathlib import Path
from tonne.platform.db.server.embedded import start_server
server = start_server(Path(sys.argv[1]))
print("started", flush=True)
sys.stdin.readline()
server.close()
print("closed", flush=True)
sys.stdin.readline()
"""


def test_stopping_does_not_wait_for_the_process_that_started_the_server(folder: Path) -> None:
    """The server is a zombie as long as the process that started it lives. Two test processes waited a minute."""
    command = [sys.executable, "-c", STARTS_AND_CLOSES, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        server = start_server(folder)
        process = process_of(server)
        starter.stdin.write("\n")
        starter.stdin.flush()
        assert starter.stdout.readline() == "closed\n"
        before = time.monotonic()
        server.close()
        assert time.monotonic() - before < server_files.STOP_WITHIN_S / 2
        assert process.status() == psutil.STATUS_ZOMBIE
        starter.stdin.write("\n")


def test_an_interrupted_first_start_is_repeated(folder: Path) -> None:
    (folder / "data.new").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("18\n")
    start_server(folder).close()


@pytest.mark.parametrize(
    ("limit", "expected_mb"),
    [("4294967296\n", 512), ("268435456\n", 64), ("max\n", None), (None, None)],
    ids=["4 GB", "256 MB", "no limit", "no container"],
)
def test_the_database_uses_an_eighth_of_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, expected_mb: int | None
) -> None:
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(limit, encoding="ascii")
    monkeypatch.setattr(server_files, "CONTAINER_MEMORY", file)
    monkeypatch.setattr(server_files, "MOST_SHARED_BUFFERS_MB", 2048)
    of_the_machine = min(psutil.virtual_memory().total // 8 // 2**20, 2048)
    assert server_files.shared_buffers_mb() == (of_the_machine if expected_mb is None else expected_mb)

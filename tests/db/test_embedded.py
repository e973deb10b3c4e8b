"""The embedded PostgreSQL: private, supervised, and never confused with another process."""

import asyncio
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from tonne.db.embedded import EmbeddedServer, start_server
from tonne.db.postmaster import DatabaseUnavailable, Postmaster

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
        if server.postmaster.is_ready() and server.postmaster.running() != old:
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


def test_operations_6_a_slow_start_is_waited_for_with_progress_reports(folder: Path) -> None:
    reports: list[str] = []

    def report(message: str) -> None:
        reports.append(message)
        child = postmaster._child
        assert child is not None
        os.kill(child.pid, signal.SIGCONT)

    def freeze_once() -> bool:
        child = postmaster._child
        if not reports and child is not None:
            os.kill(child.pid, signal.SIGSTOP)
        return True

    postmaster = Postmaster(folder, report, report_every_s=0.3)
    postmaster.prepare()
    postmaster.start(keep_waiting=freeze_once)
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


def test_an_interrupted_first_start_is_repeated(folder: Path) -> None:
    (folder / "data.new").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("18\n")
    start_server(folder).close()

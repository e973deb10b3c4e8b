"""Point-in-time recovery of your own PostgreSQL with pgBackRest, as docs/operations.md describes it."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

import asyncpg
import pytest

from tests.architecture.source import ROOT
from tests.integration.programs import find_program
from tests.support.command import Operator, tonne
from tests.support.orders import place
from tests.support.world import World, build_world
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.server.postmaster import unprivileged
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

SAMPLE = ROOT / "deploy" / "pgbackrest" / "pgbackrest.conf"
WITHIN_S = 60.0
SECRET_KEY = "A" * 43


class OwnServer:
    """PostgreSQL 15 of the distribution, in a folder of its own, with pgBackRest set up by the sample file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.data = folder / "data"
        self.backrest_file = folder / "pgbackrest.conf"
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
        self._configure()

    def _configure(self) -> None:
        text = SAMPLE.read_text(encoding="utf-8")
        places = {
            "/var/lib/pgbackrest": "repository",
            "/var/log/pgbackrest": "backrest-log",
            "/tmp/pgbackrest": "locks",  # noqa: S108 - a value of the sample
            "/var/spool/pgbackrest": "spool",
            "/var/lib/postgresql/15/main": "data",
            "/var/run/postgresql": "",
        }
        for sample, own in places.items():
            assert f"={sample}\n" in text, "the sample changed"
            (self._folder / own).mkdir(exist_ok=True)
            text = text.replace(f"={sample}\n", f"={self._folder / own}\n")
        self.backrest_file.write_text(text, encoding="utf-8")
        backrest = find_program("pgbackrest")
        settings = (
            "listen_addresses = ''",
            f"unix_socket_directories = '{self._folder}'",
            "archive_mode = on",
            f"archive_command = '{backrest} --config={self.backrest_file} --stanza=tonne archive-push %p'",
        )
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\n".join(settings) + "\n")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self._folder))}"

    def run(self, program: str, *arguments: str) -> None:
        command = [*unprivileged(), find_program(program), *arguments]
        # To a file: the server keeps its standard output, and a pipe would never end.
        with (self._folder / "output").open("w+") as output:
            done = subprocess.run(command, cwd=self._folder, stdout=output, stderr=output, check=False)
            output.seek(0)
            assert done.returncode == 0, f"{program}: {output.read()} {self._log()}"

    def _log(self) -> str:
        log = self._folder / "log"
        return log.read_text(encoding="utf-8")[-3000:] if log.exists() else ""

    def start(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-l", str(self._folder / "log"), "-w", "-t", "60", "start")

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "-t", "60", "stop")

    def backrest(self, *arguments: str) -> None:
        self.run("pgbackrest", f"--config={self.backrest_file}", "--stanza=tonne", *arguments)


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    # A short path: that of a socket has at most 107 bytes.
    folder = Path(mkdtemp(prefix="tonne-pitr-"))
    server = OwnServer(folder)
    server.start()
    yield server
    server.stop()
    subprocess.run(["rm", "-rf", "--", folder], check=True)


async def _prepare(server: OwnServer) -> World:
    admin: Connection = await asyncpg.connect(server.url("postgres"))
    assert (await admin.fetchval("SHOW server_version")).startswith("15.")
    await admin.execute("CREATE DATABASE tonne TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    await admin.close()
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    await migrate(connection)
    async with connection.transaction():
        world = await build_world(connection)
    await connection.close()
    return world


async def _place(server: OwnServer, world: World, count: int) -> tuple[datetime, set[str]]:
    """Place orders. The database's time afterwards, and the ids of all orders so far."""
    settings = Settings(secret_key=SECRET_KEY)
    database = await Database(server.url("tonne"), settings).open()
    services = Services(database, settings)
    for _ in range(count):
        await place(services, world.ours_live.scope, utc_now())
    async with database.connection() as connection:
        at = await connection.fetchval("SELECT clock_timestamp()")
    ids = await _order_ids(server)
    await services.close()
    return at, ids


async def _order_ids(server: OwnServer) -> set[str]:
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    try:
        return {row["id"] for row in await connection.fetch("SELECT id FROM orders")}
    finally:
        await connection.close()


async def _archive_all(server: OwnServer) -> None:
    """Wait until the write-ahead log so far is in the repository."""
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    segment = await connection.fetchval("SELECT pg_walfile_name(pg_switch_wal())")
    deadline = time.monotonic() + WITHIN_S
    while (await connection.fetchval("SELECT last_archived_wal FROM pg_stat_archiver") or "") < segment:
        assert time.monotonic() < deadline, "the write-ahead log was not archived"
        await asyncio.sleep(0.1)
    await connection.close()


async def _wait_for_next_second(server: OwnServer) -> None:
    """pgBackRest records the end of a backup in whole seconds, and recovers only to a later one."""
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    started = await connection.fetchval("SELECT date_trunc('second', clock_timestamp())")
    while await connection.fetchval("SELECT date_trunc('second', clock_timestamp())") == started:
        pass
    await connection.close()


async def _wait_until_promoted(server: OwnServer) -> None:
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    deadline = time.monotonic() + WITHIN_S
    while await connection.fetchval("SELECT pg_is_in_recovery()"):
        assert time.monotonic() < deadline, "the recovery did not end"
        await asyncio.sleep(0.1)
    await connection.close()


def test_a_database_is_recovered_to_a_point_in_time_and_held_until_it_is_resumed(own_server: OwnServer) -> None:
    world = asyncio.run(_prepare(own_server))
    own_server.backrest("stanza-create")
    own_server.backrest("backup", "--type=full")
    asyncio.run(_wait_for_next_second(own_server))
    until, expected = asyncio.run(_place(own_server, world, 5))
    _, later = asyncio.run(_place(own_server, world, 5))
    assert expected < later
    asyncio.run(_archive_all(own_server))

    own_server.stop()
    own_server.backrest(
        "restore", "--delta", "--type=time", f"--target={until:%Y-%m-%d %H:%M:%S.%f+00}", "--target-action=promote"
    )
    own_server.start()
    asyncio.run(_wait_until_promoted(own_server))

    operator = Operator(own_server.url("tonne"), secret_key=SECRET_KEY)
    operator.does("hold", "--reason", f"Recovered to {until:%H:%M:%S}")
    assert asyncio.run(_order_ids(own_server)) == expected
    doctor = operator.runs("doctor")
    assert doctor.returncode == 3, doctor
    assert "BROKEN" not in doctor.stdout
    assert "WARN    the service is not held" in doctor.stdout
    shown = operator.does("resume", "--yes")
    assert "orders to charge or invoice" in shown
    _, after = asyncio.run(_place(own_server, world, 1))
    assert len(after) == len(expected) + 1


def test_operations_7_the_newest_backup_of_your_own_server_is_restored_for_a_test(
    own_server: OwnServer, tmp_path: Path
) -> None:
    """With everything that was archived since; nobody but the test reaches the copy, and nothing of it stays."""
    world = asyncio.run(_prepare(own_server))
    own_server.backrest("stanza-create")
    own_server.backrest("backup", "--type=full")
    asyncio.run(_place(own_server, world, 5))
    asyncio.run(_archive_all(own_server))
    command = f"pgbackrest --config={own_server.backrest_file} --stanza=tonne --pg1-path={{data}} --archive-mode=off"
    (tmp_path / "data").mkdir(mode=0o700)

    def restore_test(with_command: str) -> subprocess.CompletedProcess[str]:
        settings = {"database_url": own_server.url("tonne"), "secret_key": SECRET_KEY}
        return tonne("restore-test", "--restore-with", with_command, **settings, data_dir=str(tmp_path / "data"))

    done = restore_test(f"{command} restore")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "all checks of its data passed" in done.stdout
    assert asyncio.run(_last_test(own_server)) == 0

    asyncio.run(_break(own_server))
    asyncio.run(_archive_all(own_server))
    broken = restore_test(f"{command} restore")
    assert broken.returncode == 1
    assert "1 checks of its data failed" in broken.stderr
    assert asyncio.run(_last_test(own_server)) == 1

    assert "The backup cannot be restored. " in restore_test(f"{command} --set=20200101-000000F restore").stderr
    assert "restored nothing" in restore_test("true {data}").stderr
    assert list((tmp_path / "data").iterdir()) == []


async def _last_test(server: OwnServer) -> int:
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    status = await connection.fetchval("SELECT status FROM operation_runs WHERE operation = 'restore_test'")
    await connection.close()
    return int(status)


async def _break(server: OwnServer) -> None:
    connection: Connection = await asyncpg.connect(server.url("tonne"))
    await connection.execute("DELETE FROM order_totals; DELETE FROM order_deltas")
    await connection.close()

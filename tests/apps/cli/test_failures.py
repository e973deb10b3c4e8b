"""Failures that the operator can fix: one sentence that says what to do, and exit code 1."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import click
import pytest

from tests.conftest import Server
from tests.support.command import Operator, output_of, refusal_of, tonne
from tests.support.processes import free_port
from tonne.apps.cli.database import plain_failures
from tonne.apps.cli.main import main
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.schema.migration_files import all_migrations
from tonne.platform.db.server.embedded import database_url, ensure_database
from tonne.platform.settings.settings import Settings

NOWHERE = "postgresql://tonne:hunter2@127.0.0.1:1/tonne"


@pytest.fixture
async def bare_url(server: Server, worker_id: str) -> AsyncIterator[str]:
    """An empty database."""
    name = f"bare_{worker_id}"
    connection: Connection = await asyncpg.connect(server.url("postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    yield server.url(name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.mark.parametrize("command", ["serve", "api"])
def test_a_port_in_use(command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = refusal_of(command, port=port, database_url=NOWHERE)
    assert str(port) in sentence
    assert "TONNE_PORT" in sentence


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_a_host_of_another_machine(host: str) -> None:
    assert host in refusal_of("serve", host=host, port=free_port(), database_url=NOWHERE)


def test_an_invalid_setting_of_a_command_that_reads_settings_first() -> None:
    assert "port" in refusal_of("link", "show", "lnk_1", port="0", database_url=NOWHERE)


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("I am a file.")
    sentence = refusal_of("migrate", data_dir=path)
    assert str(path) in sentence
    assert "TONNE_DATA_DIR" in sentence


def test_a_data_folder_that_cannot_be_written_to() -> None:
    # Not even root can create a folder there.
    assert "TONNE_DATA_DIR" in refusal_of("migrate", data_dir="/proc/tonne")


@pytest.mark.parametrize(
    "files",
    [
        {"PG_VERSION": "junk\n"},
        {"PG_VERSION": "18\n"},
        {"holiday.jpg": "not a database"},
    ],
    ids=lambda files: "=".join(*files.items()).strip(),
)
def test_a_broken_database_folder_is_named_and_not_changed(tmp_path: Path, files: dict[str, str]) -> None:
    folder = tmp_path / "postgres"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    sentence = refusal_of("migrate", data_dir=tmp_path)
    assert str(folder) in sentence
    assert "TONNE_DATA_DIR" in sentence
    assert {name: (folder / name).read_text() for name in files} == files


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("port", "0", "port"),
        ("data_dir", "~nobody-has-this-name", "TONNE_DATA_DIR"),
        ("prot", "8080", "TONNE_PROT"),
        ("config", "/nowhere.toml", "/nowhere.toml"),
        ("database_url", "mysql://x", "TONNE_DATABASE_URL"),
        ("trusted_proxies", "everyone", "TONNE_TRUSTED_PROXIES"),
    ],
)
def test_an_invalid_setting(setting: str, value: str, said: str) -> None:
    assert said in refusal_of("org", "list", **{"database_url": NOWHERE, setting: value})


def test_operations_15_variables_of_a_kubernetes_service_are_reported(operator: Operator) -> None:
    links = {"service_host": "10.96.0.7", "port": "tcp://10.96.0.7:8080", "port_8080_tcp": "tcp://10.96.0.7:8080"}
    done = tonne("org", "list", database_url=operator.url, **links)
    assert done.returncode == 0, done
    assert done.stderr.startswith("Warning: TONNE_PORT and 2 more ignored: Kubernetes")
    assert done.stderr.count("\n") == 1
    assert "Kubernetes" not in done.stdout


@pytest.mark.parametrize("command", [("serve",), ("org", "list")], ids=" ".join)
def test_an_unreachable_database(command: tuple[str, ...]) -> None:
    sentence = refusal_of(*command, database_url=NOWHERE, port=free_port())
    assert "TONNE_DATABASE_URL" in sentence
    assert "hunter2" not in sentence


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://tonne@no-such-host.invalid/tonne",
        "postgresql://tonne@/tonne?host=/no/such/folder",
        "postgresql://tonne@127.0.0.1:99999/tonne",
        "postgresql://tonne@127.0.0.1:http/tonne",
        "postgresql://tonne@127.0.0.1/tonne?sslmode=maybe",
    ],
)
def test_an_invalid_database_url(url: str) -> None:
    assert "TONNE_DATABASE_URL" in refusal_of("migrate", database_url=url)


def test_a_missing_database(server: Server) -> None:
    assert "no_such_database" in refusal_of("migrate", database_url=server.url("no_such_database"))


@pytest.mark.parametrize("command", [("serve",), ("api",), ("worker",), ("org", "list"), ("doctor",)], ids=" ".join)
def test_pending_migrations_stop_every_command(bare_url: str, command: tuple[str, ...]) -> None:
    sentence = refusal_of(*command, database_url=bare_url, port=free_port())
    assert "run `tonne migrate` first" in sentence


def test_migrate_lists_what_it_applied(bare_url: str) -> None:
    applied = output_of("migrate", database_url=bare_url).splitlines()
    assert applied == [f"applied {migration.name}" for migration in all_migrations()]
    assert output_of("migrate", database_url=bare_url) == "Nothing to do: the schema is up to date."


async def test_a_database_of_a_newer_release_is_not_changed(bare_url: str) -> None:
    output_of("migrate", database_url=bare_url)
    connection: Connection = await asyncpg.connect(bare_url)
    await connection.execute("INSERT INTO schema_migrations VALUES (9999, '9999_later', 'x', now(), 9999)")
    await connection.close()
    assert "run the newer release" in refusal_of("migrate", database_url=bare_url)


@pytest.mark.parametrize("command", ["serve", "api", "worker", "migrate", "doctor"])
async def test_a_database_of_an_unreleased_version_stops_every_command(bare_url: str, command: str) -> None:
    output_of("migrate", database_url=bare_url)
    connection: Connection = await asyncpg.connect(bare_url)
    await connection.execute("UPDATE schema_migrations SET name = '0001_schema', checksum = 'x' WHERE version = 1")
    await connection.close()
    sentence = refusal_of(command, database_url=bare_url, port=free_port())
    assert sentence == (
        "The database was created by an unreleased version of Tonne, so it cannot be migrated: drop the database, "
        "create it again and run `tonne migrate`."
    )


async def test_an_embedded_database_of_an_unreleased_version_names_the_folder_to_delete(
    settings: Settings, tmp_path: Path
) -> None:
    with database_url(settings) as url:
        await ensure_database(url)
        connection: Connection = await asyncpg.connect(url)
        await migrate(connection)
        await connection.execute("UPDATE schema_migrations SET checksum = 'x'")
        await connection.close()
        sentence = refusal_of("migrate", data_dir=tmp_path)
    assert sentence.endswith(f"cannot be migrated: delete the folder {tmp_path / 'postgres'} and start again.")


@pytest.mark.parametrize("words", [("no-such-command",), ("org", "create"), ("doctor", "--no-such-option")])
def test_a_usage_error_shows_the_usage(words: tuple[str, ...]) -> None:
    done = tonne(*words, database_url=NOWHERE)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: tonne")


def test_operations_10_a_full_disk_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """That of the output, such as a file of cron, and that of the database."""
    with Path("/dev/full").open("w", encoding="utf-8") as full, contextlib.redirect_stdout(full):
        with pytest.raises(SystemExit) as ended:
            main.main(["doctor", "--help"], prog_name="tonne")
        # What could not be written is tried again when the file is closed.
        os.dup2(os.open("/dev/null", os.O_WRONLY), full.fileno())
    assert ended.value.code == 1
    assert (
        capsys.readouterr().err
        == "Error: Cannot write the output: No space left on device. Free space, then try again.\n"
    )
    with pytest.raises(click.ClickException, match="The disk of the database is full"), plain_failures():
        raise asyncpg.DiskFullError("could not extend file")

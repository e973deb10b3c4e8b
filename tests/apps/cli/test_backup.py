"""tonne backup and tonne restore: consistent, verified, never half-made, and held after a restore."""

import asyncio
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import msgspec
import pytest

from tests.support.command import run_here
from tests.support.world import build_world
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.server.backup import count_rows
from tonne.platform.db.server.backup_file import DUMP, FORMAT, KEY, MANIFEST, SEALED_KEY, Manifest, new_backup
from tonne.platform.db.server.embedded import DATABASE, EmbeddedServer, ensure_database, start_server
from tonne.platform.db.server.postmaster import RESTORING, DatabaseUnavailable, Postmaster
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now


class Source:
    """A data folder with a running database, as of a running service."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.server: EmbeddedServer = start_server(data / "postgres")
        self.url = self.server.url(DATABASE)
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        await ensure_database(self.url)
        connection: Connection = await asyncpg.connect(self.url)
        await migrate(connection)
        await check_secret_key(connection, Settings(data_dir=str(self.data)), ALL_SEALED)
        async with connection.transaction():
            await build_world(connection)
        await connection.close()

    def back_up(self, file: Path, *words: str) -> str:
        done = run_here("backup", str(file), *words, data_dir=self.data)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    source = Source(tmp_path_factory.mktemp("source"))
    yield source
    source.server.close()


@pytest.fixture(scope="module")
def backup_file(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("backups") / "one.zip"
    source.back_up(file)
    return file


def refused(*words: str, data: Path, **settings: str) -> str:
    done = run_here(*words, data_dir=data, **settings)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert not (data / "postgres" / "data").exists()
    return done.stderr.removeprefix("Error: ").strip()


def test_a_backup_of_a_busy_service_is_consistent_and_restored_held(source: Source, tmp_path: Path) -> None:
    file = tmp_path / "backups" / "one.zip"
    file.parent.mkdir()
    printed = asyncio.run(_back_up_while_writing(source, file))
    assert "Verified" in printed
    assert "contains the secret key" in printed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file], "nothing else is left"

    target = tmp_path / "target"
    done = run_here("restore", str(file), data_dir=target)
    assert done.returncode == 0, done
    assert "All checks of the data passed." in done.stdout
    assert (target / "secret.key").read_bytes() == (source.data / "secret.key").read_bytes()
    assert stat.S_IMODE((target / "secret.key").stat().st_mode) == 0o600
    manifest = _manifest(file)
    server = start_server(target / "postgres")
    try:
        asyncio.run(_check_restored(server.url(DATABASE), manifest))
    finally:
        server.close()
    assert not (target / "postgres" / RESTORING).exists()
    assert "holds a database" in run_here("restore", str(file), data_dir=target).stderr


async def _back_up_while_writing(source: Source, file: Path) -> str:
    """Each transaction writes two tables: a backup that sees one of the rows only is not consistent."""
    writer: Connection = await asyncpg.connect(source.url)
    await writer.execute("CREATE TABLE first (n int); CREATE TABLE second (n int)")
    try:
        backing_up, number = None, 0
        while backing_up is None or not backing_up.done():
            number += 1
            async with writer.transaction():
                await writer.execute("INSERT INTO first VALUES ($1)", number)
                await writer.execute("INSERT INTO second VALUES ($1)", number)
            # After the first rows: on a busy machine, all others may come too late.
            backing_up = backing_up or asyncio.create_task(asyncio.to_thread(source.back_up, file, "--verify"))
            await asyncio.sleep(0)
        assert number > 10
        return await backing_up
    finally:
        await writer.execute("DROP TABLE first, second")
        await writer.close()


async def _check_restored(url: str, manifest: Manifest) -> None:
    connection: Connection = await asyncpg.connect(url)
    counts = await count_rows(connection)
    assert counts.pop("service_holds") == 1
    assert counts.pop("audit_log") == manifest.tables["audit_log"] + 1
    assert counts == {name: n for name, n in manifest.tables.items() if name not in {"service_holds", "audit_log"}}
    assert counts["first"] == counts["second"] > 0
    reason = await connection.fetchval("SELECT reason FROM service_holds")
    assert reason == f"Restored from the backup of {manifest.created_at:%Y-%m-%d %H:%M:%S} UTC"
    assert await connection.fetchval("SELECT count(*) FROM audit_log WHERE action = 'service.held'") == 1
    await connection.close()


def _manifest(file: Path) -> Manifest:
    with zipfile.ZipFile(file) as archive:
        return msgspec.json.decode(archive.read(MANIFEST), type=Manifest)


def test_the_manifest_says_what_is_in_it(backup_file: Path) -> None:
    manifest = _manifest(backup_file)
    assert set(manifest.files) == {DUMP, KEY}
    assert manifest.tables["organisations"] > 0
    assert len(manifest.key_ids) == 1
    assert utc_now() - manifest.created_at < timedelta(hours=1)


def test_a_backup_is_audited(source: Source, backup_file: Path) -> None:
    async def count() -> int:
        connection: Connection = await asyncpg.connect(source.url)
        try:
            found = await connection.fetchval("SELECT count(*) FROM audit_log WHERE action = 'service.backed_up'")
            return int(found)
        finally:
            await connection.close()

    assert backup_file.exists()
    assert asyncio.run(count()) >= 1


def test_a_file_is_never_overwritten(source: Source, backup_file: Path) -> None:
    before = backup_file.read_bytes()
    done = run_here("backup", str(backup_file), data_dir=source.data)
    assert (done.returncode, done.stdout) == (1, "")
    assert "exists already" in done.stderr
    assert backup_file.read_bytes() == before


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9, 0.999])
def test_a_damaged_backup_is_refused_before_anything_is_written(
    backup_file: Path, tmp_path: Path, place: float
) -> None:
    content = bytearray(backup_file.read_bytes())
    content[int(place * len(content))] ^= 0xFF
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(content)
    assert "Use another backup" in refused("restore", str(damaged), data=tmp_path / "target")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_half_a_backup_is_refused(backup_file: Path, tmp_path: Path, share: float) -> None:
    content = backup_file.read_bytes()
    half = tmp_path / "half.zip"
    half.write_bytes(content[: int(share * len(content))])
    assert "is not a backup of Tonne, or it is incomplete" in refused("restore", str(half), data=tmp_path / "target")


def test_a_backup_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "newer.zip"
    with new_backup(file) as writer:
        writer.add(DUMP, b"")
        manifest = Manifest(
            format=FORMAT,
            created_at=utc_now(),
            tonne_version="99.0",
            postgres_major=18,
            schema_version=9999,
            key_ids=[],
            tables={},
            files=writer.files,
        )
        writer.finish(manifest)
    assert "made by Tonne 99.0" in refused("restore", str(file), data=tmp_path / "target")


def test_the_key_can_be_left_out_or_encrypted(source: Source, tmp_path: Path) -> None:
    target, bare, sealed = tmp_path / "target", tmp_path / "bare.zip", tmp_path / "sealed.zip"
    assert "does not contain the secret key" in source.back_up(bare, "--without-key")
    assert "does not contain the secret key" in refused("restore", str(bare), data=target)
    wrong = tmp_path / "wrong.key"
    wrong.write_text("A" * 43)
    assert "the configured key is another one" in refused("restore", str(bare), "--key", str(wrong), data=target)

    phrase, other = tmp_path / "phrase", tmp_path / "other"
    phrase.write_text("correct horse battery staple\n")
    other.write_text("incorrect horse\n")
    assert "is encrypted" in source.back_up(sealed, "--passphrase-file", str(phrase))
    key = (source.data / "secret.key").read_bytes()
    assert key not in sealed.read_bytes()
    assert set(_manifest(sealed).files) == {DUMP, SEALED_KEY}
    assert "add --passphrase-file" in refused("restore", str(sealed), data=target)
    message = refused("restore", str(sealed), "--passphrase-file", str(other), data=target)
    assert "The passphrase does not open" in message
    assert not (target / "secret.key").exists()

    done = run_here("restore", str(sealed), "--passphrase-file", str(phrase), data_dir=target)
    assert done.returncode == 0, done
    assert (target / "secret.key").read_bytes() == key


def test_an_interrupted_restore_is_named_and_repeated_from_the_beginning(backup_file: Path, tmp_path: Path) -> None:
    """As if the process was killed: its server still runs in the folder that it was building."""
    folder = tmp_path / "target" / "postgres"
    folder.mkdir(parents=True, mode=0o700)
    left = Postmaster(folder / RESTORING)
    left.prepare()
    left.start()
    try:
        with pytest.raises(DatabaseUnavailable, match=r"A restore into .* was interrupted"):
            start_server(folder)
        done = run_here("restore", str(backup_file), data_dir=tmp_path / "target")
        assert done.returncode == 0, done
    finally:
        left.stop()
    assert not (folder / RESTORING).exists()
    assert (folder / "data" / "PG_VERSION").exists()


def test_what_a_killed_backup_left_is_overwritten(source: Source, tmp_path: Path) -> None:
    file = tmp_path / "one.zip"
    (tmp_path / ".one.zip.partial").write_bytes(b"x" * 100_000)
    source.back_up(file)
    assert [path.name for path in tmp_path.iterdir()] == ["one.zip"]
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None


def test_your_own_server_has_its_own_tools(tmp_path: Path, backup_file: Path) -> None:
    own = {"database_url": "postgresql://somewhere/db"}
    for words in (("backup",), ("restore", str(backup_file))):
        message = refused(*words, data=tmp_path, **own)
        assert "own tools" in message


async def _test_runs(url: str) -> tuple[int, bool]:
    """How the last test of a restore ended, and whether one has succeeded."""
    connection: Connection = await asyncpg.connect(url)
    row = await connection.fetchrow("SELECT status, succeeded_at FROM operation_runs WHERE operation = 'restore_test'")
    await connection.close()
    assert row is not None
    return row["status"], row["succeeded_at"] is not None


def test_operations_7_the_newest_backup_is_restored_for_a_test_checked_and_removed(
    source: Source, backup_file: Path, tmp_path: Path
) -> None:
    damaged, folder = tmp_path / "damaged.zip", tmp_path / "backups"
    damaged.write_bytes(backup_file.read_bytes()[:-2000])
    failed = run_here("restore-test", str(damaged), data_dir=source.data)
    assert failed.returncode == 1
    assert "is damaged" in failed.stderr or "incomplete" in failed.stderr, failed
    assert asyncio.run(_test_runs(source.url))[0] == 1

    folder.mkdir()
    assert "has no backup" in run_here("restore-test", str(folder), data_dir=source.data).stderr
    (folder / "older.zip").write_bytes(b"no backup")
    os.utime(folder / "older.zip", (1, 1))
    shutil.copy(backup_file, folder / "newer.zip")
    done = run_here("restore-test", str(folder), data_dir=source.data)
    assert (done.returncode, done.stderr) == (0, f"Testing {folder / 'newer.zip'}.\n"), done
    assert "all checks of its data passed" in done.stdout
    assert asyncio.run(_test_runs(source.url)) == (0, True)
    assert not (source.data / "restore-test").exists()


def test_a_test_of_a_restore_needs_the_key_as_a_new_machine_would(source: Source, tmp_path: Path) -> None:
    """The key in the data folder must not hide that the passphrase is lost."""
    passphrase, sealed = tmp_path / "passphrase", tmp_path / "sealed.zip"
    passphrase.write_text("correct horse\n")
    source.back_up(sealed, "--passphrase-file", str(passphrase))
    assert "add --passphrase-file" in run_here("restore-test", str(sealed), data_dir=source.data).stderr
    passphrase.write_text("wrong\n")
    wrong = run_here("restore-test", str(sealed), "--passphrase-file", str(passphrase), data_dir=source.data)
    assert (wrong.returncode, "passphrase" in wrong.stderr) == (1, True)
    assert "leave BACKUP out" in run_here("restore-test", str(sealed), database_url="postgresql://x@y/z").stderr

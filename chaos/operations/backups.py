"""`tonne backup` and `tonne restore` are killed at their worst moments."""

import asyncio
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import asyncpg

from chaos.cluster import Cluster
from chaos.operations.embedded import Embedded
from chaos.scenario import scenario
from tests.support.processes import Process
from tonne.platform.db.database import Connection
from tonne.platform.db.server.embedded import DATABASE, start_server
from tonne.platform.db.server.postmaster import RESTORING

DONE_WITHIN_S = 90.0
ORDERS = 40
COUNT_RESTORED = "SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM service_holds) AS holds"


@scenario("kill-while-backing-up", within_s=240)
async def kill_while_backing_up(cluster: Cluster) -> None:
    """A killed backup leaves no file, a killed restore no database; both succeed when they are repeated."""
    backups_killed = cluster.announce("backup killed", 2)
    restores_killed = cluster.announce("restore killed", 3)
    data, target = cluster.folder / "data", cluster.folder / "target"
    embedded = Embedded(cluster, data, data)
    await embedded.replace()
    hook = await cluster.open_hook("receiver")
    await cluster.place(hook.organisation, ORDERS)
    await cluster.until_delivered()

    file = cluster.folder / "one.zip"
    unfinished = file.with_name(f".{file.name}.partial")
    for least in (0, 1):
        unfinished.unlink(missing_ok=True)
        await _kill_when(cluster, data, ("backup", str(file)), partial(_is_written, unfinished, least))
        backups_killed(not file.exists())
        cluster.require(not file.exists(), "a killed backup has left a file under its name")
    await _succeed(cluster, data, "backup", str(file))
    with zipfile.ZipFile(file) as archive:
        cluster.require(archive.testzip() is None, "the backup is damaged")
    cluster.require(not unfinished.exists(), "the unfinished backup is still there")

    building = target / "postgres" / RESTORING
    moments = (building / "data", building / "data" / "postmaster.pid", building / "database.dump")
    for moment in moments:
        await _kill_when(cluster, target, ("restore", str(file)), moment.exists)
        restored = (target / "postgres" / "data").exists()
        restores_killed(not restored)
        cluster.require(not restored, f"a restore that was killed at {moment.name} has left a database")
    await _succeed(cluster, target, "restore", str(file))
    cluster.require(not building.exists(), "the folder of the unfinished restore is still there")
    await _check_restored(cluster, target)
    await embedded.hold_database()
    await embedded.stop()


def _is_written(path: Path, least: int) -> bool:
    return path.exists() and path.stat().st_size >= least


def _run(cluster: Cluster, data: Path, words: tuple[str, ...]) -> Process:
    return Process("tonne", *words, settings={"data_dir": data}, log=cluster.folder / f"{words[0]}.log")


async def _kill_when(cluster: Cluster, data: Path, words: tuple[str, ...], moment: Callable[[], bool]) -> None:
    process = _run(cluster, data, words)
    await cluster.until(lambda: moment() or not process.running, f"`tonne {words[0]}` is at work", every_s=0.002)
    cluster.require(process.running, f"`tonne {words[0]}` ended before it could be killed")
    process.kill()


async def _succeed(cluster: Cluster, data: Path, *words: str) -> None:
    process = _run(cluster, data, words)
    code = await asyncio.to_thread(process.wait, DONE_WITHIN_S)
    process.kill()
    cluster.require(code == 0, f"`tonne {words[0]}` ended with {code}: {process.log.read_text()[-500:]}")


async def _check_restored(cluster: Cluster, target: Path) -> None:
    server = await asyncio.to_thread(start_server, target / "postgres")
    try:
        connection: Connection = await asyncpg.connect(server.url(DATABASE))
        found = await connection.fetchrow(COUNT_RESTORED)
        await connection.close()
    finally:
        await asyncio.to_thread(server.close)
    cluster.require(found is not None and found["orders"] == ORDERS, f"restored: {found}")
    cluster.require(found is not None and found["holds"] == 1, "the restored service is not held")

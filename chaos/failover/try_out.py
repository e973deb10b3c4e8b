"""python -m chaos.failover.try_out: a Patroni cluster on this machine, to try switchovers and failures by hand."""

import asyncio
import contextlib
import shutil
import signal
import tempfile
from pathlib import Path

from chaos.failover.patroni_cluster import INSTALLED, PatroniCluster, install


async def _run(folder: Path) -> None:
    install()
    cluster = PatroniCluster(folder / "cluster")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print("Starting three machines, about half a minute ...", flush=True)
    try:
        await cluster.start()
        async with cluster.connection() as admin:
            await admin.execute("CREATE DATABASE tonne")
        login = " ".join(
            f"{name}={value}"
            for name, value in cluster.passwords.items()
            if "_RESTAPI_" in name and "10.0" not in value
        )
        control = f"env {login} {INSTALLED}/bin/patronictl -c {cluster.members[0].folder}/patroni.yml"
        print(f"export TONNE_DATABASE_URL='{cluster.url('tonne')}'")
        for member in cluster.members:
            postmaster = member.postmaster
            patroni = member.patroni.process
            print(
                f"{member.name}: REST API {cluster.member_url(member)}, log {member.folder}/patroni.log, "
                f"Patroni {patroni.pid if patroni else '-'}, PostgreSQL {postmaster.pid if postmaster else '-'}"
            )
        print(
            f"State:      {control} list\nSwitchover: {control} switchover tonne --force\nStop:       Ctrl-C",
            flush=True,
        )
        await stop.wait()
    finally:
        await cluster.close()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tonne-patroni-"))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

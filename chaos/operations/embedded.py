"""The service as `tonne serve` runs it on one machine: api, worker and the embedded PostgreSQL in one data folder."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from chaos.cluster import READY_WITHIN_S, Cluster
from chaos.model import NotAsExpected
from tests.support.processes import ROOT, Process
from tests.support.world import TESTER
from tonne.platform.db.server.embedded import DATABASE
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.demo import demo_files
from tonne.supply.stock.lots.import_lots import import_files


class Embedded:
    """Replaces the api and the database of a cluster. `seen_as` is the data folder as this process sees it."""

    def __init__(self, cluster: Cluster, data: Path, seen_as: Path, wrapper: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self.data = data
        self.seen_as = seen_as
        self._wrapper = wrapper
        own = {"database_url", "secret_key", "data_dir"}
        self._settings = {name: value for name, value in cluster.settings.items() if name not in own}
        self._settings["data_dir"] = data

    async def replace(self) -> None:
        """Stop the api of the cluster and serve in its place, with the demo catalogue and no organisation."""
        if self._cluster.api is not None:
            await asyncio.to_thread(self._cluster.api.stop)
        code = await asyncio.to_thread(self.run("migrate").wait, READY_WITHIN_S)
        if code != 0:
            raise NotAsExpected(f"`tonne migrate` ended with {code}")
        await self.start()
        self._cluster.url = f"postgresql://postgres@/{DATABASE}?host={self.seen_as / 'postgres'}"
        async with self._cluster.connection() as tx, tx.transaction():
            await import_files(tx, Mode.TEST, demo_files(Mode.TEST), currency="EUR", by=TESTER.now())

    def run(self, command: str = "serve") -> Process:
        log = self._cluster.folder / f"{command}.log"
        return Process("tonne", command, settings=self._settings, log=log, wrapper=self._wrapper)

    async def start(self) -> None:
        self._cluster.api = self.run()
        await asyncio.to_thread(self._cluster.api.wait_until_ready, self._cluster.port, READY_WITHIN_S)

    async def stop(self) -> None:
        if self._cluster.api is not None:
            stopped = await asyncio.to_thread(self._cluster.api.stop)
            self._cluster.require(stopped, "the service did not stop in time after SIGTERM")

    async def hold_database(self) -> None:
        """Keep the database running without the service, so that the checker can read it."""
        arguments = ("chaos.operations.hold_database", str(self.data / "postgres"))
        log = self._cluster.folder / "hold.log"
        # The wrapper leaves the working folder, in which Python would find this package.
        wrapper = (*self._wrapper, "env", f"PYTHONPATH={ROOT}")
        held = Process(*arguments, settings={}, log=log, wrapper=wrapper)
        self._cluster.supports.append(held)
        await self._cluster.until(lambda: "ready" in log.read_text(), "the database is held")


class SmallDisk:
    """A file system of `size_mb` in a mount namespace, which a process holds. It is gone with that process."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        folder.mkdir()
        is_root = os.geteuid() == 0
        user = () if is_root else ("--user", "--map-root-user")
        mount = f'mount -t tmpfs -o size={size_mb}m,mode=0700 tonne "$0" && echo ready && exec sleep 7200'
        self.holder = subprocess.Popen(
            ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", mount, folder], stdout=subprocess.PIPE
        )
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != b"ready\n":
            raise NotAsExpected("no file system of a limited size can be mounted: user namespaces are not allowed here")
        pid = str(self.holder.pid)
        self.folder = folder
        self.seen_as = Path(f"/proc/{pid}/root{folder}")
        enter = () if is_root else ("--user", "--preserve-credentials")
        self.wrapper = ("nsenter", "--target", pid, "--mount", *enter, "--")

    def fill(self, leave: float = 0.0) -> int:
        """Write zeros until only this part of it is free, from 0 to 1. Returns how many bytes were written."""
        written = 0
        usage = shutil.disk_usage(self.seen_as)
        limit = usage.free - leave * usage.total if leave else float("inf")
        with (self.seen_as / "filler").open("wb", buffering=0) as file:
            try:
                while written < limit:
                    written += file.write(bytes(65536))
            except OSError:
                pass
        return written

    def make_room(self) -> None:
        (self.seen_as / "filler").unlink()

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()

"""Three database machines and HAProxy on this machine, configured with the files of deploy/patroni."""

import asyncio
import contextlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from chaos.failover.machines import Machines
from chaos.failover.member import Daemon, Member, find_program
from chaos.model import NotAsExpected
from tests.support.postgres import Databases
from tests.support.processes import HOST, ROOT, free_port
from tonne.platform.db.server.postmaster import postgres_binaries

SAMPLES = ROOT / "deploy" / "patroni"
INSTALLED = ROOT / "var" / "patroni"
# The addresses of the samples are 10.0.0.11 to 13; here they are 127.0.0.11 to 13, or those of `Machines`.
SAMPLE_NETWORK, LOOPBACK = "10.0.0.", "127.0.0."
NODES = {"node1": "11", "node2": "12", "node3": "13"}
SAMPLE_PORTS = ("5432", "8008", "2379", "2380", "5000", "5001")
SAMPLE_PATHS = {
    "/usr/lib/postgresql/18/bin": "{binaries}",
    "/var/lib/postgresql/pgpass": "{folder}/pgpass",
    "/var/lib/postgresql/18/tonne": "{folder}/data",
    "/var/run/postgresql": "{folder}",
    "/var/lib/etcd/tonne": "{folder}/etcd",
}
HEALTHY_WITHIN_S = 120.0
# What scenarios change, as the sample has it.
RECOMMENDED: Mapping[str, Any] = {
    "synchronous_mode": True,
    "failsafe_mode": True,
    "maximum_lag_on_failover": 1048576,
    "postgresql": {"parameters": {"wal_sender_timeout": "5s", "wal_receiver_timeout": "5s"}},
}


# Messages of PostgreSQL, which writes to Patroni's log.
STOPPED, PROMOTED = "received fast shutdown request", "database system is ready to accept connections"
_LOGGED = re.compile(rf"^([\d-]+ [\d:.]+) UTC \[\d+\] LOG:  ({STOPPED}|{PROMOTED})$", re.MULTILINE)


class PatroniCluster(Databases):
    """`url` leads through HAProxy to the primary. Without `machines`, all addresses are loopback addresses."""

    def __init__(self, folder: Path, machines: Machines | None = None) -> None:
        super().__init__(self._url)
        self._folder = folder
        self._machines = machines
        self._network = LOOPBACK if machines is None else machines.network
        folder.mkdir(parents=True)
        self._ports = {sample: str(free_port()) for sample in SAMPLE_PORTS}
        self.passwords = _variables(SAMPLES / "node.env")
        self.members = [self._member(name, self._network + ending) for name, ending in NODES.items()]
        config = folder / "haproxy.cfg"
        config.write_text(self._local((SAMPLES / "haproxy.cfg").read_text(encoding="utf-8"), folder), encoding="utf-8")
        command = (find_program("haproxy"), "-db", "-f", str(config))
        self.haproxy = Daemon(command, {}, folder / "haproxy.log")

    async def start(self) -> None:
        """Start everything, and wait until both replicas stream."""
        for member in self.members:
            member.etcd.start()
        for member in self.members:
            member.patroni.start()
        self.haproxy.start()
        await self.until_healthy()

    async def close(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(member.stop) for member in self.members))
        await asyncio.to_thread(self.haproxy.stop)

    async def restore(self) -> None:
        """Undo what a scenario did: all members run with the recommended configuration."""
        for member in self.members:
            if self._machines is not None:
                self.reconnect(member)
            member.etcd.start()
            member.resume()
            member.patroni.start()
        await self.configure(RECOMMENDED)
        await self.until_healthy()

    # The network ------------------------------------------------------------------------------------------------------

    def cut_off(self, member: Member) -> None:
        """From now on nothing reaches this machine, and nothing that it sends arrives. Its processes run on."""
        self._network_of_machines.cut(NODES[member.name])

    def reconnect(self, member: Member) -> None:
        self._network_of_machines.reconnect(NODES[member.name])

    async def commits_on(self, member: Member, sql: str, within_s: float) -> bool:
        """Whether this statement is confirmed as committed to a client on this machine."""
        command = self._network_of_machines.command_on(NODES[member.name])
        url = f"{self._login}@{member.address}:{self._ports['5432']}/postgres"
        psql = await asyncio.create_subprocess_exec(
            *(*command, str(postgres_binaries() / "psql"), "-qc", sql, url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(within_s):
                return await psql.wait() == 0
        except TimeoutError:
            psql.kill()
            await psql.wait()
            return False

    @property
    def _network_of_machines(self) -> Machines:
        if self._machines is None:
            raise NotAsExpected("run it as root: each database machine needs a network of its own")
        return self._machines

    # Addresses and files --------------------------------------------------------------------------------------------

    def member_url(self, member: Member) -> str:
        """The URL of Patroni's REST API."""
        return f"http://{member.address}:{self._ports['8008']}"

    def port(self, sample: str) -> str:
        """The port that stands here for a port of the samples."""
        return self._ports[sample]

    def multi_host_url(self, database: str) -> str:
        """Without HAProxy: the driver looks for the primary."""
        hosts = ",".join(f"{member.address}:{self._ports['5432']}" for member in self.members)
        return f"{self._login}@{hosts}/{database}?target_session_attrs=read-write"

    def _url(self, database: str) -> str:
        return f"{self._login}@{HOST}:{self._ports['5000']}/{database}?target_session_attrs=read-write"

    @property
    def _login(self) -> str:
        return f"postgresql://postgres:{self.passwords['PATRONI_SUPERUSER_PASSWORD']}"

    def _local(self, text: str, folder: Path) -> str:
        """The text of a sample with the addresses, ports and folders of this cluster."""
        for sample, path in SAMPLE_PATHS.items():
            text = text.replace(sample, path.format(folder=folder, binaries=postgres_binaries()))
        text = text.replace(SAMPLE_NETWORK, self._network)
        for sample, port in self._ports.items():
            text = text.replace(f":{sample}", f":{port}").replace(f"port {sample}", f"port {port}")
        return text

    def _member(self, name: str, address: str) -> Member:
        folder = self._folder / name
        folder.mkdir()
        config = folder / "patroni.yml"
        config.write_text(self._local((SAMPLES / "patroni.yml").read_text(encoding="utf-8"), folder), encoding="utf-8")

        def variables(sample: str) -> dict[str, str]:
            """The samples are those of node1."""
            found = _variables(SAMPLES / sample)
            for key, value in found.items():
                own = value if key == "ETCD_INITIAL_CLUSTER" else value.replace("node1", name)
                if key != "ETCD_INITIAL_CLUSTER":
                    own = own.replace(SAMPLE_NETWORK + NODES["node1"], address)
                found[key] = self._local(own, folder)
            return found

        etcd_variables = variables("etcd.env")
        if platform.machine() == "aarch64":
            # Debian's etcd starts on this architecture only when told to.
            etcd_variables["ETCD_UNSUPPORTED_ARCH"] = "arm64"
        place = () if self._machines is None else self._machines.command_on(NODES[name])
        etcd = Daemon((find_program("etcd"),), etcd_variables, folder / "etcd.log", place)
        command = (str(INSTALLED / "bin" / "patroni"), str(config))
        patroni = Daemon(command, variables("node.env"), folder / "patroni.log", place)
        return Member(name, address, folder, etcd, patroni)

    # Patroni --------------------------------------------------------------------------------------------------------

    async def state(self) -> dict[str, dict[str, Any]]:
        """The members by name, according to the first Patroni that answers."""
        for member in self.members:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                found = await self._call(member, "GET", "/cluster", within_s=2.0)
                return {entry["name"]: entry for entry in found["members"]}
        return {}

    async def primary(self) -> Member:
        state = await self.until(self._find_primary, "there is a primary")
        return next(member for member in self.members if member.name == state)

    async def synchronous_replica(self) -> Member:
        name = await self.until(self._find_synchronous, "there is a synchronous replica")
        return next(member for member in self.members if member.name == name)

    async def until_replaced(self, replica: Member) -> None:
        """Another replica is the synchronous one."""

        async def is_replaced() -> bool:
            return await self._find_synchronous() not in {None, replica.name}

        await self.until(is_replaced, "another replica is synchronous")

    async def _find_synchronous(self) -> str | None:
        found = [name for name, entry in (await self.state()).items() if entry["role"] == "sync_standby"]
        return found[0] if found else None

    async def _find_primary(self) -> str | None:
        leaders = [name for name, entry in (await self.state()).items() if entry["role"] == "leader"]
        return leaders[0] if leaders else None

    async def until_healthy(self, within_s: float = HEALTHY_WITHIN_S) -> None:
        await self.until(self._is_healthy, "all members run and replicate", within_s)

    async def _is_healthy(self) -> bool:
        """One primary that accepts writes through HAProxy, and two replicas without lag."""
        state = await self.state()
        roles = sorted(entry["role"] for entry in state.values())
        config = await self.configuration()
        if config is None or roles != [
            "leader",
            "replica",
            "sync_standby" if config["synchronous_mode"] else "replica",
        ]:
            return False
        for entry in state.values():
            is_streaming = entry["state"] == "streaming" and entry.get("lag") == 0
            if entry["state"] != "running" and not is_streaming:
                return False
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            connection = await asyncpg.connect(self.url("postgres"), timeout=3)
            try:
                return not await connection.fetchval("SELECT pg_is_in_recovery()")
            finally:
                connection.terminate()
        return False

    async def configuration(self) -> dict[str, Any] | None:
        """Patroni's dynamic configuration, from etcd. None while no Patroni answers."""
        for member in self.members:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                found: dict[str, Any] = await self._call(member, "GET", "/config", within_s=2.0)
                return found
        return None

    async def configure(self, changes: Mapping[str, Any]) -> None:
        """Change the dynamic configuration, as `patronictl edit-config` does. Members apply it within `loop_wait`."""

        async def change() -> bool:
            for member in self.members:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await self._call(member, "PATCH", "/config", changes, within_s=5.0)
                    return True
            return False

        await self.until(change, "Patroni accepts the configuration")

    async def ttl_s(self) -> float:
        config = await self.configuration()
        if config is None:
            raise NotAsExpected("no Patroni answers")
        return float(config["ttl"])

    async def switchover(self) -> None:
        """Ask Patroni to make a replica the primary, as `patronictl switchover` does. Returns when it is done."""
        primary = await self.primary()
        body = {"leader": primary.name, "candidate": await self._find_synchronous()}
        await self._call(primary, "POST", "/switchover", body, within_s=60.0)

    def last_switchover(self) -> tuple[datetime, datetime]:
        """When PostgreSQL itself was away: from the shutdown of the old primary to the promotion of the new one."""
        logs = [(member.folder / "patroni.log").read_text(encoding="utf-8") for member in self.members]
        found = [
            (datetime.fromisoformat(at).replace(tzinfo=UTC), message)
            for log in logs
            for at, message in _LOGGED.findall(log)
        ]
        promoted = max(at for at, message in found if message == PROMOTED)
        stopped = max(at for at, message in found if message == STOPPED and at < promoted)
        return stopped, promoted

    async def _call(
        self, member: Member, method: str, path: str, body: Mapping[str, Any] | None = None, *, within_s: float
    ) -> Any:
        auth = aiohttp.BasicAuth(self.passwords["PATRONI_RESTAPI_USERNAME"], self.passwords["PATRONI_RESTAPI_PASSWORD"])
        timeout = aiohttp.ClientTimeout(total=within_s)
        async with (
            aiohttp.ClientSession(self.member_url(member), timeout=timeout, auth=auth) as session,
            session.request(method, path, json=body, raise_for_status=False) as response,
        ):
            if response.status >= 300:
                raise aiohttp.ClientPayloadError(f"{method} {path}: {response.status} {await response.text()}")
            return await response.json(content_type=None) if response.content_type == "application/json" else None

    @staticmethod
    async def until(holds: Callable[[], Awaitable[Any]], what: str, within_s: float = 60.0) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := await holds()):
            if time.monotonic() > deadline:
                raise NotAsExpected(f"not within {within_s:g} s: {what}")
            await asyncio.sleep(0.2)
        return found


def install() -> None:
    """Patroni in an environment of its own below `var`, etcd and HAProxy from Debian."""
    variables = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run([str(SAMPLES / "install.sh"), str(INSTALLED)], env=variables, check=False)
    if done.returncode != 0:
        raise NotAsExpected("Patroni, etcd and HAProxy could not be installed")


def _variables(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)

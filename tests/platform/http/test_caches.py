"""A change by a command takes effect in all api processes of all machines: prices, keys, accounts, limits, the hold."""

import asyncio
import csv
import io
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.conftest import POPULATED, Server
from tests.support.command import tonne, wait_until
from tests.support.processes import HOST, Process, free_port
from tests.support.world import Tenant, World
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.demo import demo_files
from tonne.selling.catalogue.imports.plan import FileKind

# The caches are at most 2 s old. The rest is for a busy machine.
WITHIN_S = 20.0
# Each on a connection of its own, so that the kernel distributes them over the processes.
ASKED = 6
ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}


@dataclass
class Machines:
    """A `tonne api` with two processes and one with a single process, on one database."""

    database_url: str
    ports: tuple[int, ...]
    settings: dict[str, Any]

    def command(self, *words: str) -> None:
        settings = {name: self.settings[name] for name in ("database_url", "data_dir", "secret_key")}
        done = tonne(*words, **settings)
        assert done.returncode == 0, done.stderr

    def ask(self, method: str, path: str, tenant: Tenant, body: object = None) -> list[httpx.Response]:
        """The responses of all machines."""
        headers = {"Authorization": f"Bearer {tenant.key}"}
        urls = [f"http://{HOST}:{port}{path}" for port in self.ports for _ in range(ASKED)]
        return [httpx.request(method, url, headers=headers, json=body, timeout=30) for url in urls]

    def until_all(self, what: str, ask: Callable[[], list[Any]], expected: object) -> None:
        wait_until(lambda: all(found == expected for found in ask()), WITHIN_S, what)

    def statuses(self, tenant: Tenant, body: object = None) -> list[int]:
        method, path = ("GET", "/v1/orders") if body is None else ("POST", "/v1/orders/by-mass")
        return [response.status_code for response in self.ask(method, path, tenant, body)]

    def drop_connections(self) -> None:
        """As after a restart of the database: every connection of the servers is lost."""

        async def run() -> None:
            connection: Connection = await asyncpg.connect(self.database_url)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await connection.close()

        asyncio.run(run())


@pytest.fixture
def machines(server: Server, tmp_path: Path) -> Iterator[Machines]:
    settings = {
        "database_url": server.url(asyncio.run(server.clone_of(POPULATED))),
        "data_dir": tmp_path / "data",
        "secret_key": secrets.token_urlsafe(32),
        "rate_limit_per_second": 1_000_000,
        "rate_limit_burst": 1_000_000,
        "failed_auth_burst": 1_000_000,
    }
    machines = Machines(str(settings["database_url"]), (free_port(), free_port()), settings)
    processes = []
    try:
        for port, count in zip(machines.ports, (2, 1), strict=True):
            chosen = settings | {"port": port, "api_processes": count}
            processes.append(Process("tonne", "api", settings=chosen, log=tmp_path / "log"))
        for process, port in zip(processes, machines.ports, strict=True):
            process.wait_until_ready(port)
        yield machines
    finally:
        for process in processes:
            process.stop()


def test_a_change_by_a_command_takes_effect_in_every_process(machines: Machines, world: World, tmp_path: Path) -> None:
    ours, theirs = world.ours_test, world.theirs_test
    # Every process has everything in its caches.
    assert set(machines.statuses(ours, ONE_TONNE)) == set(machines.statuses(theirs, ONE_TONNE)) == {201}

    (tmp_path / "bundles.csv").write_text(_bundles_at("98.76"), encoding="utf-8")
    machines.command("catalogue", "import", "--mode", "test", str(tmp_path / "bundles.csv"))

    def show_price() -> list[bool]:
        return ['"unit_price":"98.76"' in response.text for response in machines.ask("GET", "/v1/bundles", ours)]

    machines.until_all("all have the new price", show_price, True)

    machines.command("key", "limit", ours.key_id, "0.01")
    machines.until_all("all apply the limit", lambda: machines.statuses(ours, ONE_TONNE), 403)
    machines.command("key", "limit", ours.key_id, "none")
    machines.until_all("no limit is applied", lambda: machines.statuses(ours, ONE_TONNE), 201)

    # Nothing depends on a connection that stays open.
    machines.drop_connections()
    machines.command("hold", "--reason", "test")
    machines.until_all("all are held", lambda: machines.statuses(ours, ONE_TONNE), 503)
    machines.command("resume", "--yes")
    machines.until_all("all have resumed", lambda: machines.statuses(ours, ONE_TONNE), 201)

    machines.drop_connections()
    machines.command("account", "close", ours.scope.account_id, "--reason", "test")
    machines.until_all("all know that the account is closed", lambda: machines.statuses(ours), 403)
    machines.command("account", "reopen", ours.scope.account_id)
    machines.until_all("all know that it is open", lambda: machines.statuses(ours), 200)

    machines.drop_connections()
    machines.command("key", "revoke", theirs.key_id)
    machines.until_all("all refuse the key", lambda: machines.statuses(theirs), 401)
    assert set(machines.statuses(ours)) == {200}


def _bundles_at(price: str) -> str:
    """The demo's bundles.csv with this price for all."""
    rows = list(csv.DictReader(demo_files(Mode.TEST)[FileKind.BUNDLES].content.decode().splitlines()))
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(row | {"unit_price": price} for row in rows)
    return text.getvalue()

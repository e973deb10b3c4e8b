"""A running service, `tonne api` and `tonne worker`, with a database of its own."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import POPULATED, Server
from tests.support.processes import HOST, Process, free_port
from tests.support.tls import Authority
from tests.support.world import World
from tools.docs.openapi import inlined


@dataclass
class Service:
    """The worker delivers events to receivers on this machine that have a certificate of `authority`."""

    folder: Path
    world: World
    authority: Authority
    settings: dict[str, object]
    port: int
    _processes: dict[str, Process] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def key(self) -> str:
        return self.world.ours_test.key

    def start(self, *commands: str) -> None:
        for command in commands:
            self._processes[command] = Process(
                "tonne", command, settings=self.settings, log=self.folder / f"{command}.log"
            )
        if "api" in commands:
            self._processes["api"].wait_until_ready(self.port)

    def kill_api(self) -> None:
        self._processes["api"].kill()

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.stop()

    def document(self) -> dict[str, Any]:
        return inlined(httpx.get(f"{self.url}/openapi.json", timeout=60).json())


@pytest.fixture(scope="session")
def service(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    authority = Authority(folder)
    port = free_port()
    settings: dict[str, object] = {
        "port": port,
        "data_dir": folder / "data",
        "database_url": server.url(asyncio.run(server.clone_of(POPULATED))),
        "secret_key": secrets.token_urlsafe(32),
        "rate_limit_per_second": 1_000_000,
        "rate_limit_burst": 1_000_000,
        "webhook_allow_private": "127.0.0.0/8",
        "webhook_ca_file": authority.ca_file,
    }
    service = Service(folder, server.world, authority, settings, port)
    try:
        service.start("api", "worker")
        yield service
    finally:
        service.stop()

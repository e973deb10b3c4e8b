"""The service with one changed file, on a database of its own that is cloned from a template."""

import asyncio
import contextlib
import dataclasses
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil

from tests.conformance.own_installation import REDIRECT_HOST, OwnInstallation
from tests.mutants.mutant import SOURCE, Mutant
from tests.support.command import tonne
from tests.support.postgres import Databases
from tests.support.processes import HOST, Process, free_port
from tonne_conformance.certificate import make_certificate
from tonne_conformance.options import Options, ReceiverAddress, settings_for

COMPLETE_WITHIN_S = 20.0


class Workshop:
    """Starts mutants one after the other. Everything that they have in common is made once."""

    def __init__(self, databases: Databases, folder: Path) -> None:
        self._databases = databases
        self._folder = folder
        self._package = folder / "src" / "tonne"
        self._data = folder / "data"
        self._port = free_port()
        # Test processes share a server.
        self._template, self._database = f"mutants_{os.getpid()}_template", f"mutants_{os.getpid()}"
        url = f"http://{HOST}:{self._port}"
        certificate = make_certificate(folder / "certificates", HOST)
        receiver = ReceiverAddress.parse(f"{HOST}:{free_port()}")
        needed = settings_for(receiver, certificate)
        self._settings: dict[str, Any] = {
            "port": self._port,
            "public_url": url,
            "secret_key": secrets.token_urlsafe(32),
            **{name.removeprefix("TONNE_").lower(): value for name, value in needed.items()},
        }
        self._own = OwnInstallation(Options(url=f"{url}/v1", key="", receiver=receiver), certificate)

    def prepare(self) -> None:
        """Copy the package, and fill the template with the data of the demo."""
        shutil.copytree(SOURCE, self._package, copy_function=_link)
        template_data = self._folder / "template-data"
        asyncio.run(self._databases.create(self._template))
        with self._serving(self._template, template_data):
            demo = msgspec.json.decode((template_data / "demo.json").read_bytes())
            settings = self._settings | {"database_url": self._databases.url(self._template), "data_dir": template_data}
            allowed = tonne("org", "allow-redirect", demo["organisation_id"], REDIRECT_HOST, **settings)
            assert allowed.returncode == 0, allowed.stderr
        keys = {"key": demo["test"]["api_key"], "live_key": demo["live"]["api_key"]}
        self._own = OwnInstallation(dataclasses.replace(self._own.options, **keys), self._own.certificate)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[OwnInstallation]:
        """Raises RuntimeError if the service does not start."""
        changed = mutant.applied()
        path = self._package / mutant.file
        path.unlink()
        path.write_text(changed, encoding="utf-8")
        shutil.rmtree(self._data, ignore_errors=True)
        shutil.copytree(self._folder / "template-data", self._data)
        asyncio.run(self._databases.clone(self._template, self._database))
        try:
            with self._serving(self._database, self._data):
                yield self._own
        finally:
            path.unlink()
            _link(str(SOURCE / mutant.file), str(path))
            asyncio.run(self._databases.drop(self._database))

    def close(self) -> None:
        asyncio.run(self._databases.drop(self._template))

    def completes_an_order(self) -> bool:
        """By the database, so that a mutant may change what responses look like."""
        body = {"mass": {"amount": "1", "unit": "t"}}
        headers = {"Authorization": f"Bearer {self._own.options.key}"}
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(f"{self._own.options.url}/orders/by-mass", json=body, headers=headers, timeout=10)
        deadline = time.monotonic() + COMPLETE_WITHIN_S
        while time.monotonic() < deadline:
            if asyncio.run(self._has_complete_order()):
                return True
            time.sleep(0.1)
        return False

    async def _has_complete_order(self) -> bool:
        async with self._databases.connection(self._database) as connection:
            found: bool = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM orders WHERE mode = 'test' AND status = 'complete')"
            )
            return found

    @contextlib.contextmanager
    def _serving(self, database: str, data: Path) -> Iterator[None]:
        settings = self._settings | {"database_url": self._databases.url(database), "data_dir": data}
        # A changed file is compiled anew for each mutant, all others once.
        caching = () if database == self._template else ("PYTHONDONTWRITEBYTECODE=1",)
        wrapper = ("env", f"PYTHONPATH={self._package.parent}", *caching)
        log = self._folder / "tonne.log"
        log.unlink(missing_ok=True)
        process = Process("tonne", "serve", "--demo=empty", settings=settings, log=log, wrapper=wrapper)
        try:
            process.wait_until_ready(self._port)
            yield
        finally:
            _kill(process)


def _kill(process: Process) -> None:
    """With its children at once: one that still answers would be taken for the next mutant. Nothing has to be saved."""
    children = psutil.Process(process.pid).children(recursive=True) if process.running else []
    process.kill()
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    while any(_is_alive(child) for child in children):
        time.sleep(0.01)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _link(source: str, target: str) -> None:
    """A hard link, which takes no time and no space; a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

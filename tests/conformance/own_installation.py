"""`tonne serve --demo` as a process of its own, with the settings that the conformance suite asks for."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
import psutil

from tests.support.command import tonne
from tests.support.processes import HOST, STOP_WITHIN_S, Process, free_port
from tonne_conformance.certificate import CertificateFiles, make_certificate
from tonne_conformance.options import DEFAULT_REDIRECT_URL, Options, ReceiverAddress, settings_for

REDIRECT_HOST = urlsplit(DEFAULT_REDIRECT_URL).netloc


class OwnInstallation(msgspec.Struct, frozen=True):
    """What a stranger who runs the suite knows, and the certificate of the receiver."""

    options: Options
    certificate: CertificateFiles


class Restart(Protocol):
    def __call__(self, *, kill: bool) -> None: ...


class RunningInstallation(OwnInstallation, frozen=True):
    # Stop or kill all processes of the service, and start it again.
    restart: Restart
    settings: dict[str, Any]

    def run(self, *words: str) -> None:
        """A command of the operator."""
        done = tonne(*words, **self.settings)
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def own_installation(folder: Path, **settings: Any) -> Iterator[RunningInstallation]:
    """Without the setting `database_url`, the service starts a PostgreSQL of its own in the folder."""
    port = free_port()
    url = f"http://{HOST}:{port}"
    certificate = make_certificate(folder / "certificates", HOST)
    receiver = ReceiverAddress.parse(f"{HOST}:{free_port()}")
    needed = {name.removeprefix("TONNE_").lower(): value for name, value in settings_for(receiver, certificate).items()}
    all_settings = {"data_dir": folder / "data", "port": port, "public_url": url, **needed, **settings}

    def start() -> None:
        process = Process("tonne", "serve", "--demo=empty", settings=all_settings, log=folder / "tonne.log")
        running.append(process)
        process.wait_until_ready(port)

    def restart(*, kill: bool) -> None:
        old = running.pop()
        # They are in groups of their own, and would answer until they notice that their parent is gone.
        children = psutil.Process(old.pid).children(recursive=True)
        if kill:
            old.kill()
        else:
            old.stop()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=STOP_WITHIN_S)
        start()

    running: list[Process] = []
    try:
        start()
        demo = msgspec.json.decode((folder / "data" / "demo.json").read_bytes())
        keys = {"key": demo["test"]["api_key"], "live_key": demo["live"]["api_key"]}
        options = Options(url=f"{url}/v1", receiver=receiver, certificate=certificate, **keys)
        own = RunningInstallation(options, certificate, restart, all_settings)
        own.run("org", "allow-redirect", demo["organisation_id"], REDIRECT_HOST)
        yield own
    finally:
        for process in running:
            process.stop()

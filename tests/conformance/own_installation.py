"""`tonne serve --demo` as a process of its own, with the settings that the conformance suite asks for."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.support.command import tonne
from tests.support.processes import HOST, Process, free_port
from tonne_conformance.certificate import CertificateFiles, make_certificate
from tonne_conformance.options import DEFAULT_REDIRECT_URL, Options, ReceiverAddress, settings_for

REDIRECT_HOST = urlsplit(DEFAULT_REDIRECT_URL).netloc


class OwnInstallation(msgspec.Struct, frozen=True):
    """What a stranger who runs the suite knows, and the certificate of the receiver."""

    options: Options
    certificate: CertificateFiles


@contextlib.contextmanager
def own_installation(folder: Path, **settings: Any) -> Iterator[OwnInstallation]:
    """Without the setting `database_url`, the service starts a PostgreSQL of its own in the folder."""
    port = free_port()
    url = f"http://{HOST}:{port}"
    certificate = make_certificate(folder / "certificates", HOST)
    receiver = ReceiverAddress.parse(f"{HOST}:{free_port()}")
    needed = {name.removeprefix("TONNE_").lower(): value for name, value in settings_for(receiver, certificate).items()}
    all_settings = {"data_dir": folder / "data", "port": port, "public_url": url, **needed, **settings}
    process = Process("tonne", "serve", "--demo", settings=all_settings, log=folder / "tonne.log")
    try:
        process.wait_until_ready(port)
        demo = msgspec.json.decode((folder / "data" / "demo.json").read_bytes())
        allowed = tonne("org", "allow-redirect", demo["organisation_id"], REDIRECT_HOST, **all_settings)
        assert allowed.returncode == 0, allowed.stderr
        keys = {"key": demo["test"]["api_key"], "live_key": demo["live"]["api_key"]}
        yield OwnInstallation(Options(url=f"{url}/v1", receiver=receiver, certificate=certificate, **keys), certificate)
    finally:
        process.stop()

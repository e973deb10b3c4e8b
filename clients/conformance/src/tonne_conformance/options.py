"""The options of a run."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tonne_conformance.certificate import CertificateFiles

DEFAULT_REDIRECT_URL = "https://shop.example.com/thanks"


@dataclass(frozen=True)
class ReceiverAddress:
    """`base_url` is what the service calls; `listen` is where the suite waits for it."""

    base_url: str
    host: str
    listen: tuple[str, int]

    @staticmethod
    def parse(text: str, listen: str = "") -> "ReceiverAddress":
        """HOST:PORT or an https URL. Raises ValueError."""
        url = text if "://" in text else f"https://{text}"
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ValueError(f"{text} is neither HOST:PORT nor an https URL.")
        port = parts.port if parts.port is not None else 443
        if listen:
            host, _, number = listen.rpartition(":")
            return ReceiverAddress(url.rstrip("/"), parts.hostname, (host or "127.0.0.1", int(number)))
        own = parts.hostname if is_private(parts.hostname) else "0.0.0.0"  # noqa: S104 - the service is elsewhere
        return ReceiverAddress(url.rstrip("/"), parts.hostname, (own, port))


def is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Options:
    url: str
    key: str
    live_key: str = ""
    receiver: ReceiverAddress = ReceiverAddress("https://127.0.0.1:9443", "127.0.0.1", ("127.0.0.1", 9443))
    certificate: CertificateFiles | None = None
    only: tuple[str, ...] = ()
    brand: str = "Service"
    redirect_url: str = DEFAULT_REDIRECT_URL
    # Leave out checks that wait for real limits of time.
    fast: bool = False
    # Wait for the 15 minutes after which a temporary id is no longer valid.
    patient: bool = False
    report_dir: Path | None = None
    threads: int = 16


def settings_for(address: ReceiverAddress, certificate: CertificateFiles) -> dict[str, str]:
    """The settings that a service needs to reach the receiver. Empty if it needs none."""
    settings = {}
    if certificate.authority is not None:
        settings["TONNE_WEBHOOK_CA_FILE"] = str(certificate.authority.resolve())
    if is_private(address.host):
        settings["TONNE_WEBHOOK_ALLOW_PRIVATE"] = _networks_of(address.host)
    return settings


def _networks_of(host: str) -> str:
    if host == "localhost":
        return "127.0.0.0/8,::1/128"
    ip = ipaddress.ip_address(host)
    if ip.is_loopback and ip.version == 4:
        return "127.0.0.0/8"
    return f"{ip}/{ip.max_prefixlen}"

"""For which domain passkeys are made. Browsers accept them for a name, over https or on the same machine."""

import re

from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import WEB, parse_url

_ADDRESS = re.compile(r"\[.*\]|[0-9.]+")


class PasskeyDomain(Struct, frozen=True):
    # The relying party's id.
    name: str
    origin: str
    # Why there can be no passkeys, and what to do. Empty if there can.
    unavailable: str = ""


def passkey_domain(settings: Settings) -> PasskeyDomain:
    url = parse_url(settings.base_url, WEB)
    is_default_port = url.port in {None, 443 if url.scheme == "https" else 80}
    origin = f"{url.scheme}://{url.host}" + ("" if is_default_port else f":{url.port}")
    is_local = url.host == "localhost" or url.host.endswith(".localhost")
    reason = ""
    if _ADDRESS.fullmatch(url.host):
        reason = (
            f"Browsers make passkeys for names only, and this service is at the address {url.host}. The operator can "
            "give it a name such as offsets.example.com (TONNE_PUBLIC_URL)."
        )
    elif url.scheme != "https" and not is_local:
        reason = (
            f"Browsers make passkeys over https only, and this service is at {origin}. The operator can put it behind "
            "a proxy with TLS (TONNE_PUBLIC_URL)."
        )
    return PasskeyDomain(url.host, origin, reason)

"""The client's address, as proxies and sockets spell it, and the name under which its limits are counted."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# "203.0.113.9:4711" and "[2001:db8::1]:4711": some proxies add the port.
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([^:]+))(?::\d+)?")
_IPV6_NETWORK = 64
_IPV6_SITE = 48
# An IPv6 address with zone and port. Longer texts are not addresses, and must not fill the cache.
_MAX_TEXT = 80
_REMEMBERED = 4096


def parse_address(text: str) -> Address | None:
    """Without port and zone; an IPv4 address that is mapped into IPv6 as itself."""
    return _parse(text) if len(text) <= _MAX_TEXT else None


@lru_cache(_REMEMBERED)
def _parse(text: str) -> Address | None:
    found = _WITH_PORT.fullmatch(text.strip())
    plain = (found[1] or found[2]) if found else text.strip()
    try:
        address = ipaddress.ip_address(plain.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def forwarded_for(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """All lines of X-Forwarded-For: some proxies add a line instead of extending the one that is there."""
    lines = [value for name, value in headers if name == b"x-forwarded-for"]
    return b",".join(lines) if lines else None


def client_address(peer: str, forwarded_for: bytes | None, proxies: Sequence[Network]) -> str:
    """The last address of X-Forwarded-For that is not a trusted proxy, or the peer's."""
    text, address = peer, parse_address(peer)
    hops = forwarded_for.decode("latin-1").split(",") if forwarded_for else []
    while hops and address is not None and any(address in network for network in proxies):
        text = hops.pop()
        address = parse_address(text)
    return peer if address is None else _spelling(text)


@lru_cache(_REMEMBERED)
def _spelling(text: str) -> str:
    """The same text for all spellings of an address."""
    return str(_parse(text))


@lru_cache(_REMEMBERED)
def limit_name(client: str) -> str:
    """Limits count a whole /64 of IPv6 as one client: one customer gets that many addresses."""
    address = parse_address(client)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))
    return client


def site_name(limited_as: str) -> str | None:
    """The /48 of a client that is limited as a /64 of IPv6: providers give that much to one customer, too."""
    return _site(limited_as) if limited_as.endswith(f"/{_IPV6_NETWORK}") else None


@lru_cache(_REMEMBERED)
def _site(network: str) -> str | None:
    try:
        return str(ipaddress.IPv6Network(network).supernet(new_prefix=_IPV6_SITE))
    except ValueError:
        return None

"""Which addresses webhooks may be sent to: checked at registration, and again on the address that is connected to.

Receivers are addresses that customers choose. Without this check they could make Tonne send requests to itself, to its
database or to the metadata server of the cloud (SSRF).
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import yarl

from tonne.base.settings import Network, parse_networks
from tonne.base.urls import UrlInvalid, parse_url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# `ipaddress.is_global` is not enough: it accepts NAT64 addresses that contain a private IPv4 address.
REFUSED = parse_networks(
    "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, 192.0.2.0/24, "
    "192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24, 224.0.0.0/4, 240.0.0.0/4, "
    "::/96, 64:ff9b::/96, 64:ff9b:1::/48, 100::/64, 2001::/23, 2001:db8::/32, 2002::/16, 3fff::/20, 5f00::/16, "
    "fc00::/7, fe80::/10, fec0::/10, ff00::/8"
)
# Metadata servers of clouds, which hand out credentials: refused whatever the settings allow.
NEVER = parse_networks("169.254.0.0/16")

# IPv4-compatible addresses and both NAT64 prefixes: the last 32 bits are the IPv4 address.
_TRANSLATED = parse_networks("::/96, 64:ff9b::/96, 64:ff9b:1::/48")


class AddressRefused(OSError):
    """An OSError, so that aiohttp treats it as a failed connection."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """`opened` lists private networks that are allowed for development. An empty `ports` allows all ports."""

    opened: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({443, 8443})

    def permits(self, text: str) -> bool:
        address = unwrap(ipaddress.ip_address(text.partition("%")[0]))
        if _within(address, NEVER):
            return False
        return _within(address, self.opened) or not _within(address, REFUSED)

    def check_addresses(self, addresses: Iterable[str]) -> None:
        """Every address must be public: a name could resolve to a public and a private one."""
        for address in addresses:
            if not self.permits(address):
                raise AddressRefused(f"the address {address} is not public")

    def parse_url(self, text: str) -> yarl.URL:
        """The URL in the form in which it is requested; raises UrlInvalid."""
        url = parse_url(text)
        if "#" in url.rest:
            raise UrlInvalid("it must not have a fragment")
        if self.ports and (url.port or 443) not in self.ports:
            raise UrlInvalid(f"its port must be one of {', '.join(map(str, sorted(self.ports)))}")
        return yarl.URL(str(url))


def unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address contains, as far as it matters.

    A mapped address (::ffff:0:0/96) connects to the inner one. The other forms are refused as such; their inner
    address matters only if it is one that the settings can never allow.
    """
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    inner: list[ipaddress.IPv4Address] = []
    if _within(address, _TRANSLATED):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    if address.teredo is not None:
        inner += address.teredo
    return next((wrapped for wrapped in inner if _within(wrapped, NEVER)), address)


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)

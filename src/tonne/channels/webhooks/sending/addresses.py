"""Which addresses webhooks may be sent to: checked at registration, and again on the address that is connected to.

Receivers are addresses that customers choose. Without this check they could make Tonne send requests to itself, to its
database or to the metadata server of the cloud (SSRF).
"""

import ipaddress
from collections.abc import Iterable, Sequence

import yarl
from msgspec import Struct

from tonne.platform.settings.settings import Network, parse_networks
from tonne.platform.values.urls import UrlInvalid, parse_url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Global unicast. Everything else is refused, also what is not assigned yet.
GLOBAL = parse_networks("0.0.0.0/0, 2000::/3")
# Special networks within it. `ipaddress.is_global` is not enough: it accepts some addresses that wrap a private one.
SPECIAL = parse_networks(
    "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, 192.0.2.0/24, "
    "192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24, 224.0.0.0/4, 240.0.0.0/4, "
    "2001::/23, 2001:db8::/32, 2002::/16, 3fff::/20"
)
# Metadata servers of clouds, which hand out credentials: refused whatever the settings allow. 168.63.129.16 is in a
# public range; the others are local.
NEVER = parse_networks(
    "169.254.0.0/16, 168.63.129.16/32, 100.100.100.200/32, 192.0.0.192/32, fd00:ec2::254/128, fd20:ce::254/128"
)

# Networks in which the last 32 bits are an IPv4 address: mapped, translated (SIIT), compatible, and NAT64.
_WRAPPING = parse_networks("::ffff:0:0/96, ::ffff:0:0:0/96, ::/96, 64:ff9b::/96, 64:ff9b:1::/48")
_NOT_WRAPPING = parse_networks("::/127")


class AddressRefused(OSError):
    """An OSError, so that aiohttp treats it as a failed connection."""


class AddressPolicy(Struct, frozen=True):
    """`opened` lists private networks that are allowed for development. An empty `ports` allows all ports."""

    opened: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset()

    def permits(self, text: str) -> bool:
        """A wrapped IPv4 address is checked too: a translator on the route would connect to it."""
        address = ipaddress.ip_address(text.partition("%")[0])
        wrapped = wrapped_addresses(address)
        # A mapped address is only a spelling of the IPv4 address.
        mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
        return all(self._permits(each) for each in (wrapped if mapped else [address, *wrapped]))

    def _permits(self, address: Address) -> bool:
        if _within(address, NEVER):
            return False
        return _within(address, self.opened) or (_within(address, GLOBAL) and not _within(address, SPECIAL))

    def check_addresses(self, addresses: Iterable[str]) -> None:
        """Every address must be public: a name could resolve to a public and a private one."""
        for address in addresses:
            if not self.permits(address):
                # Without the address: it would reveal what internal names resolve to.
                raise AddressRefused("its address is not public")

    def parse_url(self, text: str) -> yarl.URL:
        """The URL in the form in which it is requested; raises UrlInvalid."""
        url = parse_url(text)
        if "#" in url.rest:
            raise UrlInvalid("it must not have a fragment")
        if self.ports and (url.port or 443) not in self.ports:
            raise UrlInvalid(f"its port must be one of {', '.join(map(str, sorted(self.ports)))}")
        return yarl.URL(str(url))


def wrapped_addresses(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address contains."""
    if not isinstance(address, ipaddress.IPv6Address) or _within(address, _NOT_WRAPPING):
        return []
    inner: list[ipaddress.IPv4Address] = []
    if _within(address, _WRAPPING):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    if address.teredo is not None:
        inner += address.teredo
    return inner


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)

"""Where we are willing to send: judged when a receiver is registered, and again on the address that is really dialled.

Receivers are addresses that strangers give us. Without this guard they could make the service talk to itself, to its
database or to the cloud's metadata server.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import yarl

from tonne.base.settings import Network
from tonne.base.urls import UrlInvalid, parse_url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# `ipaddress.is_global` is not enough: it lets an IPv4 address through that is wrapped into a NAT64 one.
REFUSED: tuple[Network, ...] = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
# Where clouds keep their credentials: shut even when a developer opens everything private.
NEVER: tuple[Network, ...] = (ipaddress.ip_network("169.254.0.0/16"),)

# IPv4-compatible addresses and the two prefixes of NAT64: the IPv4 address is in the last 32 bits.
_TRANSLATED = tuple(ipaddress.ip_network(network) for network in ("::/96", "64:ff9b::/96", "64:ff9b:1::/48"))


class AddressRefused(OSError):
    """An OSError, so that the client library treats it as a connection that cannot be made."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """`opened` networks are allowed although they are private: for development. An empty `ports` allows all."""

    opened: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({443, 8443})

    def permits(self, text: str) -> bool:
        address = unwrap(ipaddress.ip_address(text.partition("%")[0]))
        if _within(address, NEVER):
            return False
        return _within(address, self.opened) or not _within(address, REFUSED)

    def check_addresses(self, addresses: Iterable[str]) -> None:
        """All of them: a name with one public and one private address is a trap."""
        for address in addresses:
            if not self.permits(address):
                raise AddressRefused(f"the address {address} is not a public one")

    def parse_url(self, text: str) -> yarl.URL:
        """The receiver's address in the form in which it is dialled; raises UrlInvalid."""
        url = parse_url(text)
        if "#" in url.rest:
            raise UrlInvalid("it must not have a fragment")
        if self.ports and (url.port or 443) not in self.ports:
            raise UrlInvalid(f"its port must be one of {', '.join(map(str, sorted(self.ports)))}")
        return yarl.URL(str(url))


def unwrap(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that stands for it.

    A mapped address (::ffff:0:0/96) is dialled as the inner one. The older and translated forms are refused as such;
    their inner address matters only where even the operator may not open it.
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

"""The web sites of registries: to check the address of a retirement, and to say what it opens."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from tonne.platform.values.urls import WEB, UrlInvalid, parse_url

# By the id that `registry_id` gives to all names of a registry. Subdomains are included.
HOSTS: dict[str, tuple[str, ...]] = {
    "VERRA": ("verra.org",),
    "GOLDSTANDARD": ("goldstandard.org",),
    # The registry moved in 2026. Pages of certificates from before stay on the old host.
    "ACR": ("greentrace.ice.com", "acr2.apx.com", "acrcarbon.org"),
    "CAR": ("thereserve2.apx.com", "climateactionreserve.org"),
    "PURO": ("puro.earth",),
    "ISOMETRIC": ("isometric.com",),
    "PLANVIVO": ("registry.spglobal.com", "planvivo.org"),
    "BIOCARBON": ("globalcarbontrace.io", "biocarbonstandard.com"),
    "CERCARBONO": ("cercarbono.com",),
}


class Opens(StrEnum):
    """What the address of a retirement opens."""

    RETIREMENT = "retirement"
    PROJECT = "project"
    # Of many retirements: search for the serial.
    LIST = "list"


# What the addresses of known sites open, by a part of them. The first that fits counts.
_OPENS = (
    (re.compile(r"//to\.isometric\.com/ret_"), Opens.RETIREMENT),
    (re.compile(r"//retirements\.puro\.earth/retirement-statement/."), Opens.RETIREMENT),
    (re.compile(r"//registry\.goldstandard\.org/credit-blocks/details/[0-9]"), Opens.RETIREMENT),
    (re.compile(r"verra\.org/.*/myrpt\.asp\?.*\bh=[0-9]"), Opens.RETIREMENT),
    (re.compile(r"//registry\.puro\.earth/retirements/?$"), Opens.LIST),
    (re.compile(r"//public-api\.goldstandard\.org/credits\?"), Opens.LIST),
    (re.compile(r"(?:apx\.com|verra\.org)/.*/myrpt\.asp", re.IGNORECASE), Opens.LIST),
    (re.compile(r"greentrace\.ice\.com/.*/project/.|/prjView\.asp\?id1=", re.IGNORECASE), Opens.PROJECT),
    (re.compile(r"verra\.org/app/projectDetail/", re.IGNORECASE), Opens.PROJECT),
    (re.compile(r"//registry\.(?:spglobal|cercarbono)\.com/.*projects/."), Opens.PROJECT),
)


def what_opens(url: str) -> Opens | None:
    """None if it is not known."""
    return next((opens for pattern, opens in _OPENS if pattern.search(url)), None)


# Registries that publish all retirements in one report, and have no page for each.
REPORTS = frozenset({"ACR", "CAR"})


def hosts_of(registry_id: str, registry_url: str | None) -> tuple[str, ...]:
    """The hosts on which a registry publishes retirements; empty if they are not known.

    The project's own page at the registry counts too, so that a registry may move before this table is changed.
    """
    known = HOSTS.get(registry_id, ())
    host = _host(registry_url)
    return (*known, host) if known and host else known


def is_on(hosts: tuple[str, ...], url: str) -> bool:
    host = _host(url)
    return any(host == each or host.endswith(f".{each}") for each in hosts)


def _host(url: str | None) -> str:
    try:
        return parse_url(url, WEB).host if url else ""
    except UrlInvalid:
        return ""


class RegistryPages(Struct, frozen=True):
    """Where registries publish retirements: the table above, and what the operator has set, by registry id."""

    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def refusal(self, registry: str, registry_id: str, registry_url: str | None, url: str) -> str | None:
        """Why this cannot be the page of a retirement at the registry; None if it can."""
        own = self.prefixes.get(registry_id, ())
        hosts = hosts_of(registry_id, registry_url)
        if any(url.startswith(prefix) for prefix in own) or is_on(hosts, url):
            return None
        if own or hosts:
            places = ", ".join((*hosts, *own))
            return f"the page is not one of {registry} ({places}): enter that of the retirement there."
        if not is_on(tuple(filter(None, [_host(registry_url)])), url) and (other := self._owner(url)):
            return f"the page is one of the registry {other}, not of {registry}: enter that of the retirement there."
        return None

    def _owner(self, url: str) -> str | None:
        known = ((id_, is_on(hosts, url)) for id_, hosts in HOSTS.items())
        added = ((id_, any(url.startswith(each) for each in prefixes)) for id_, prefixes in self.prefixes.items())
        return next((id_ for id_, fits in (*known, *added) if fits), None)

    @staticmethod
    def is_report(registry_id: str) -> bool:
        """Whether one page may describe several retirements."""
        return registry_id in REPORTS


def group_prefixes(pages: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Registry ids and prefixes of addresses, by registry id."""
    found: dict[str, tuple[str, ...]] = {}
    for registry_id, prefix in pages:
        found[registry_id] = (*found.get(registry_id, ()), prefix)
    return found

"""The web sites of registries, for checking the address of a retirement."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from tonne.platform.values.urls import WEB, UrlInvalid, parse_url

# By the id that the SQL function `registry_id` gives to all names of a registry. Subdomains are included.
HOSTS: dict[str, tuple[str, ...]] = {
    "VERRA": ("verra.org",),
    "GOLDSTANDARD": ("goldstandard.org",),
    "ACR": ("acr2.apx.com", "acrcarbon.org"),
    "CAR": ("thereserve2.apx.com", "climateactionreserve.org"),
    "PURO": ("puro.earth",),
    "ISOMETRIC": ("isometric.com",),
}
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

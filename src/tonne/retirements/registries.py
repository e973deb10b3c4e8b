"""The web sites of registries, for checking the address of a retirement."""

from tonne.base.urls import WEB, UrlInvalid, parse_url

# By the id that the SQL function `registry_id` gives to all names of a registry. Subdomains are included.
HOSTS: dict[str, tuple[str, ...]] = {
    "VERRA": ("verra.org",),
    "GOLDSTANDARD": ("goldstandard.org",),
    "ACR": ("acr2.apx.com", "acrcarbon.org"),
    "CAR": ("thereserve2.apx.com", "climateactionreserve.org"),
    "PURO": ("puro.earth",),
    "ISOMETRIC": ("isometric.com",),
}


def hosts_of(registry_id: str, registry_url: str | None) -> tuple[str, ...]:
    """The hosts on which a registry publishes retirements; empty if they are not known.

    The project's own page at the registry counts too, so that a registry may move before this table is changed.
    """
    known = HOSTS.get(registry_id, ())
    try:
        return (*known, parse_url(registry_url, WEB).host) if known and registry_url else known
    except UrlInvalid:
        return known


def is_on(hosts: tuple[str, ...], url: str) -> bool:
    host = parse_url(url, WEB).host
    return any(host == each or host.endswith(f".{each}") for each in hosts)

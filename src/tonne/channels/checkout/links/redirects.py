"""Validating redirect URLs: only hosts on the organisation's list are allowed, compared as browsers do."""

from collections.abc import Collection, Mapping
from urllib.parse import unquote_plus, urlencode

from tonne.channels.checkout.errors import RedirectRefused
from tonne.platform.values.replace import replace
from tonne.platform.values.scope import Mode
from tonne.platform.values.urls import WEB, UrlInvalid, parse_url
from tonne.selling.accounts.errors import RedirectHostInvalid
from tonne.selling.accounts.redirect_hosts import Host, read_host, spell_host

MAX_URL = 2000
# The developer's own machine, which has no TLS certificate.
_OWN_MACHINE = {"localhost", "127.0.0.1"}


def check_redirect(url: str, hosts: Collection[str], mode: Mode) -> str:
    """Returns the URL in ASCII, with the host as it was compared; raises RedirectRefused.

    `hosts` is the organisation's list as `list_hosts` returns it.
    """
    try:
        parsed = parse_url(url, WEB, max_length=MAX_URL)
        host = read_host(spell_host(Host(parsed.host, parsed.port)))
    except UrlInvalid as error:
        raise _refused(str(error)) from error
    except RedirectHostInvalid as error:
        raise _refused("its host is not written as a plain name") from error
    listed = spell_host(host)
    if parsed.scheme == "http":
        if mode is not Mode.TEST or host.name not in _OWN_MACHINE:
            raise _refused("it does not start with https://")
        listed = host.name
    if listed not in hosts:
        raise _refused(
            f"the host {listed} is not on the organisation's list of redirect hosts; the operator adds "
            f"it with `tonne org allow-redirect`"
        )
    usable = str(parsed if parsed.scheme == "http" else replace(parsed, port=host.port))
    if len(usable) > MAX_URL:
        raise _refused(f"it is longer than {MAX_URL} characters")
    return usable


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """Adds query parameters, replacing those with the same names."""
    before, hash_sign, fragment = url.partition("#")
    place, _, query = before.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in parameters]
    added = [urlencode({name: value}) for name, value in parameters.items()]
    joined = "&".join(kept + added)
    return f"{place}{'?' if joined else ''}{joined}{hash_sign}{fragment}"


def _refused(why: str) -> RedirectRefused:
    return RedirectRefused(f"The redirect_url cannot be used: {why}.", field="redirect_url")

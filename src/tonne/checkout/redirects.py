"""Where a checkout may send a person: only to hosts that the organisation allows, told apart as browsers do."""

import re
from collections.abc import Collection, Mapping
from urllib.parse import quote, unquote_plus, urlencode

from tonne.accounts.errors import RedirectHostInvalid
from tonne.accounts.redirect_hosts import read_host, spell_host
from tonne.base.scope import Mode
from tonne.checkout.errors import RedirectRefused

MAX_URL = 2000
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE | re.ASCII)
_AFTER_SCHEME = re.compile(r"//(?P<authority>[^/?#]+)(?P<rest>.*)")
# Browsers drop some of these without a word, so that what they open is not what was read here.
_UNSEEN = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029]")
_KEPT = "%/:?#[]@!$&'()*+,;=-._~"
# What a developer's own software answers at, where there is no certificate to be had.
_OWN_MACHINE = {"localhost", "127.0.0.1"}


def check_redirect(url: str, hosts: Collection[str], mode: Mode) -> str:
    """The address to use, in ASCII and with its host as it was compared, or RedirectRefused.

    `hosts` are those of the organisation's list, as `list_hosts` returns them.
    """
    scheme, authority, rest = _take_apart(url)
    if scheme != "https" and not (scheme == "http" and mode is Mode.TEST):
        raise _refused("it does not start with https://")
    try:
        host = read_host(authority)
    except RedirectHostInvalid as error:
        raise _refused("its host is not written as a plain name") from error
    if scheme == "https":
        place = listed = spell_host(host)
    elif host.name in _OWN_MACHINE:
        place, listed = authority.lower(), host.name
    else:
        raise _refused("it does not start with https://")
    if listed not in hosts:
        raise _refused(f"the host {listed} is not on the organisation's list of redirect hosts")
    usable = f"{scheme}://{place}{quote(rest, safe=_KEPT)}"
    if len(usable) > MAX_URL:
        raise _refused(f"it is longer than {MAX_URL} characters")
    return usable


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """The address with these parameters at the end of its query; others of the same names make way."""
    before, hash_sign, fragment = url.partition("#")
    place, _, query = before.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in parameters]
    added = [urlencode({name: value}) for name, value in parameters.items()]
    joined = "&".join(kept + added)
    return f"{place}{'?' if joined else ''}{joined}{hash_sign}{fragment}"


def _take_apart(url: str) -> tuple[str, str, str]:
    """Scheme, host with port, and all that follows. Nothing here is read in two ways by two programs."""
    if len(url) > MAX_URL:
        raise _refused(f"it is longer than {MAX_URL} characters")
    if _UNSEEN.search(url):
        raise _refused("it has spaces or control characters")
    if "\\" in url:
        raise _refused("it has a backslash")
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise _refused("it is not a whole address such as https://shop.example.com/thanks")
    if scheme[1].lower() not in {"https", "http"}:
        raise _refused("it does not start with https://")
    parts = _AFTER_SCHEME.fullmatch(url, scheme.end())
    if parts is None or not _is_text(url):
        raise _refused("it is not a whole address such as https://shop.example.com/thanks")
    if "@" in parts["authority"]:
        raise _refused("it has a user name or a password in it")
    return scheme[1].lower(), parts["authority"], parts["rest"]


def _is_text(url: str) -> bool:
    """Half a character, which JSON can spell and UTF-8 cannot."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused(why: str) -> RedirectRefused:
    return RedirectRefused(f"The redirect_url cannot be used: {why}.", field="redirect_url")

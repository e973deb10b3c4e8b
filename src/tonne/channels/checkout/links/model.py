"""An offset link: a public page where anyone can pay for an order of one account, and its button after the payment.

The button leads only to hosts on the organisation's list, compared as browsers do.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus, urlencode

from msgspec import Struct

from tonne.channels.checkout.errors import RedirectRefused
from tonne.platform.values.context import Mode, Scope, replace
from tonne.platform.values.language import LanguageCode
from tonne.platform.values.urls import WEB, UrlInvalid, parse_url
from tonne.selling.accounts.errors import RedirectHostInvalid
from tonne.selling.accounts.redirect_hosts import Host, read_host, spell_host

MAX_URL = 2000
# How long queries that are signed with the old secret stay valid after a rotation.
MAX_OVERLAP_S = 604_800


class LinkBeneficiary(StrEnum):
    """In whose name the certificates of a link's orders are issued."""

    ACCOUNT = "account"
    # The page asks customers for their name. Without one, the account's applies.
    CUSTOMER = "customer"


class OffsetLink(Struct, frozen=True, kw_only=True):
    scope: Scope
    id: str
    title: str
    message: str
    # The bundles on offer, in the format of the API. None: the account's default bundles.
    bundle_selection: list[dict[str, Any]] | None
    # At most one preset is set, and exactly one if the amount is not editable.
    preset_quantity_grams: int | None
    preset_value_minor: int | None
    amount_editable: bool
    # Limits; None means no limit. Values are totals, fee included.
    min_quantity_grams: int | None
    max_quantity_grams: int | None
    min_value_minor: int | None
    max_value_minor: int | None
    redirect_url: str | None
    redirect_label: str | None
    enabled: bool
    expires_at: datetime | None
    created_at: datetime
    beneficiary: LinkBeneficiary = LinkBeneficiary.ACCOUNT
    # The language for visitors whose browser names none of ours. None: the account's.
    language: LanguageCode | None = None

    @property
    def asks_for_name(self) -> bool:
        """Whether customers are asked for the name on the certificate."""
        return self.beneficiary is LinkBeneficiary.CUSTOMER

    def is_open(self, now: datetime) -> bool:
        return self.enabled and (self.expires_at is None or now < self.expires_at)

    def address(self, base_url: str) -> str:
        return f"{base_url}/offset/{self.id}"


_MAX_LABEL = 100
# The developer's own machine, which has no TLS certificate.
_OWN_MACHINE = {"localhost", "127.0.0.1"}


class Redirect(Struct, frozen=True):
    """Target and label of the button. In the API, in queries and columns, the names begin with `redirect_`."""

    url: str | None = None
    label: str | None = None

    def shortened(self) -> "Redirect":
        """A query may have a label of any length."""
        return replace(self, label=(self.label or "").strip()[:_MAX_LABEL] or None)

    def named(self) -> dict[str, str | None]:
        return {f"redirect_{name}": getattr(self, name) for name in self.__struct_fields__}


def read_redirect(value_of: Callable[[str], str | None]) -> Redirect:
    """`value_of` returns the value of `redirect_url` and the like."""
    return Redirect(**{name: value_of(f"redirect_{name}") for name in Redirect.__struct_fields__})


def choose_redirect(link: OffsetLink, asked: Redirect, hosts: Collection[str]) -> Redirect:
    """The button that was asked for, completed by the link's own. Validated every time: hosts can be forbidden.

    Raises RedirectRefused if `asked` has a URL that is not allowed. Without one, there is no button if the link's own
    URL is no longer allowed.
    """
    mode = link.scope.mode
    if asked.url is not None:
        return replace(asked, url=check_redirect(asked.url, hosts, mode))
    own = read_redirect(lambda name: getattr(link, name))
    try:
        url = check_redirect(own.url or "", hosts, mode)
    except RedirectRefused:
        return Redirect()
    parts = {name: getattr(asked, name) or getattr(own, name) for name in Redirect.__struct_fields__}
    return Redirect(**{**parts, "url": url})


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

"""The one parser for URLs and hosts, and that every place that takes one uses it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.channels.checkout.errors import RedirectRefused
from tonne.channels.checkout.links.model import check_redirect
from tonne.channels.webhooks.sending.addresses import AddressPolicy
from tonne.platform.documents.sheets.columns import CellError, parse_web_url
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import SettingsError
from tonne.platform.values.context import Mode
from tonne.platform.values.urls import WEB, UrlInvalid, parse_host, parse_url
from tonne.selling.accounts.errors import RedirectHostInvalid
from tonne.selling.accounts.redirect_hosts import read_host, spell_host


def as_csv_cell(host: str) -> str:
    try:
        return parse_url(parse_web_url(f"https://{host}/")).host
    except CellError as error:
        raise UrlInvalid(str(error)) from error


PLACES: dict[str, Callable[[str], str]] = {
    "webhook": lambda host: AddressPolicy().parse_url(f"https://{host}/").raw_host or "",
    "redirect host": lambda host: spell_host(read_host(host)),
    "redirect": lambda host: check_redirect(
        f"https://{host}/", {"xn--strae-oqa.de", "xn--bcher-kva.example", "example.com"}, Mode.LIVE
    ).split("/")[2],
    "csv cell": as_csv_cell,
    "setting": lambda host: load_settings({"TONNE_PUBLIC_URL": f"https://{host}/"}).base_url.split("/")[2],
    "mail server": lambda host: (
        parse_url(load_settings({"TONNE_SMTP_URL": f"smtp://{host}"}).smtp_url, ("smtp",), credentials=True).host
    ),
}
REFUSALS = (UrlInvalid, RedirectHostInvalid, RedirectRefused, SettingsError)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("straße.de", "xn--strae-oqa.de"),
        ("STRASSE.DE".replace("SS", "ẞ"), "xn--strae-oqa.de"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("Example.COM", "example.com"),
    ],
)
def test_a_host_is_read_alike_in_every_place(place: str, host: str, expected: str) -> None:
    assert PLACES[place](host) == expected


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "host",
    [
        *("ｅｘａｍｐｌｅ.com", "example。com", "exam\u00adple.com", "exam\u200bple.com", "\u202eexample.com"),
        *("example.\u212aom", "①.com", "0x7f.1", "2130706433", "127.1", "127.0.0.01", "example..com", "-a.com"),
        *("example.com:0", "example.com:99999", "example.com:", "a b.com", "a\\b.com", f"{'a' * 64}.com", ""),
    ],
)
def test_a_host_with_two_readings_is_refused_in_every_place(place: str, host: str) -> None:
    with pytest.raises(REFUSALS):
        PLACES[place](host)


def test_the_parts_of_a_url() -> None:
    url = parse_url("HTTPS://Me:p%40ss@[::1]:8443/ä?b=%2F#c", WEB, credentials=True)
    assert (url.scheme, url.userinfo, url.host, url.port, url.rest) == (
        "https",
        "Me:p%40ss",
        "[::1]",
        8443,
        "/%C3%A4?b=%2F#c",
    )
    assert str(url) == "https://[::1]:8443/%C3%A4?b=%2F#c"


@given(st.text(max_size=30))
def test_what_is_accepted_is_plain_and_stable(text: str) -> None:
    try:
        host, port = parse_host(text)
    except UrlInvalid:
        return
    assert host.isascii()
    assert host == host.lower()
    spelt = host if port is None else f"{host}:{port}"
    assert parse_host(spelt) == (host, port)


@given(st.one_of(st.text(max_size=20), st.text("abAB.:/?#[]@%&=-_~ü1", max_size=30)))
def test_a_url_that_is_accepted_stays_the_same_when_it_is_read_again(rest: str) -> None:
    try:
        url = parse_url(f"https://{rest}", credentials=True)
    except UrlInvalid:
        return
    assert parse_url(str(url)) == parse_url(str(parse_url(str(url))))
    assert str(url).isascii()

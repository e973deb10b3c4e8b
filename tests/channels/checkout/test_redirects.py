"""Validating redirect URLs."""

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tonne.channels.checkout.errors import RedirectRefused
from tonne.channels.checkout.links.model import check_redirect, with_query
from tonne.platform.values.context import Mode
from tonne.selling.accounts.errors import RedirectHostInvalid
from tonne.selling.accounts.redirect_hosts import read_host, spell_host

HOSTS = frozenset(
    {"example.com", "shop.example.com:8443", "xn--bcher-kva.example", "xn--strae-oqa.de", "localhost", "127.0.0.1"}
)
NOT_HTTPS = "does not start with https://"
NOT_ALLOWED = "is not on the organisation's list"
NOT_PLAIN = "not written as a plain name"
NOT_WHOLE = "not a whole address"


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com/", "https://example.com/"),
        ("HTTPS://Example.COM/Path?Query#Fragment", "https://example.com/Path?Query#Fragment"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("https://shop.example.com:8443/a", "https://shop.example.com:8443/a"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://straße.de/", "https://xn--strae-oqa.de/"),
        ("https://XN--Bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://example.com/straße?ö=1#ü", "https://example.com/stra%C3%9Fe?%C3%B6=1#%C3%BC"),
        ("https://example.com/%7Ea%zz?a=%2F", "https://example.com/%7Ea%zz?a=%2F"),
        ('https://example.com/"><script>', "https://example.com/%22%3E%3Cscript%3E"),
        ("https://example.com?@evil.com/", "https://example.com?@evil.com/"),
        ("https://example.com#@evil.com", "https://example.com#@evil.com"),
        ("https://example.com//evil.com", "https://example.com//evil.com"),
        ("https://localhost/", "https://localhost/"),
    ],
)
@pytest.mark.parametrize("mode", Mode)
def test_a_url_on_an_allowed_host_is_used_in_ascii(url: str, used: str, mode: Mode) -> None:
    assert check_redirect(url, HOSTS, mode) == used


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://evil-example.com", NOT_ALLOWED),
        ("https://www.example.com", NOT_ALLOWED),
        ("https://example.com.evil.com", NOT_ALLOWED),
        ("https://com", NOT_ALLOWED),
        ("https://xn--example-com.com", NOT_ALLOWED),
        ("https://example.com:8443", NOT_ALLOWED),
        ("https://shop.example.com", NOT_ALLOWED),
        ("https://shop.example.com:443", NOT_ALLOWED),
        ("https://shop.example.com:8444", NOT_ALLOWED),
        ("https://localhost:3000", NOT_ALLOWED),
        ("https://example.com@evil.com", "user name or a password"),
        ("https://example.com:x@evil.com", "user name or a password"),
        ("https://@example.com", "user name or a password"),
        ("https://evil.com\\@example.com", "backslash"),
        ("https:/\\evil.com", "backslash"),
        ("https:\\\\evil.com", "backslash"),
        ("https://example.com/\\evil.com", "backslash"),
        ("https://example.com\t.evil.com", "control characters"),
        ("https://exam\nple.com", "control characters"),
        (" https://example.com", "control characters"),
        ("https://example.com/a b", "control characters"),
        ("https://example.com/\u2028", "control characters"),
        ("https://example.com/\x85", "control characters"),
        ("\x00https://example.com", "control characters"),
        ("https://example.com.", NOT_PLAIN),
        ("https://.example.com", NOT_PLAIN),
        ("https://example..com", NOT_PLAIN),
        ("https://example%2Ecom", NOT_PLAIN),
        ("https://%65xample.com", NOT_PLAIN),
        ("https://ｅｘａｍｐｌｅ.com", NOT_PLAIN),
        ("https://example．com", NOT_PLAIN),
        ("https://example。com", NOT_PLAIN),
        ("https://example.com／evil.com", NOT_PLAIN),
        ("https://exam\u00adple.com", NOT_PLAIN),
        ("https://exam\u200bple.com", NOT_PLAIN),
        ("https://\u202eexample.com", NOT_PLAIN),
        ("https://example.\u212aom", NOT_PLAIN),
        ("https://straße.example", NOT_ALLOWED),
        ("https://strasse.example", NOT_ALLOWED),
        ("https://example.com:", NOT_PLAIN),
        ("https://example.com:0", NOT_PLAIN),
        ("https://example.com:0443", NOT_PLAIN),
        ("https://example.com:65979", NOT_PLAIN),
        ("https://example.com:٤٤٣", NOT_PLAIN),
        ("https://example.com:443:443", NOT_PLAIN),
        ("https://[::1]/", NOT_PLAIN),
        ("https://[example.com]/", NOT_PLAIN),
        ("https://2130706433/", NOT_PLAIN),
        ("https://0x7f.1/", NOT_PLAIN),
        ("https://127.1/", NOT_PLAIN),
        ("https://127.0.0.01/", NOT_PLAIN),
        (f"https://{'ü' * 64}.example/", NOT_PLAIN),
        ("http://example.com", NOT_HTTPS),
        ("ftp://example.com", NOT_HTTPS),
        ("javascript:alert(1)", NOT_HTTPS),
        ("javascript://example.com/%0aalert(1)", NOT_HTTPS),
        ("data:text/html,x", NOT_HTTPS),
        ("httpſ://example.com", NOT_WHOLE),
        ("//example.com", NOT_WHOLE),
        ("/thanks", NOT_WHOLE),
        ("example.com", NOT_WHOLE),
        ("https:example.com", NOT_WHOLE),
        ("https:/example.com", NOT_WHOLE),
        ("https:///example.com", NOT_WHOLE),
        ("https://", NOT_WHOLE),
        ("https://?example.com", NOT_WHOLE),
        ("https://example.com/\ud800", NOT_WHOLE),
        ("", NOT_WHOLE),
        (f"https://example.com/{'a' * 1981}", "longer than 2000"),
        (f"https://example.com/{'ü' * 400}", "longer than 2000"),
    ],
)
@pytest.mark.parametrize("mode", Mode)
def test_any_other_url_is_rejected_with_the_reason(url: str, why: str, mode: Mode) -> None:
    with pytest.raises(RedirectRefused, match=why) as refusal:
        check_redirect(url, HOSTS, mode)
    assert (refusal.value.faults[0].error_code, refusal.value.faults[0].field) == (
        "redirect_url_refused",
        "redirect_url",
    )


@pytest.mark.parametrize(
    "url", ["http://localhost", "http://localhost:3000/done?a=1", "http://127.0.0.1:443/", "http://LOCALHOST:80"]
)
def test_localhost_needs_no_https_in_test_mode(url: str) -> None:
    assert check_redirect(url, HOSTS, Mode.TEST) == url.lower()
    with pytest.raises(RedirectRefused, match=NOT_HTTPS):
        check_redirect(url, HOSTS, Mode.LIVE)
    with pytest.raises(RedirectRefused, match=NOT_ALLOWED):
        check_redirect(url, {"example.com"}, Mode.TEST)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://localhost.evil.com", NOT_HTTPS),
        ("http://127.0.0.2", NOT_HTTPS),
        ("http://example.com", NOT_HTTPS),
        ("http://localhost:99999", NOT_PLAIN),
        ("http://evil.com@localhost", "user name"),
        ("ws://localhost", NOT_HTTPS),
    ],
)
def test_other_hosts_need_https_in_test_mode(url: str, why: str) -> None:
    with pytest.raises(RedirectRefused, match=why):
        check_redirect(url, HOSTS, Mode.TEST)


def test_a_url_of_the_maximum_length_is_accepted() -> None:
    url = f"https://example.com/{'a' * 1980}"
    assert len(url) == 2000
    assert check_redirect(url, HOSTS, Mode.LIVE) == url


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("Shop.Example.com", "shop.example.com"),
        ("shop.example.com:443", "shop.example.com"),
        ("shop.example.com:8443", "shop.example.com:8443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("straße.de", "xn--strae-oqa.de"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_host_has_one_spelling(text: str, stored: str) -> None:
    assert spell_host(read_host(text)) == stored


@pytest.mark.parametrize(
    "text",
    ["", "https://example.com", "example.com/", "*.example.com", "a b", "a_b.example", "-a.example", "a@b", "[::1]"],
)
def test_an_invalid_host_is_rejected(text: str) -> None:
    with pytest.raises(RedirectHostInvalid):
        read_host(text)


PIECES = [
    *(
        "https",
        "http",
        "HTTPS",
        ":",
        "/",
        "//",
        "\\",
        "@",
        "?",
        "#",
        ".",
        "-",
        "&",
        "=",
        "%2e",
        "%40",
        "%00",
        "\t",
        " ",
    ),
    *("example.com", "EXAMPLE.com", "evil.com", "shop.example.com", ":443", ":8443", ":", "localhost", "127.0.0.1"),
    *(
        "https://",
        "https://example.com",
        "bücher.example",
        "xn--",
        "ｅ",
        "。",
        "\u200b",
        "\u00ad",
        "\u212a",
        "ß",
        "[::1]",
    ),
    *("user:pw@", "\x00", "\n", "ü", "\ud800"),
]
urls = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=10).map("".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=8).map(
        lambda parts: f"https://{''.join(parts)}"
    ),
    st.text(),
)


@given(url=urls, mode=st.sampled_from(Mode))
def test_any_accepted_url_leads_to_a_listed_host(url: str, mode: Mode) -> None:
    try:
        used = check_redirect(url, HOSTS, mode)
    except RedirectRefused:
        return
    assert used.isascii()
    assert used.isprintable()
    assert not set(used) & set(' \\<>"`')
    assert len(used) <= 2000
    # Parsed by another library.
    parts = urlsplit(used)
    assert parts.username is None
    assert parts.password is None
    if parts.scheme == "http":
        assert mode is Mode.TEST
        assert parts.hostname in {"localhost", "127.0.0.1"}
    else:
        assert parts.scheme == "https"
        assert parts.netloc in HOSTS
    assert check_redirect(used, HOSTS, mode) == used, "judging it once more changes nothing"


@given(host=st.text(max_size=20))
@example("example.com.")
@example("EXAMPLE.COM:0443")
def test_an_unlisted_host_is_rejected_in_any_spelling(host: str) -> None:
    try:
        listed = spell_host(read_host(host))
    except RedirectHostInvalid:
        listed = ""
    if listed not in HOSTS:
        with pytest.raises(RedirectRefused):
            check_redirect(f"https://{host}", HOSTS, Mode.LIVE)


visible = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="\\"), max_size=30
)


@given(tail=visible)
def test_path_and_query_are_kept(tail: str) -> None:
    used = check_redirect(f"https://example.com/{tail}", HOSTS, Mode.LIVE)
    assert unquote(used.removeprefix("https://example.com/")) == unquote(tail)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", "https://example.com?t=1"),
        ("https://example.com/a?", "https://example.com/a?t=1"),
        ("https://example.com/a?b=2", "https://example.com/a?b=2&t=1"),
        ("https://example.com/a?b=2#c?d", "https://example.com/a?b=2&t=1#c?d"),
        ("https://example.com/#", "https://example.com/?t=1#"),
        ("https://example.com/a?t=0&b&t=9&%74=3", "https://example.com/a?b&t=1"),
        ("https://example.com/a?tt=0&b=%C3%BC+x", "https://example.com/a?tt=0&b=%C3%BC+x&t=1"),
    ],
)
def test_parameters_are_appended_and_replace_existing_ones(url: str, expected: str) -> None:
    assert with_query(url, {"t": "1"}) == expected


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
queries = st.lists(st.tuples(st.one_of(names, st.sampled_from(["temporary_id", "external_id"])), values), max_size=6)


@given(
    query=st.one_of(
        st.text("ab=&%2+;?/temporay_id", max_size=40),
        queries.map(lambda pairs: "&".join(f"{quoted(name)}={quoted(value)}" for name, value in pairs)),
    ),
    fragment=st.sampled_from(["", "#", "#top", "#a?b=c&temporary_id=x"]),
    parameters=st.dictionaries(st.one_of(names, st.sampled_from(["temporary_id", "external_id"])), values, max_size=3),
)
def test_other_parameters_are_kept(query: str, fragment: str, parameters: dict[str, str]) -> None:
    url = with_query(f"https://example.com/a?{query}{fragment}", parameters)
    before, _, after = url.partition("#")
    assert before.startswith("https://example.com/a")
    assert (f"#{after}" if "#" in url else "") == fragment
    found = parse_qsl(before.partition("?")[2], keep_blank_values=True)
    others = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in parameters]
    assert found == others + list(parameters.items())
    assert with_query(url, parameters) == url
    if parameters:
        assert check_redirect(url, HOSTS, Mode.LIVE) == url, "it is still an address that may be used"


def quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())

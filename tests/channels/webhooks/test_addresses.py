"""Receiver addresses: every refused network to its boundaries, and every spelling that could bypass the check."""

import ipaddress

import pytest

from tonne.channels.webhooks.sending.addresses import AddressPolicy, AddressRefused
from tonne.channels.webhooks.sending.sender import policy_from_settings
from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import UrlInvalid

STRICT = AddressPolicy()
WIDE_OPEN = AddressPolicy((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")), frozenset())

# Written out a second time, independently of the code.
REFUSED = [
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
    "::/128",
    "::1/128",
    "::/96",
    "fe80::/10",
    "fc00::/7",
    "fec0::/10",
    "ff00::/8",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "100::/64",
    "2002::/16",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "5f00::/16",
    "::/3",
    "4000::/2",
    "8000::/1",
]
NETWORKS = [ipaddress.ip_network(text) for text in REFUSED]


def in_any(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any(address.version == network.version and address in network for network in NETWORKS)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_network_is_refused_from_its_first_to_its_last_address_and_no_further(text: str) -> None:
    network = ipaddress.ip_network(text)
    first, last = int(network.network_address), int(network.broadcast_address)
    of = type(network.network_address)
    for number in (first, first + 1, (first + last) // 2, last - 1, last):
        if first <= number <= last:
            assert not STRICT.permits(str(of(number))), of(number)
    bits = network.max_prefixlen
    for number in (first - 1, last + 1):
        if 0 <= number < 2**bits and not in_any(outside := of(number)):
            # Neighbours such as 192.0.1.255 are public addresses and must be allowed.
            assert STRICT.permits(str(outside)) or _is_wrapping(outside), outside


def _is_wrapping(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:db7:ffff::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700:4700::1111",
    "2a00:1450::1",
    "3ffe:ffff::1",
    "2000::1",
    "3fff:1000::1",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_and_the_neighbours_of_refused_networks_are_allowed(address: str) -> None:
    assert STRICT.permits(address)


WRAPPED = [
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "::8.8.8.8",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::127.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    # Teredo: the client's address, inverted, at the end.
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fe80::1%eth0",
    "::ffff:127.0.0.1%1",
]


@pytest.mark.parametrize("address", WRAPPED)
def test_an_address_that_wraps_another_is_refused(address: str) -> None:
    assert not STRICT.permits(address)


OUTSIDE_GLOBAL_UNICAST = [
    "::ffff:0:127.0.0.1",
    "::ffff:0:169.254.169.254",
    "::ffff:0:8.8.8.8",
    "4000::1",
    "::2:0:0",
    "100:0:0:1::1",
    "200::1",
    "400::1",
    "fe00::1",
    "64:ff9b:2::1",
    "1fff:ffff::1",
    "168.63.129.16",
]


@pytest.mark.parametrize("address", OUTSIDE_GLOBAL_UNICAST)
def test_security_16_only_global_unicast_addresses_are_allowed(address: str) -> None:
    assert not STRICT.permits(address)


def test_security_16_a_private_address_wrapped_in_an_allowed_network_is_refused() -> None:
    policy = AddressPolicy((ipaddress.ip_network("64:ff9b::/96"),))
    assert policy.permits("64:ff9b::8.8.8.8")
    assert not policy.permits("64:ff9b::10.0.0.1")


def test_security_17_opening_unique_local_addresses_does_not_open_the_metadata_server() -> None:
    policy = AddressPolicy((ipaddress.ip_network("fc00::/7"),))
    assert policy.permits("fd00:ec2::253")
    assert not policy.permits("fd00:ec2::254")


def test_security_18_the_refusal_does_not_contain_the_address() -> None:
    with pytest.raises(AddressRefused) as refused:
        STRICT.check_addresses(["10.20.30.40"])
    assert "10.20.30.40" not in str(refused.value)


METADATA = [
    "169.254.169.254",
    "169.254.0.0",
    "169.254.255.255",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "::ffff:0:169.254.169.254",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "192.0.0.192",
]


@pytest.mark.parametrize("address", METADATA)
def test_security_17_metadata_servers_are_refused_in_every_form_even_when_everything_is_allowed(address: str) -> None:
    assert not WIDE_OPEN.permits(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "fd00::1", "8.8.8.8", "::ffff:127.0.0.1"])
def test_networks_that_the_operator_allows_are_allowed(address: str) -> None:
    assert WIDE_OPEN.permits(address)


def test_only_the_networks_in_the_settings_are_allowed() -> None:
    policy = policy_from_settings(Settings(webhook_allow_private="127.0.0.0/8, fd00::/8", webhook_ports="443"))
    allowed = ("127.0.0.1", "127.255.255.255", "::ffff:127.0.0.1", "fd00::1", "8.8.8.8")
    assert [policy.permits(address) for address in allowed] == [True] * 5
    refused = ("10.0.0.1", "fe80::1", "::1", "fc00::1", "169.254.169.254", "2002:7f00:1::")
    assert [policy.permits(address) for address in refused] == [False] * 6


def test_one_private_address_among_public_ones_is_refused() -> None:
    STRICT.check_addresses(["8.8.8.8", "2606:4700:4700::1111"])
    with pytest.raises(AddressRefused, match="not public"):
        STRICT.check_addresses(["8.8.8.8", "10.0.0.1"])


LONG_HOST = ".".join(["a" * 63] * 4) + ".com"
URLS_REFUSED = {
    "http": "http://example.com/",
    "no scheme": "example.com/hook",
    "another scheme": "ftp://example.com/",
    "file": "file:///etc/passwd",
    "javascript": "javascript:alert(1)",
    "upper-case http": "HTTP://example.com/",
    "scheme-relative": "//example.com/",
    "empty": "",
    "only the scheme": "https://",
    "no host": "https:///path",
    "no slashes": "https:example.com",
    "user": "https://user@example.com/",
    "user and password": "https://user:password@example.com/",
    "empty user": "https://@example.com/",
    "host as user": "https://example.com@127.0.0.1/",
    "host and port as user": "https://example.com:443@127.0.0.1/",
    "backslash before the at": "https://127.0.0.1\\@example.com",
    "backslash after the host": "https://example.com\\.evil.test/",
    "backslashes for slashes": "https:\\\\example.com/",
    "fragment": "https://example.com/#part",
    "empty fragment": "https://example.com/#",
    "port 0": "https://example.com:0/",
    "port 65536": "https://example.com:65536/",
    "negative port": "https://example.com:-443/",
    "port in words": "https://example.com:https/",
    "port in full-width digits": "https://example.com:４４３/",
    "too long": "https://example.com/" + "x" * 2029,
    "hexadecimal": "https://0x7f.1/",
    "hexadecimal whole": "https://0x7f000001/",
    "hexadecimal parts": "https://0x7f.0x0.0x0.0x1/",
    "decimal": "https://2130706433/",
    "octal": "https://0177.0.0.1/",
    "octal whole": "https://017700000001/",
    "short": "https://127.1/",
    "shorter": "https://0/",
    "five parts": "https://127.0.0.0.1/",
    "too large a part": "https://127.0.0.256/",
    "leading zeros": "https://127.000.000.001/",
    "full-width digits": "https://１２７.０.０.１/",
    "full-width letters": "https://ｌｏｃａｌｈｏｓｔ/",
    "circled digits": "https://①②⑦.⓪.⓪.①/",
    "a tab": "https://exam\tple.com/",
    "a tab in an address": "https://127.0.\t0.1/",
    "a newline": "https://example.com/\n",
    "a newline at the start": "\nhttps://example.com/",
    "a carriage return in the path": "https://example.com/a\r\nHost: evil",
    "a space": "https://example.com /",
    "a NUL": "https://example.com\x00.evil.test/",
    "a soft hyphen": "https://loc\u00adalhost/",
    "a zero-width joiner": "https://local\u200dhost/",
    "an empty label": "https://example..com/",
    "a leading dot": "https://.example.com/",
    "a leading hyphen": "https://-example.com/",
    "too long a label": f"https://{'a' * 64}.com/",
    "too long a name": f"https://{LONG_HOST}/",
    "no letters at the end": "https://example.123/",
    "a bare IPv6": "https://::1/",
    "an open bracket": "https://[::1/",
    "brackets around a name": "https://[example.com]/",
    "percent-encoded slash": "https://example.com%2f@127.0.0.1/",
    "percent-encoded host name": "https://%6c%6f%63%61%6c%68%6f%73%74%00/",
}


@pytest.mark.parametrize("how", URLS_REFUSED)
def test_an_unusable_url_is_refused_with_a_sentence(how: str) -> None:
    with pytest.raises(UrlInvalid) as refused:
        STRICT.parse_url(URLS_REFUSED[how])
    assert str(refused.value)


# Valid spellings of an address: the URL parses, and the address is refused.
SPELLINGS_OF_THIS_MACHINE = [
    "https://127.0.0.1/",
    "https://127.0.0.1./",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[0:0:0:0:0:ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[::127.0.0.1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://127。0。0。1/",
    "https://127．0．0．1/",
    "https://127%2e0%2e0%2e1/",
    "https://%31%32%37.0.0.1/",
    "https://localhost/",
    "https://LOCALHOST/",
    "https://localhost./",
    "https://%6c%6f%63%61%6c%68%6f%73%74/",
]

URLS_ALLOWED = {
    "https://example.com": ("example.com", 443),
    "https://example.com/": ("example.com", 443),
    "https://example.com:443/hook": ("example.com", 443),
    "https://example.com:8443/hook?key=a%20b&c=%2F": ("example.com", 8443),
    "HTTPS://EXAMPLE.COM/Hook": ("example.com", 443),
    "https://example.com./hook": ("example.com.", 443),
    "https://a_b.example.com/": ("a_b.example.com", 443),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443),
    "https://bücher.example/": ("xn--bcher-kva.example", 443),
    "https://1.1.1.1/": ("1.1.1.1", 443),
    "https://hooks.example.com:9443/": ("hooks.example.com", 9443),
    "https://[2606:4700:4700::1111]:8443/": ("2606:4700:4700::1111", 8443),
    "https://0x7f.example.com/": ("0x7f.example.com", 443),
    "https://example.com/" + "x" * 2028: ("example.com", 443),
}


@pytest.mark.parametrize("text", URLS_ALLOWED)
def test_valid_urls_are_parsed(text: str) -> None:
    url = STRICT.parse_url(text)
    assert (url.raw_host, url.port, url.scheme) == (*URLS_ALLOWED[text], "https")


def test_the_ports_are_those_of_the_settings() -> None:
    policy = policy_from_settings(Settings(webhook_ports="443, 9443"))
    assert policy.parse_url("https://example.com:9443/").port == 9443
    with pytest.raises(UrlInvalid, match="443, 9443"):
        policy.parse_url("https://example.com:8443/")
    assert policy_from_settings(Settings()).parse_url("https://example.com:22/").port == 22

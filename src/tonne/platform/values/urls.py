"""The only parser for URLs and host names from outside: it accepts what every program reads in the same way.

Host names are used in lower-case ASCII. International names are converted by IDNA 2008 without the mappings of UTS 46:
full-width letters, ligatures and invisible characters are refused, because two spellings would name one host.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote

import idna
from msgspec import Struct

MAX_URL_LENGTH = 2048
MAX_HOST_LENGTH = 253
HTTPS = ("https",)
WEB = ("https", "http")

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE | re.ASCII)
_AFTER_SCHEME = re.compile(r"//(?P<authority>[^/?#]*)(?P<rest>.*)")
# Browsers drop some of these silently, and then open another address than the one that was checked.
_INVISIBLE = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029]")
# They cannot be percent-encoded.
_SURROGATE = re.compile("[\ud800-\udfff]")
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]+)(:(?P<port>[1-9][0-9]{0,4}))?", re.ASCII)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
# Resolvers and browsers take a name that ends like this for an IPv4 address in another spelling.
_NUMERIC = re.compile(r"[^a-z]*|0x[0-9a-f]*", re.ASCII)
_NOT_QUOTED = "%/:?#[]@!$&'()*+,;=-._~"


class UrlInvalid(ValueError):
    """The message completes the sentence "The URL cannot be used: it …"."""


class Url(Struct, frozen=True):
    scheme: str
    # User name and password, still encoded.
    userinfo: str
    # In lower-case ASCII; an IPv6 address has its brackets.
    host: str
    port: int | None
    # Path, query and fragment, percent-encoded.
    rest: str

    def __str__(self) -> str:
        """The URL in ASCII, without the credentials."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.rest}"


def parse_url(
    text: str,
    schemes: Sequence[str] = HTTPS,
    *,
    max_length: int = MAX_URL_LENGTH,
    credentials: bool = False,
    host_required: bool = True,
) -> Url:
    if len(text) > max_length:
        raise UrlInvalid(f"it is longer than {max_length} characters")
    if _INVISIBLE.search(text):
        raise UrlInvalid("it has spaces or control characters")
    if "\\" in text:
        raise UrlInvalid("it has a backslash")
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() not in schemes:
        raise UrlInvalid(f"it does not start with {' or '.join(f'{name}://' for name in schemes)}")
    parts = scheme and _AFTER_SCHEME.fullmatch(text, scheme.end())
    userinfo, at, host_and_port = parts["authority"].rpartition("@") if parts else ("", "", "")
    if scheme is None or not parts or (host_required and not host_and_port and not at) or _SURROGATE.search(text):
        raise UrlInvalid("it is not a whole address such as https://shop.example.com/thanks")
    if at and not credentials:
        raise UrlInvalid("it has a user name or a password in it")
    host, port = parse_host(host_and_port) if host_and_port or host_required else ("", None)
    return Url(scheme[1].lower(), userinfo, host, port, quote(parts["rest"], safe=_NOT_QUOTED))


def parse_host(text: str) -> tuple[str, int | None]:
    """The host in lower-case ASCII, and the port if there is one."""
    parts = _HOST_AND_PORT.fullmatch(text)
    if parts is None or int(parts["port"] or 0) > 65535:
        raise _host_invalid()
    name = parts["host"].lower()
    port = int(parts["port"]) if parts["port"] else None
    if name.startswith("["):
        return f"[{_ip_address(name[1:-1], ipaddress.IPv6Address)}]", port
    # Not of `name`: lower() turns the Kelvin sign into a k.
    if not unicodedata.is_normalized("NFKC", parts["host"]):
        raise _host_invalid()
    labels = [_ascii_label(label) for label in name.removesuffix(".").split(".")]
    if _NUMERIC.fullmatch(labels[-1]):
        return _ip_address(name, ipaddress.IPv4Address), port
    host = ".".join(labels)
    if len(host) > MAX_HOST_LENGTH:
        raise _host_invalid()
    return host + "." * name.endswith("."), port


def _ascii_label(label: str) -> str:
    # The length first: converting a very long label takes very long.
    if len(label) > 63:
        raise _host_invalid()
    try:
        label = label if label.isascii() else idna.alabel(label).decode()
    except idna.IDNAError as error:
        raise _host_invalid() from error
    if not _LABEL.fullmatch(label):
        raise _host_invalid()
    return label


def _ip_address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> str:
    try:
        kind(text)
    except ValueError as error:
        raise _host_invalid() from error
    return text


def _host_invalid() -> UrlInvalid:
    return UrlInvalid("its host is not written as a plain name, with or without a port")


def is_database_url(text: str) -> bool:
    """A database that is reached through a socket has no host but options; several hosts are separated by commas."""
    scheme, separator, rest = text.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    credentials, at, hosts = authority.rpartition("@")
    try:
        for host in hosts.split(","):
            one = f"{scheme}{separator}{credentials}{at}{host}{rest[len(authority) :]}"
            parse_url(one, ("postgresql", "postgres"), credentials=True, host_required=False)
    except UrlInvalid:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether it is an address of this machine that no other machine can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

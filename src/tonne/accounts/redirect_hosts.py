"""Where an organisation's checkouts may send people afterwards: hosts, each in the one spelling that is compared."""

import ipaddress
import re
import unicodedata
from datetime import datetime
from encodings.idna import ToASCII, ToUnicode
from typing import NamedTuple

from tonne.accounts.errors import RedirectHostInvalid
from tonne.db.pool import Connection

MAX_HOST = 253
HTTPS_PORT = 443
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
# A browser takes a name that ends like this for an address in numbers, in spellings that nobody recognises.
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Host(NamedTuple):
    name: str
    port: int | None


def read_host(text: str) -> Host:
    """A host in lower case and in ASCII, as browsers compare it, with its port if one is given.

    Letters that a browser would take for others (full-width ones, ligatures) are refused rather than translated: no
    honest address has them.
    """
    name, colon, port = text.partition(":")
    labels = [_ascii_label(label) for label in name.split(".")]
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            ipaddress.IPv4Address(name)
        except ValueError as error:
            raise RedirectHostInvalid from error
    if colon and (not _PORT.fullmatch(port) or int(port) > 65535):
        raise RedirectHostInvalid
    host = Host(".".join(labels), int(port) if colon else None)
    if len(spell_host(host)) > MAX_HOST:
        raise RedirectHostInvalid
    return host


def spell_host(host: Host) -> str:
    """As it stands on the list: the port of https goes without saying."""
    return host.name if host.port in {None, HTTPS_PORT} else f"{host.name}:{host.port}"


def _ascii_label(label: str) -> str:
    ascii_label = label.lower() if label.isascii() else _translated(label)
    if not _LABEL.fullmatch(ascii_label):
        raise RedirectHostInvalid
    return ascii_label


def _translated(label: str) -> str:
    """A label in another script, spelled for the domain name system."""
    is_plain = unicodedata.is_normalized("NFKC", label) and all(
        char == "-" or unicodedata.category(char)[0] in "LMN" for char in label
    )
    # The length first: translating a very long label would take very long.
    if len(label) > 63 or not is_plain:
        raise RedirectHostInvalid
    try:
        translated = ToASCII(label.lower())
        # A letter that the translation drops or replaces would make two names one.
        if ToUnicode(translated) == label.lower():
            return translated.decode("ascii")
    except UnicodeError as error:
        raise RedirectHostInvalid from error
    raise RedirectHostInvalid


LIST_HOSTS = "SELECT host FROM redirect_hosts WHERE organisation_id = $1"


async def list_hosts(connection: Connection, organisation_id: str) -> frozenset[str]:
    return frozenset(row["host"] for row in await connection.fetch(LIST_HOSTS, organisation_id))


ALLOW_HOST = """
INSERT INTO redirect_hosts (organisation_id, host, created_at) VALUES ($1, $2, $3)
ON CONFLICT (organisation_id, host) DO NOTHING
"""


async def allow_host(tx: Connection, organisation_id: str, host: Host, now: datetime) -> None:
    await tx.execute(ALLOW_HOST, organisation_id, spell_host(host), now)


FORBID_HOST = "DELETE FROM redirect_hosts WHERE organisation_id = $1 AND host = $2 RETURNING true"


async def forbid_host(tx: Connection, organisation_id: str, host: Host) -> bool:
    return await tx.fetchval(FORBID_HOST, organisation_id, spell_host(host)) is True

"""The hosts to which an organisation's checkouts may redirect, each in one spelling."""

import re
from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.values.urls import MAX_HOST_LENGTH, UrlInvalid, parse_host
from tonne.selling.accounts.errors import RedirectHostInvalid

HTTPS_PORT = 443
# No underscores, no dot at the end, no IPv6: a host in the list has one spelling only.
_NAME = re.compile(r"[a-z0-9.-]*[a-z0-9]")


class Host(NamedTuple):
    name: str
    port: int | None


def read_host(text: str) -> Host:
    """A host as browsers compare it, with its port if one is given; raises RedirectHostInvalid."""
    try:
        name, port = parse_host(text)
    except UrlInvalid as error:
        raise RedirectHostInvalid from error
    host = Host(name, port)
    if not _NAME.fullmatch(name) or len(spell_host(host)) > MAX_HOST_LENGTH:
        raise RedirectHostInvalid
    return host


def spell_host(host: Host) -> str:
    """The host as it is stored in the list: without the default port of https."""
    return host.name if host.port in {None, HTTPS_PORT} else f"{host.name}:{host.port}"


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

"""What a PostgreSQL server says about itself and about our connection, for checks before the start."""

from typing import NamedTuple

from tonne.platform.db.database import Connection

# Older servers lack features that the schema uses.
OLDEST_VERSION = 15


class ServerFacts(NamedTuple):
    """`connections` is the number that users without special rights may open at the same time."""

    version: int
    is_replica: bool
    is_encrypted: bool
    encoding: str
    connections: int


READ_FACTS = """
SELECT current_setting('server_version_num')::int / 10000 AS version, pg_is_in_recovery() AS is_replica,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted,
       current_setting('server_encoding') AS encoding,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS connections
"""


async def read_server_facts(connection: Connection) -> ServerFacts:
    [row] = await connection.fetch(READ_FACTS)
    return ServerFacts(*row)

"""TLS to the database, as PgBouncer offers it: the embedded PostgreSQL is built without TLS."""

import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.conftest import EMPTY, Server
from tests.integration.pgbouncer import pgbouncer
from tests.support.command import refusal_of
from tests.support.processes import HOST
from tests.support.tls import Authority
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings

ROLE = "postgres"
# asyncpg leaves the socket of a failed TLS handshake to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dataclass(frozen=True)
class TlsServer:
    """Its certificate is for 127.0.0.1 and localhost."""

    port: int
    database: str
    folder: Path
    authority: Authority

    def url(self, host: str = HOST, /, **options: str | Path) -> str:
        return f"postgresql://{ROLE}@{host}:{self.port}/{self.database}?{urlencode(options)}"

    def refusal(self, url: str) -> str:
        sentence = refusal_of("migrate", database_url=url)
        gc.collect()
        return sentence


@pytest.fixture
def client_certificates() -> str:
    return "disable"


@pytest.fixture
async def tls_server(server: Server, tmp_path: Path, client_certificates: str) -> AsyncIterator[TlsServer]:
    database = await server.clone_of(EMPTY)
    authority, certificate = Authority(tmp_path), tmp_path / "server.pem"
    authority.write_certificate(certificate)
    tls = {
        "client_tls_sslmode": "require" if client_certificates == "disable" else "verify-full",
        "client_tls_cert_file": certificate,
        "client_tls_key_file": certificate,
        "client_tls_ca_file": authority.ca_file,
        "auth_type": "trust" if client_certificates == "disable" else "cert",
        # Commands open a session; here they may, with their parameters dropped.
        "pool_mode": "session",
        "ignore_startup_parameters": "jit, statement_timeout, lock_timeout, idle_in_transaction_session_timeout, "
        "plan_cache_mode",
    }
    with pgbouncer(tmp_path, database, ROLE, server.url(database), **tls) as port:
        yield TlsServer(port, database, tmp_path, authority)
    await server.drop(database)


async def _is_encrypted(url: str) -> bool:
    database = await Database(url, Settings()).open()
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT 1") == 1
        transport = connection._transport  # type: ignore[attr-defined]
        encrypted = transport.get_extra_info("ssl_object") is not None
    await database.close()
    return encrypted


async def test_the_certificate_of_the_server_is_verified(tls_server: TlsServer) -> None:
    for host in (HOST, "localhost"):
        verified = tls_server.url(host, sslmode="verify-full", sslrootcert=tls_server.authority.ca_file)
        assert await _is_encrypted(verified)
    both = tls_server.url(f"{HOST}:1,{HOST}", sslmode="verify-full", sslrootcert=tls_server.authority.ca_file)
    assert await _is_encrypted(both), "each host of the URL is verified by its own name"


async def test_a_server_that_is_not_the_expected_one_is_refused(tls_server: TlsServer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    wrong_authority = tls_server.refusal(tls_server.url(sslmode="verify-full", sslrootcert=other.ca_file))
    assert "certificate of the database server is not trusted" in wrong_authority
    assert "set sslrootcert to the file" in wrong_authority
    # Another address of this machine, which is not in the certificate.
    wrong_name = tls_server.url("127.0.0.1.", sslmode="verify-full", sslrootcert=tls_server.authority.ca_file)
    assert "TONNE_DATABASE_URL" in tls_server.refusal(wrong_name)
    missing_file = tls_server.refusal(tls_server.url(sslmode="verify-full", sslrootcert=tmp_path / "none.pem"))
    assert "TONNE_DATABASE_URL" in missing_file


async def test_an_unencrypted_connection_is_refused_by_the_server(tls_server: TlsServer) -> None:
    assert "TONNE_DATABASE_URL" in tls_server.refusal(tls_server.url(sslmode="disable"))


@pytest.mark.parametrize("client_certificates", ["required"])
async def test_a_client_certificate(tls_server: TlsServer, tmp_path: Path) -> None:
    trusted: dict[str, str | Path] = {"sslmode": "verify-full", "sslrootcert": tls_server.authority.ca_file}
    mine, stranger = tmp_path / "mine.pem", tmp_path / "stranger.pem"
    tls_server.authority.write_client_certificate(mine, ROLE)
    assert await _is_encrypted(tls_server.url(**trusted, sslcert=mine, sslkey=mine))
    tls_server.authority.write_client_certificate(stranger, "somebody_else")
    wrong = tls_server.url(**trusted, sslcert=stranger, sslkey=stranger)
    for url in (wrong, tls_server.url(**trusted)):
        assert "TONNE_DATABASE_URL" in tls_server.refusal(url)

"""`tonne check` finds what would keep the service from starting or working, and changes nothing."""

import asyncio
import base64
import contextlib
import http.server
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.command import Operator, tonne
from tests.support.mail_server import mail_server
from tests.support.processes import HOST, free_port
from tests.support.witness import Witness, witnessing
from tonne.apps.cli.check.check_connections import _encryption, _server
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import Database
from tonne.platform.db.schema.migration_files import all_migrations
from tonne.platform.db.server.server_facts import ServerFacts
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.settings.settings import Settings

KEY = base64.b64encode(bytes(32)).decode()
LIVE_KEY = "sk_live_abc"
FACTS = ServerFacts(version=18, is_replica=False, is_encrypted=True, encoding="UTF8", connections=97)


def _checks(**settings: Any) -> dict[str, dict[str, str]]:
    """The results by name."""
    done = tonne("check", "--json", **settings)
    result = msgspec.json.decode(done.stdout)
    statuses = {each["status"] for each in result["checks"]}
    worst = next((each for each in ("error", "warning") if each in statuses), "ok")
    assert (result["status"], done.returncode) == (worst, {"ok": 0, "warning": 3, "error": 1}[worst])
    checks = {each["name"]: each for each in result["checks"]}
    assert len(checks) == len(result["checks"]), "a check was reported twice"
    assert all(bool(each["remedy"]) == (each["status"] != "ok") for each in checks.values())
    return checks


@pytest.fixture
def nowhere() -> dict[str, Any]:
    """Settings with a database that refuses connections, for checks that do not need one."""
    return {"database_url": f"postgresql://tonne:a-password@{HOST}:{free_port()}/tonne", "port": free_port()}


def test_a_service_that_is_set_up_well_has_no_errors(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    checks = _checks(
        database_url=operator.url,
        secret_key=operator.secret_key or KEY,
        data_dir=tmp_path / "data",
        port=free_port(),
        metrics_port=free_port(),
        public_url="https://offsets.example.com",
        trusted_proxies=HOST,
    )
    bad = {name for name, each in checks.items() if each["status"] != "ok"}
    # What the machine of the test may not have; there is no mail server.
    assert bad <= {"mail", "user", "open files"}, checks
    assert "will be created" not in checks["secret key"]["found"]


def test_every_line_says_what_to_do(nowhere: dict[str, Any], tmp_path: Path) -> None:
    done = tonne("check", **nowhere, data_dir=tmp_path / "data")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "ok       settings: valid" in lines
    place = lines.index("ERROR    database: It cannot be used.")
    assert "Check TONNE_DATABASE_URL." in lines[place + 1]
    assert lines[-1].startswith("1 error, ")
    assert "a-password" not in done.stdout
    assert not (tmp_path / "data").exists()


def test_invalid_settings_are_the_only_result() -> None:
    checks = _checks(database_url="mysql://x")
    assert list(checks) == ["settings"]
    assert "TONNE_DATABASE_URL must be" in checks["settings"]["remedy"]


async def test_pending_migrations_are_an_error(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("DELETE FROM schema_migrations WHERE version = $1", all_migrations()[-1].version)
    checks = await asyncio.to_thread(_checks, database_url=db._url, port=free_port())
    assert checks["schema"]["status"] == "error"
    assert "tonne migrate" in checks["schema"]["remedy"]
    assert "secret key" not in checks


async def test_another_secret_key_is_an_error(db: Database, settings: Settings) -> None:
    async with db.connection() as connection:
        await check_secret_key(connection, settings, ALL_SEALED)
    checks = await asyncio.to_thread(lambda: _checks(database_url=db._url, secret_key=KEY, port=free_port()))
    assert checks["secret key"]["status"] == "error"
    assert "TONNE_SECRET_KEYS_OLD" in checks["secret key"]["remedy"]


async def test_a_held_service_is_a_warning(db: Database) -> None:
    def hold() -> dict[str, str]:
        return _checks(database_url=db._url, secret_key=KEY, port=free_port())["hold"]

    assert (await asyncio.to_thread(hold))["status"] == "ok"
    async with db.connection() as connection:
        await connection.execute("INSERT INTO service_holds VALUES (true, now(), 'operator:ada', 'Restored.')")
    held = await asyncio.to_thread(hold)
    assert (held["status"], "Restored." in held["found"], "tonne resume" in held["remedy"]) == ("warning", True, True)


async def test_the_way_through_a_pooler_needs_time_limits_of_the_role(db: Database) -> None:
    pooled = {"database_pooling": "transaction", "database_direct_url": db._url}
    checks = await asyncio.to_thread(lambda: _checks(database_url=db._url, port=free_port(), **pooled))
    assert (checks["PgBouncer"]["status"], "ALTER ROLE" in checks["PgBouncer"]["remedy"]) == ("error", True)


async def test_a_replica_that_is_none_is_a_warning(db: Database) -> None:
    for url, word in (
        (db._url, "primary"),
        (f"postgresql://tonne:a-password@{HOST}:{free_port()}/x", "cannot be used"),
    ):
        settings = {"database_url": db._url, "database_replica_url": url, "port": free_port()}
        replica = (await asyncio.to_thread(lambda given=settings: _checks(**given)))["database replica"]  # type: ignore[misc]
        assert (replica["status"], word in replica["found"]) == ("warning", True)
        assert "a-password" not in str(replica)


async def test_nothing_is_written(db: Database, tmp_path: Path) -> None:
    """The first start records the key; the check must not, or a wrong key would be recorded."""
    settings = {"database_url": db._url, "secret_key": KEY, "data_dir": tmp_path / "data", "port": free_port()}
    checks = await asyncio.to_thread(lambda: _checks(**settings))
    assert checks["secret key"]["status"] == "ok"
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM secret_keys") == 0
    assert not (tmp_path / "data").exists()


def test_the_embedded_database_is_not_created(tmp_path: Path) -> None:
    checks = _checks(data_dir=tmp_path / "data", port=free_port())
    assert checks["database"]["found"] == "the embedded database will be created at the first start"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (FACTS._replace(version=14), "PostgreSQL 14"),
        (FACTS._replace(is_replica=True), "replica"),
        (FACTS._replace(encoding="SQL_ASCII"), "SQL_ASCII"),
    ],
)
def test_a_server_that_cannot_be_used_is_an_error(facts: ServerFacts, word: str) -> None:
    result = next(_server(facts, Settings()))
    assert result.status == "error"
    assert word in result.found


def test_too_few_connections_are_a_warning() -> None:
    settings = Settings(api_processes=4, database_connections=20)
    [result] = [each for each in _server(FACTS, settings) if each.name == "database connections"]
    assert (result.status, "115" in result.found) == ("warning", True)


@pytest.mark.parametrize(
    ("url", "is_encrypted", "status"),
    [
        ("postgresql://tonne@localhost/tonne", False, "ok"),
        ("postgresql:///tonne?host=/run/postgresql", False, "ok"),
        ("postgresql://tonne@db.example.com/tonne", False, "warning"),
        ("postgresql://tonne@localhost,db.example.com/tonne", False, "warning"),
        ("postgresql://tonne@db.example.com/tonne?sslmode=require", True, "warning"),
        ("postgresql://tonne@db.example.com/tonne?sslmode=verify-full", True, "ok"),
    ],
)
def test_the_way_to_a_remote_database_is_encrypted_and_verified(url: str, is_encrypted: bool, status: str) -> None:
    assert _encryption(FACTS._replace(is_encrypted=is_encrypted), url).status == status


async def test_the_mail_server_is_tried(nowhere: dict[str, Any]) -> None:
    def check(**settings: Any) -> dict[str, str]:
        return _checks(**nowhere, **settings)["mail"]

    async with mail_server() as mailbox:
        mail = await asyncio.to_thread(check, smtp_url=mailbox.url, mail_from="Us <us@example.com>")
        assert mail["status"] == "ok"
        assert mailbox.mails == []
        mail = await asyncio.to_thread(check, smtp_url=mailbox.url)
        assert (mail["status"], "TONNE_MAIL_FROM" in mail["remedy"]) == ("warning", True)
    closed = await asyncio.to_thread(check, smtp_url=f"smtp://user:a-password@{HOST}:{free_port()}")
    assert closed["status"] == "error"
    assert "a-password" not in str(closed)
    assert (await asyncio.to_thread(check))["status"] == "warning"


class _Stripe(http.server.BaseHTTPRequestHandler):
    status, body = 200, b'{"livemode": true}'

    def do_GET(self) -> None:
        assert (self.path, self.headers["Authorization"]) == ("/v1/balance", f"Bearer {LIVE_KEY}")
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _stripe(status: int, body: bytes) -> Iterator[str]:
    handler = type("Handler", (_Stripe,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "body", "webhook_secret", "status"),
    [
        (200, b'{"livemode": true}', "whsec_x", "ok"),
        (403, b"{}", "whsec_x", "ok"),
        (200, b'{"livemode": true}', "", "warning"),
        (200, b'{"livemode": false}', "whsec_x", "error"),
        (401, b"{}", "whsec_x", "error"),
        (500, b"{}", "whsec_x", "warning"),
        (200, b"[]", "whsec_x", "warning"),
    ],
)
def test_the_key_of_the_card_gateway_is_tried(
    nowhere: dict[str, Any], answer: int, body: bytes, webhook_secret: str, status: str
) -> None:
    with _stripe(answer, body) as url:
        settings = {"stripe_secret_key": LIVE_KEY, "stripe_api_base": url, "stripe_webhook_secret": webhook_secret}
        cards = _checks(**nowhere, **settings)["cards"]
    assert cards["status"] == status
    assert LIVE_KEY not in str(cards)


def test_a_file_that_every_user_may_read_is_named(nowhere: dict[str, Any]) -> None:
    # Not in the folder of the test, which is closed to others.
    with contextlib.ExitStack() as after:
        path = Path("/var/tmp") / f"tonne-check-{free_port()}"  # noqa: S108 - a folder that others may enter is needed
        path.write_text(KEY, encoding="ascii")
        after.callback(path.unlink)
        path.chmod(0o644)
        files = _checks(**nowhere, secret_key_file=path)["files of settings"]
        assert (files["status"], str(path) in files["found"]) == ("warning", True)
        path.chmod(0o600)
        assert _checks(**nowhere, secret_key_file=path)["files of settings"]["status"] == "ok"


@pytest.mark.parametrize(
    ("settings", "name", "status"),
    [
        ({"public_url": "http://offsets.example.com"}, "public URL", "warning"),
        ({"public_url": "http://localhost:8080"}, "public URL", "ok"),
        ({"public_url": "https://offsets.example.com"}, "proxy", "warning"),
        ({"host": "0.0.0.0"}, "proxy", "warning"),  # noqa: S104 - the setting that is tested
        ({"host": "::1"}, "proxy", "ok"),
        ({"webhook_time_scale": "0.5"}, "settings", "warning"),
        ({"service_host": "10.96.0.7"}, "settings", "warning"),
        ({"metrics_token": "a-token-for-the-metrics"}, "monitoring", "ok"),
        ({}, "telemetry", "ok"),
        ({"tracing": "true"}, "telemetry", "warning"),
        ({"error_hook": "/no/such/program"}, "telemetry", "error"),
    ],
)
def test_settings_that_do_harm_in_production(
    nowhere: dict[str, Any], settings: dict[str, Any], name: str, status: str
) -> None:
    assert _checks(**nowhere, **settings)[name]["status"] == status


def test_the_data_folder(nowhere: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    open_to_others = _checks(**nowhere, data_dir=folder)["data folder"]
    assert (open_to_others["status"], "chmod 700" in open_to_others["remedy"]) == ("warning", True)
    folder.chmod(0o700)
    assert _checks(**nowhere, data_dir=folder)["data folder"]["status"] == "ok"
    file = tmp_path / "file"
    file.touch()
    assert _checks(**nowhere, data_dir=file)["data folder"]["status"] == "error"


def test_a_port_that_another_program_uses_is_an_error(nowhere: dict[str, Any]) -> None:
    with _stripe(500, b"{}") as url:
        taken = _checks(**{**nowhere, "port": url.rpartition(":")[2]})["port"]
    assert (taken["status"], "TONNE_PORT" in taken["remedy"]) == ("error", True)


def test_a_low_limit_of_open_files_is_a_warning(nowhere: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    files = _checks(**nowhere)["open files"]
    assert (files["status"], "LimitNOFILE" in files["remedy"]) == ("warning", True)
    # The processes raise it themselves as far as they may.
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 65536))
    assert _checks(**nowhere)["open files"]["status"] == "ok"


async def test_witnesses_of_the_log_and_the_folder_of_its_heads_are_tried(
    nowhere: dict[str, Any], tmp_path: Path
) -> None:
    absent = Witness(tmp_path, "witness.example/absent")
    async with witnessing(tmp_path, None) as present:
        named = f"{present.url} {present.vkey}, http://{HOST}:{free_port()} {absent.vkey}"
        settings = {**nowhere, "log_witnesses": named, "log_head_folder": tmp_path / "missing"}
        checks = await asyncio.to_thread(lambda: _checks(**settings))
    assert checks[f"witness {present.name}"]["status"] == "ok"
    assert checks["witness witness.example/absent"]["status"] == "warning"
    assert (checks["log heads"]["status"], "missing" in checks["log heads"]["found"]) == ("error", True)
    assert not (tmp_path / "missing").exists()

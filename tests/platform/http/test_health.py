"""Health checks."""

from pathlib import Path

import httpx
import pytest
import structlog.testing

from tests.support.api_client import ApiClient, codes
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.http.drain import DRAIN_VARIABLE
from tonne.platform.settings.settings import Settings


async def test_a_healthy_server_is_live_and_ready(api: ApiClient) -> None:
    for path in ("/health/live", "/health/ready"):
        answer = await api.http.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_server_whose_database_has_another_schema_is_live_and_not_ready(
    api: ApiClient, services: Services
) -> None:
    async with services.database.connection() as connection:
        await connection.execute("DELETE FROM schema_migrations")
    answer = await api.http.get("/health/ready")
    assert (answer.status_code, codes(answer)) == (503, ["service_unavailable"])
    assert (await api.http.get("/health/live")).status_code == 200


async def test_operations_2_a_newer_compatible_schema_keeps_the_server_ready(
    api: ApiClient, services: Services
) -> None:
    async with services.database.connection() as connection:
        await connection.execute(
            "INSERT INTO schema_migrations (version, name, checksum, compatible_from) VALUES (9999, 'later', 'x', 1)"
        )
    assert (await api.http.get("/health/ready")).status_code == 200


async def test_operations_3_readiness_does_not_wait_for_the_pool(api: ApiClient, services: Services) -> None:
    held = [await services.database.acquire() for _ in range(services.settings.database_connections)]
    answer = await api.http.get("/health/ready")
    assert answer.status_code == 200
    for connection in held:
        services.database.release(connection, reusable=True)


async def test_operations_20_a_server_that_is_about_to_stop_is_not_ready(
    populated_db: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DRAIN_VARIABLE, str(tmp_path / "draining"))
    services = Services(populated_db, settings)
    app = build_app(services)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tonne.test") as http:
        assert (await http.get("/health/ready")).status_code == 200
        (tmp_path / "draining").touch()
        with structlog.testing.capture_logs() as logs:
            answer = await http.get("/health/ready")
        assert (answer.status_code, answer.json()["error"]["message"][:28]) == (503, "The server is about to stop.")
        assert [entry for entry in logs if entry["log_level"] == "error"] == []
        assert (await http.get("/health/live")).status_code == 200
    await services.health.close()

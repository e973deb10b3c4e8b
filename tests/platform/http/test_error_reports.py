"""Reports of errors of real processes: failed requests and crashed jobs."""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.conftest import POPULATED, Server
from tests.support.command import wait_until
from tests.support.processes import HOST, Process, free_port
from tests.support.sentry_receiver import SentryServer, receiving_reports
from tests.support.world import World

CANARY = "canary-88b3"
# Keeps each report, then fails.
HOOK = """#!/bin/sh
cat >> "$(dirname "$0")/reports"
echo >> "$(dirname "$0")/reports"
exit 1
"""
Start = Callable[..., int]


@pytest.fixture
def sentry() -> Iterator[SentryServer]:
    with receiving_reports() as sentry:
        yield sentry


@pytest.fixture
def database_url(server: Server) -> str:
    return server.url(asyncio.run(server.clone_of(POPULATED)))


@pytest.fixture
def start(database_url: str, sentry: SentryServer, tmp_path: Path) -> Iterator[Start]:
    """Starts a command that reports to Sentry and to a program; returns its port."""
    hook = tmp_path / "own_hook"
    hook.write_text(HOOK)
    hook.chmod(0o700)
    started: list[Process] = []

    def start(command: str) -> int:
        port, metrics_port = free_port(), free_port()
        settings = {"port": port, "metrics_port": metrics_port, "data_dir": tmp_path / "data"}
        settings |= {"database_url": database_url, "secret_key": secrets.token_urlsafe(32)}
        settings |= {"sentry_dsn": sentry.dsn, "error_hook": hook, "worker_poll_s": 0.05}
        started.append(Process("tonne", command, settings=settings, log=tmp_path / f"{command}.log"))
        started[-1].wait_until_ready(metrics_port)
        return port

    yield start
    for process in started:
        process.stop()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def _own_reports(folder: Path) -> list[dict[str, Any]]:
    file = folder / "reports"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_request_that_fails_is_reported_without_data_of_clients(
    start: Start, database_url: str, sentry: SentryServer, world: World, tmp_path: Path
) -> None:
    port = start("api")
    check = f"ALTER TABLE orders ADD CONSTRAINT no_canary CHECK (idempotency_key NOT LIKE '{CANARY}%')"
    asyncio.run(_execute(database_url, check))
    body = {
        "mass": {"amount": "1", "unit": "t"},
        "idempotency_key": CANARY,
        "metadata": {"mail": f"{CANARY}@x.example"},
    }
    headers = {"Authorization": f"Bearer {world.ours_test.key}"}
    answer = httpx.post(f"http://{HOST}:{port}/v1/orders/by-mass", json=body, headers=headers)
    assert answer.status_code == 500
    wait_until(lambda: bool(sentry.events), 30, "the error is reported")
    (event,) = sentry.events
    assert event["tags"]["request_id"] == answer.headers["x-request-id"]
    assert (event["tags"]["event"], event["tags"]["process"]) == ("request_failed", "api")
    assert event["exception"]["values"][-1]["type"] == "CheckViolationError"
    for secret in (CANARY, world.ours_test.key, "Bearer"):
        assert secret.encode() not in sentry.raw
    wait_until(lambda: bool(_own_reports(tmp_path)), 30, "the program is run")
    (own,) = _own_reports(tmp_path)
    assert (own["event"], own["process"]) == ("request_failed", "api")
    assert own["errors"][0]["type"] == "asyncpg.exceptions.CheckViolationError"
    assert CANARY not in (tmp_path / "reports").read_text()
    # The hook fails after each report: nothing else does.
    refused = httpx.get(f"http://{HOST}:{port}/v1/orders/unknown", headers=headers)
    assert refused.status_code == 404
    assert httpx.get(f"http://{HOST}:{port}/health/ready").status_code == 200


def test_a_job_that_crashes_is_reported_once_a_minute(
    start: Start, database_url: str, sentry: SentryServer, tmp_path: Path
) -> None:
    asyncio.run(_execute(database_url, "ALTER TABLE mails RENAME TO away"))
    start("worker")
    wait_until(lambda: bool(sentry.events), 30, "the error is reported")
    wait_until(lambda: (tmp_path / "worker.log").read_text().count('"job_failed"') >= 3, 30, "the job fails again")
    (event,) = [event for event in sentry.events if event["tags"].get("job") == "send_mails"]
    assert (event["tags"]["event"], event["tags"]["process"]) == ("job_failed", "worker")
    assert event["exception"]["values"][-1]["type"] == "UndefinedTableError"

"""The demo with its history: made once, killed on the way and finished, and then everything is checked on the result."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.cpu_times import cpu_of_children
from tests.support.people import Person
from tests.support.processes import Process, free_port
from tests.support.scene import Scene
from tonne.apps.backoffice.today_page import checks_of, find_item
from tonne.apps.cli.demo.demo import Demo, ensure_demo
from tonne.apps.cli.demo.history import play_history
from tonne.apps.cli.demo.story import BUSY_DAYS, CUSTOMERS, DAYS, Deed, HAPPENINGS, planned_orders
from tonne.apps.wiring.app import Services, build_app
from tonne.money.accounting.books.close_month import find_changed_files
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.accounts.organisations.change_organisation import open_organisation

PLANNED = {order.key: order for orders in planned_orders().values() for order in orders}
# Enough for the machines of CI, which are busy.
KILLED_WITHIN_S = 180.0
FIGURES = """
SELECT coalesce(sum(grams) FILTER (WHERE is_this_year), 0) AS grams, count(*) FILTER (WHERE is_open) AS open,
       coalesce(sum(grams) FILTER (WHERE is_open), 0) AS open_grams
FROM (SELECT quantity_grams AS grams, extract(year FROM created_at) = extract(year FROM now()) AS is_this_year,
             status NOT IN ('complete', 'cancelled', 'failed') AS is_open
      FROM orders WHERE organisation_id = $1 AND mode = 'test' AND status NOT IN ('cancelled', 'failed')) each
"""
SPEND = """
SELECT currency, sum(offset_cost_minor) FROM orders GROUP BY currency
"""


def test_the_plan_is_the_same_every_time_and_has_all_kinds_of_orders() -> None:
    assert planned_orders() == planned_orders()
    assert 300 <= len(PLANNED) <= 320
    assert {order.customer for order in PLANNED.values()} == set(CUSTOMERS)
    assert {order.customer.currency for order in PLANNED.values()} == {"EUR", "USD", "CHF"}
    assert len([orders for orders in planned_orders().values() if orders]) <= BUSY_DAYS + 1
    days = {happening.day for happening in HAPPENINGS}
    assert max(days) < DAYS


@pytest.fixture
async def services(db: Database, settings: Settings) -> AsyncIterator[Services]:
    """With the demo and its history, whose first process was killed half-way."""
    values: dict[str, object] = {
        "database_url": db.address[0],
        "data_dir": settings.data_dir,
        "secret_key": settings.secret_key,
        "port": free_port(),
    }
    process = Process("tonne", "serve", "--demo", settings=values, log=Path(settings.data_dir) / "killed.log")
    async with asyncio.timeout(KILLED_WITHIN_S):
        while await _count(db, "orders") < len(PLANNED) // 2:
            assert process.running, process.log.read_text()
            await asyncio.sleep(0.2)
    process.kill()
    assert not (settings.data_path / "demo.json").exists(), "killed on the way"
    assert await _seed(db, settings) is not None
    services = Services(db, settings)
    yield services
    await services.health.close()
    await services.metrics_endpoint.close()
    await services.webhooks.close()


async def _seed(db: Database, settings: Settings) -> Demo | None:
    play = partial(play_history, db.address[0], settings)
    async with db.connection() as connection:
        return await ensure_demo(connection, settings, play)


async def _count(db: Database, table: str) -> int:
    return await db.run(lambda connection: connection.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608 - ours


async def test_the_history_is_complete_and_its_figures_agree(services: Services, settings: Settings) -> None:
    scene = Scene(services)
    rows = await scene.fetch("SELECT * FROM orders ORDER BY id")
    assert {row["idempotency_key"] for row in rows} == set(PLANNED)
    assert len(rows) == len(PLANNED), "the orders of the day that was repeated exist once"
    by_hand = [row for row in rows if row["requested_quantity_grams"] != _planned_grams(row["idempotency_key"])]
    assert by_hand == []
    created = [row["created_at"] for row in rows]
    assert created == sorted(created), "ids are as old as what they name"
    assert (utc_now() - created[0]).days >= DAYS - 10
    assert created[-1] < utc_now()
    await _check_what_went_wrong(scene)
    await _check_books(scene)
    # What the worker finds afterwards, it does; it has no file to render and few mails to send.
    assert await scene.fetchval("SELECT count(*) FROM tax_document_files") == 0
    assert 5 <= await scene.fetchval("SELECT count(*) FROM mails") <= 15
    assert await scene.fetchval("SELECT count(*) FROM webhook_attempts") == 0
    [webhook] = await scene.fetch("SELECT * FROM webhooks")
    assert webhook["enabled"]
    waiting = "SELECT count(*) FROM events, webhooks WHERE events.position > cursor_position AND NOT events.id = ''"
    assert await scene.fetchval(waiting) > 0
    await scene.check_invariants()
    found = [await find_item(connection, check, settings, utc_now(), 5) for check in checks_of(Mode.LIVE)
             async for connection in _one(services)]
    assert [item.check.name for item in found if item is not None] == []
    await _check_pages(services, settings)
    # A second start finds it as it is.
    await _seed(services.database, settings)
    assert await _count(services.database, "orders") == len(PLANNED)

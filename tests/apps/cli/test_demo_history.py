"""The demo with its history: made once, killed on the way and finished, and then everything is checked."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import asyncpg
import httpx
import msgspec
import pyotp
import pytest

from tests.support.people import Person
from tests.support.processes import Process, free_port
from tests.support.scene import Scene
from tests.support.world import TESTER
from tonne.apps.backoffice.today_page import checks_of, find_item
from tonne.apps.cli.demo.demo import Demo, ensure_demo
from tonne.apps.cli.demo.history import play_history
from tonne.apps.cli.demo.story import BUSY_DAYS, CUSTOMERS, DAYS, HAPPENINGS, Deed, planned_orders
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.accounts.organisations.change_organisation import open_organisation

PLANNED = {order.key: order for orders in planned_orders().values() for order in orders}
# Enough for the machines of CI, which are busy.
KILLED_WITHIN_S = 180.0
# What the overview shows, summed from orders and shares, without any table of totals.
FIGURES = """
WITH bought AS (
    SELECT *, extract(year FROM created_at) = extract(year FROM now()) AS is_new, status <> 'complete' AS is_open
    FROM orders WHERE organisation_id = $1 AND mode = 'test' AND status NOT IN ('cancelled', 'failed')
), spent AS (
    SELECT currency, sum(total_cost_minor + billing_adjustment_minor + coalesce(tax_minor, 0) - refunded_minor) AS minor
    FROM bought WHERE is_new GROUP BY currency
), retired AS (
    SELECT sum(share.quantity_grams) AS grams,
           sum(share.quantity_grams) FILTER (WHERE projects.mechanism = 'removal') AS removal_grams
    FROM bought JOIN shares share ON share.account_id = bought.account_id AND share.order_id = bought.id
    JOIN parcels ON parcels.mode = 'test' AND parcels.id = share.parcel_id
    JOIN projects ON projects.mode = 'test' AND projects.id = parcels.project_id
    WHERE NOT is_open AND extract(year FROM status_changed_at) = extract(year FROM now())
)
SELECT (SELECT coalesce(sum(quantity_grams), 0) / 1e6 FROM bought WHERE is_new) AS tonnes,
       coalesce((SELECT minor / 100 FROM spent WHERE currency = 'EUR'), 0) AS eur,
       (SELECT minor / 100 FROM spent WHERE currency = 'USD') AS usd,
       (SELECT count(*) FROM bought WHERE is_open) AS open,
       (SELECT round(100 * removal_grams / grams) FROM retired) AS removal,
       (SELECT round(sum(exact_cost) / 1e6) / 100 FROM bought JOIN unbilled_orders waiting
        ON waiting.account_id = bought.account_id AND waiting.order_id = bought.id) AS next_invoice
"""
# What the page Money shows.
OWED = """
SELECT currency::text, sum(total_minor - credited_minor - coalesce((
           SELECT sum(paid.amount_minor) FROM transfer_assignments paid WHERE paid.invoice_id = invoices.id), 0)) / 100
FROM invoices WHERE status = 'open' AND mode = 'test' GROUP BY currency
"""
ORDERS = """
SELECT orders.*, estimates.mass_grams FROM orders LEFT JOIN estimates ON estimates.id = orders.estimate_id
ORDER BY orders.id
"""
OPEN_INVOICES = """
SELECT due_on, total_minor, coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid
                                      WHERE paid.invoice_id = invoices.id), 0) AS received
FROM invoices WHERE status = 'open' AND mode = 'test'
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


def _written(settings: Settings) -> Demo:
    return msgspec.json.decode((settings.data_path / "demo.json").read_bytes(), type=Demo)


async def _count(db: Database, table: str) -> int:
    return await db.run(lambda connection: connection.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608 - ours


async def test_the_history_is_complete_and_its_figures_agree(services: Services, settings: Settings) -> None:
    scene = Scene(services, settings=settings)
    rows = await scene.fetch(ORDERS)
    assert len(rows) == len(PLANNED), "the orders of the day that was repeated exist once"
    assert {row["idempotency_key"]: _amount(row) for row in rows} == {
        key: order.amount for key, order in PLANNED.items()
    }
    created = [row["created_at"] for row in rows]
    assert created == sorted(created), "ids are as old as what they name"
    assert utc_now() - timedelta(days=DAYS + 1) < created[0] < utc_now() - timedelta(days=DAYS - 10)
    assert created[-1] < utc_now()
    await _check_what_went_wrong(scene)
    await _check_books(scene)
    await _check_what_is_left_to_the_worker(scene)
    await scene.check_invariants()
    async with services.database.connection() as connection:
        found = [await find_item(connection, check, settings, utc_now(), 5) for check in checks_of(Mode.LIVE)]
    assert [(item.check.name, item.places) for item in found if item is not None] == []
    await _check_pages(services, settings)
    # Another start finds it as it is.
    assert await _seed(services.database, settings) == _written(settings)
    assert await _count(services.database, "orders") == len(PLANNED)


def _amount(row: asyncpg.Record) -> int:
    amount: int = row["requested_value_minor"] or row["requested_quantity_grams"] or row["mass_grams"]
    return amount


async def _check_what_went_wrong(scene: Scene) -> None:
    payments = await scene.fetch("SELECT payment_state, count(*) FROM orders GROUP BY 1")
    assert {state for state, _ in payments} == {"paid", "unpaid", "disputed", "refunded"}
    refunds = sum(happening.deed is Deed.REFUND for happening in HAPPENINGS)
    assert await scene.fetchval("SELECT count(*) FROM refunds WHERE state = 'succeeded'") == refunds
    disputes = await scene.fetch("SELECT state FROM disputes ORDER BY state")
    assert [row["state"] for row in disputes] == ["opened", "won"]
    assert await scene.fetchval("SELECT count(*) FROM charges WHERE status = 'failed'") > 0, "a card was declined"
    short = "SELECT count(*) FROM orders WHERE status = 'paid' AND payment_state = 'paid'"
    assert await scene.fetchval(short) > 0, "orders wait for supply"
    certified = "SELECT (SELECT count(*) FROM certificates) = count(*) FROM orders WHERE status = 'complete'"
    assert await scene.fetchval(certified)
    assert await scene.fetchval("SELECT count(*) FROM certificates") > 280
    today = utc_now().date()
    invoices = await scene.fetch(OPEN_INVOICES)
    assert any(row["due_on"] < today for row in invoices), "one is overdue"
    assert any(0 < row["received"] < row["total_minor"] for row in invoices), "one is paid in part"
    assert any(row["received"] == 0 for row in invoices)


async def _check_books(scene: Scene) -> None:
    months = await scene.fetch("SELECT month, digests FROM closed_months ORDER BY month")
    last = utc_now().date().replace(day=1) - timedelta(days=1)
    # On the first days of a month, the last one is still being checked.
    assert months[-1]["month"] >= (last if utc_now().day > 5 else last - timedelta(days=31)).replace(day=1)
    assert await scene.fetchval("SELECT count(*) FROM ledger_due") == 0
    cost = "SELECT sum(amount_minor) FROM ledger_postings WHERE account = 'Expenses:Cost-Of-Credits'"
    assert await scene.fetchval(cost) > 0
    rates = await scene.fetch("SELECT mode, max(as_of) AS as_of FROM exchange_rates GROUP BY mode ORDER BY mode")
    assert [row["mode"] for row in rates if utc_now() - row["as_of"] < timedelta(hours=1)] == list(Mode)


async def _check_what_is_left_to_the_worker(scene: Scene) -> None:
    """It has no file to render and few mails to send, and makes all deliveries."""
    assert await scene.fetchval("SELECT count(*) FROM tax_document_files") == 0
    assert await scene.fetchval("SELECT count(*) FROM unrendered_documents") == 0
    assert 5 <= await scene.fetchval("SELECT count(*) FROM mails") <= 15
    assert await scene.fetchval("SELECT count(*) FROM order_mails") == 0
    assert await scene.fetchval("SELECT count(*) FROM webhook_attempts") == 0
    waiting = "SELECT last_position - cursor_position FROM webhooks JOIN event_streams USING (organisation_id, mode)"
    assert await scene.fetchval(waiting) > 0


async def _check_pages(services: Services, settings: Settings) -> None:
    demo = _written(settings)
    transport = httpx.ASGITransport(build_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        owner = Person(client)
        await owner.sign_in(demo.sign_in.email, demo.sign_in.password)
        base = f"/dashboard/test/{demo.organisation_id}"
        assert (await owner.get("/dashboard")).headers["location"] == base
        html = (await owner.get(f"{base}/overview")).text
        await owner.submit("/dashboard/sign-out")
        await owner.sign_in(demo.operator.email, demo.operator.password)
        await owner.submit("/dashboard/code", code=pyotp.TOTP(demo.operator.totp_secret).now())
        assert (await owner.get("/dashboard")).headers["location"] == "/operator/test"
        today = (await owner.get("/operator/test/today")).text
        money = (await owner.get("/operator/test/money")).text
    scene = Scene(services)
    [expected] = await scene.fetch(FIGURES, demo.organisation_id)
    figures = [_number(text) for text in re.findall(r'<p class="figure">(.*?)</p>', html, re.DOTALL)]
    tonnes, *others = [each for each in expected.values() if each is not None]
    assert abs((figures[0] or 0) - tonnes) <= Decimal("0.5"), "it is rounded to tonnes"
    assert figures[1:] == others
    assert "Nothing waits for you" in today
    for currency, owed in await scene.fetch(OWED):
        shown = {"EUR": f"€{owed:,.2f}", "CHF": f"CHF\u00a0{owed:,.2f}"}[currency]
        assert shown in money, shown


def _number(text: str) -> Decimal | None:
    found = re.search(r"[0-9][0-9,\u202f\u00a0]*(\.[0-9]+)?", re.sub(r"<[^>]+>", "", text))
    return None if found is None else Decimal(re.sub(r"[^0-9.]", "", found[0]))


async def test_a_database_with_orders_of_its_own_is_refused(db: Database, settings: Settings) -> None:
    await db.commit(open_organisation, "Ours", Decimal("0.10"), by=TESTER.now())
    assert await _seed(db, settings) is None
    assert await _count(db, "orders") == 0

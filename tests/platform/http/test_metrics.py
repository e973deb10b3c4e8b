"""What the metrics contain, and who may read them."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.samples import Samples, parse_samples, total
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.apps.wiring.queues import ALL_QUEUES
from tonne.platform.db import queues
from tonne.platform.db.database import Connection, Database, PoolTimeout
from tonne.platform.db.queues import Queue, QueueReader
from tonne.platform.process.telemetry.metrics_text import render
from tonne.platform.process.telemetry.objectives import objective_of
from tonne.platform.settings.settings import Settings

TOKEN = "a-secret-of-the-operator"  # noqa: S105 - of a test
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, metrics_token=TOKEN)


async def _scrape(api: ApiClient) -> Samples:
    response = await api.http.get("/metrics", headers=AUTHORISED)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse_samples(response.text)


async def test_requests_are_counted_by_method_route_and_status(api: ApiClient) -> None:
    await api.order()
    for _ in range(3):
        await api.get("/v1/orders/unknown")
    await api.get("/nowhere")
    samples = await _scrape(api)
    name = "tonne_http_requests_total"
    assert total(samples, name, method="POST", route="/v1/orders/by-mass", status="201", process="api") == 1
    assert total(samples, name, method="GET", route="/v1/orders/{order_id}", status="404") == 3
    assert total(samples, name, method="GET", route="unmatched", status="404") == 1
    assert total(samples, "tonne_http_request_seconds_count", route="/v1/orders/{order_id}") == 3
    assert total(samples, "tonne_http_requests_in_flight") == 1
    assert total(samples, "tonne_build_info") == 1
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
        assert total(samples, name) > 0, name


async def test_every_route_has_the_group_of_its_objective(api: ApiClient, services: Services) -> None:
    groups = {(each.method, each.path): objective_of(each.method, each.path) for each in services.routes()}
    assert {path for (_, path), group in groups.items() if group == "none"} <= {
        "/health/live",
        "/health/ready",
        "/metrics",
    }
    expected = {
        ("POST", "/v1/orders/by-mass"): "order",
        ("POST", "/v1/orders/{order_id}/cancel"): "order",
        ("POST", "/v1/checkouts"): "order",
        ("POST", "/v1/orders/by-mass/quote"): "estimate",
        ("GET", "/v1/estimates/flight/{flight_estimate_id}"): "read",
        ("POST", "/v1/webhooks"): "manage",
        ("POST", "/checkout/{token}/pay"): "pay",
        ("POST", "/gateways/stripe/webhook"): "pay",
        ("GET", "/dashboard"): "pages",
        ("GET", "/projects/{slug}"): "pages",
        ("POST", "/find-orders"): "pages",
    }
    assert {route: groups[route] for route in expected} == expected
    assert objective_of("POST", "/v1/novelties") == objective_of("GET", "/novelties") == "none"
    await api.order()
    await api.get("/nowhere")
    samples = await _scrape(api)
    assert total(samples, "tonne_http_requests_total", group="order", status="201") == 1
    assert total(samples, "tonne_http_request_seconds_count", group="order") == 1
    assert total(samples, "tonne_http_requests_total", group="none", route="unmatched") == 1


async def test_nothing_that_a_client_sends_becomes_a_label(api: ApiClient, world: World) -> None:
    """Labels are never removed: a client that could create them could exhaust the memory."""
    await api.order(idempotency_key="canary-key", metadata={"a": "canary-text"})
    await api.by_key("canary-key")
    await api.get("/v1/orders/canary-id?limit=canary-query")
    await api.get("/canary-path")
    for method in ("CANARY", "canary-method"):
        await api.http.request(method, "/v1/orders")
        await api.http.request(method, "/canary-path")
    text = (await api.http.get("/metrics", headers=AUTHORISED)).text
    assert "canary" not in text.lower()
    assert world.ours_test.scope.account_id not in text
    assert world.ours_test.key_id not in text


async def test_security_8_no_id_of_a_tenant_is_a_label(api: ApiClient, services: Services) -> None:
    await api.order()
    await services.deliverer.run_once()
    text = (await api.http.get("/metrics", headers=AUTHORISED)).text
    assert not re.search(r'"(org|acc|whk|ord|key|chg)_', text)


@pytest.mark.parametrize("header", ["", "Bearer wrong", f"bearer {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
async def test_security_8_the_metrics_need_the_token(api: ApiClient, header: str) -> None:
    response = await api.http.get("/metrics", headers={"Authorization": header} if header else {})
    assert (response.status_code, codes(response)) == (401, ["unauthorised"])


async def test_an_api_key_does_not_open_the_metrics(api: ApiClient) -> None:
    assert (await api.get("/metrics")).status_code == 401


@pytest.mark.parametrize("path", ["/metrics/", "//metrics", "///metrics", "/metrics//", "/%6detrics"])
async def test_security_8_other_spellings_do_not_exist(api: ApiClient, path: str) -> None:
    response = await api.http.get(f"http://tonne.test{path}", headers=AUTHORISED)
    assert (response.status_code, codes(response)) == (404, ["route_not_found"])


@pytest.fixture
async def closed(populated_db: Database, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A server without a token."""
    services = Services(populated_db, msgspec.structs.replace(settings, metrics_token=""))
    transport = httpx.ASGITransport(build_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


async def test_security_8_without_a_token_the_path_does_not_exist(closed: httpx.AsyncClient) -> None:
    for headers in ({}, AUTHORISED, {"Authorization": "Bearer "}):
        response = await closed.get("/metrics", headers=headers)
        assert (response.status_code, codes(response)) == (404, ["route_not_found"])


class Ticks:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_queues_show_what_waits_and_for_how_long(api: ApiClient, services: Services) -> None:
    assert total(await _scrape(api), "tonne_queue_depth") == 0
    await api.order()
    async with services.database.transaction() as tx:
        await tx.execute(
            "UPDATE orders SET status_changed_at = now() - interval '2 hours', "
            "next_attempt_at = now() - interval '1 hour'"
        )
    services.metrics_endpoint._queues._kept = None
    samples = await _scrape(api)
    labels = {"queue": "orders_placed", "mode": "test"}
    assert total(samples, "tonne_queue_depth", **labels) == 1
    assert 7200 <= total(samples, "tonne_queue_oldest_seconds", **labels) < 7260
    assert 3600 <= total(samples, "tonne_queue_overdue_seconds", **labels) < 3660
    assert total(samples, "tonne_queue_depth") == 1
    assert total(samples, "tonne_queue_read_success") == 1


DOCUMENT = (
    "WITH document AS (INSERT INTO tax_documents (id, kind, mode, series, number, reference, organisation_id, "
    "currency, total_minor, issued_on, record, tax_lines, buyer, created_at) "
    "SELECT 'inv_1', 'invoice', mode, 'TN', 1, 'TN-TEST-1', organisation_id, 'EUR', 1, now(), '', '{}', '', now() "
    "FROM orders RETURNING *) "
)
# What one row of each queue is made of, in test mode. The order and the webhook exist already.
ROWS = {
    "mails": "INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at) "
    "VALUES ('mail_1', 'org', '{a@b.test}', '', now(), now())",
    "failed_mails": "INSERT INTO mails (id, organisation_id, recipients, message, created_at) "
    "VALUES ('mail_1', 'org', '{a@b.test}', '', now())",
    "held_mails": "INSERT INTO mails (id, organisation_id, recipients, message, created_at, held_reason) "
    "VALUES ('mail_1', 'org', '{a@b.test}', '', now(), 'test')",
    "orders_received": "UPDATE orders SET status = 'received'",
    "orders_placed": "UPDATE orders SET status = 'placed'",
    "orders_paid": "UPDATE orders SET status = 'paid'",
    "orders_retiring": "UPDATE orders SET status = 'retiring'",
    "charges": "INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, "
    "amount_minor, currency, status, created_at, next_attempt_at) "
    "SELECT account_id, 'chg_1', id, organisation_id, mode, 1, 'simulated', 'none', 1, 'EUR', 'pending', now(), now() "
    "FROM orders",
    "refunds": "INSERT INTO refunds (account_id, id, order_id, organisation_id, mode, method, charge_id, amount_minor, "
    "currency, purpose, reason, state, requested_by, created_at, next_attempt_at) "
    "SELECT account_id, 'rfd_1', id, organisation_id, mode, 'card', 'chg_1', 1, 'EUR', 'goodwill', 'x', 'due', '', "
    "now(), now() FROM orders",
    "invoices": DOCUMENT + "INSERT INTO invoices (id, organisation_id, mode, number, reference, currency, "  # noqa: S608 - a constant
    "total_minor, status, issued_on, due_on, created_at, next_attempt_at) SELECT id, organisation_id, mode, number, "
    "reference, currency, total_minor, 'open', issued_on, issued_on, created_at, created_at FROM document",
    "documents": "INSERT INTO due_documents (account_id, order_id, organisation_id, mode, paid_at, next_attempt_at) "
    "SELECT account_id, id, organisation_id, mode, now(), now() FROM orders",
    "document_files": DOCUMENT + "INSERT INTO unrendered_documents (document_id, mode, created_at, next_attempt_at) "  # noqa: S608 - a constant
    "SELECT id, mode, created_at, created_at FROM document",
    "bank_transfers": "INSERT INTO bank_transfers (id, mode, booked_on, amount_minor, currency, payer, "
    "reference, state, imported_at, imported_by) "
    "VALUES ('trf_1', 'test', now(), 1, 'EUR', '', '', 'unmatched', now(), '')",
    "retirements": "INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, "
    "beneficiary, in_service_name, status, opened_at) "
    "SELECT mode, 'par_1', id, project_id, 0, 1, 1, 'x', true, 'to_retire', now() FROM lots "
    "WHERE mode = 'test' LIMIT 1",
    "pooled_units": "INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, "
    "beneficiary, in_service_name, status, opened_at, close_at) "
    "SELECT mode, 'par_1', id, project_id, 0, 2, 1, 'x', true, 'open', now(), now() FROM lots "
    "WHERE mode = 'test' LIMIT 1",
    "expiring_keys": "UPDATE api_keys SET last_used_at = now(), expires_at = now() + interval '2 days' "
    "WHERE id IN (SELECT id FROM api_keys WHERE mode = 'test' LIMIT 1)",
    "events": "UPDATE webhooks SET due_at = now()",
    "events_failing": "UPDATE webhooks SET due_at = now(), failing_since = now()",
    "events_parked": "INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, "
    "parked_at, next_attempt_at) SELECT organisation_id, id, 'acc', 1, 3, now(), now() FROM webhooks",
    "events_disabled": "UPDATE webhooks SET enabled = false",
    "failing_webhooks": "UPDATE webhooks SET due_at = now(), failing_since = now(), cursor_position = 2",
    "parked_accounts": "INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, "
    "parked_at, next_attempt_at) SELECT organisation_id, id, 'acc', 1, 3, now(), now() FROM webhooks",
    "log_statements": "INSERT INTO log_statements (mode, kind, subject, at) "
    "VALUES ('test', 'certificate.issued', 'x', now())",
    "failing_witnesses": "WITH log AS (INSERT INTO logs (mode, generation, origin, opened_at, next_publish_at) "
    "VALUES ('test', 1, 'x', now(), now()) RETURNING id) INSERT INTO log_witnesses (log_id, vkey, failing_since, "
    "failures, problem, next_attempt_at) SELECT id, 'x', now(), 1, 'unreachable', now() FROM log",
    "order_mails": "INSERT INTO order_mails (account_id, order_id, kind, cause, organisation_id, mode, amount_minor, "
    "created_at) SELECT account_id, id, 'receipt', 'chg_1', organisation_id, mode, 1, now() FROM orders",
    "checkouts": "UPDATE checkouts SET next_close_at = now()",
    "certificate_mails": "UPDATE checkouts SET next_mail_at = now()",
}


OF_EVENTS = {"events", "events_failing", "events_disabled"}


@pytest.mark.parametrize("queue", ALL_QUEUES, ids=lambda queue: queue.name)
async def test_every_queue_counts_its_rows(queue: Queue, populated_db: Database, api: ApiClient) -> None:
    await api.order()
    async with populated_db.transaction() as tx:
        await tx.execute("UPDATE orders SET next_attempt_at = now()")
        await _add_webhook(tx)
        await _add_checkout(tx)
        await tx.execute(ROWS[queue.name])
    reader = QueueReader(populated_db, [queue])
    by_name = {each.name: dict(each.series) for each in await reader.read()}
    await reader.close()
    mode = queue.modes[-1]
    # The order's two events.
    assert by_name["tonne_queue_depth"][queue.name, mode] == [2 if queue.name in OF_EVENTS else 1]
    assert by_name["tonne_queue_read_success"] == {(): [1]}


async def test_the_oldest_undelivered_event_is_known_for_each_reason(populated_db: Database, api: ApiClient) -> None:
    """One order, whose two events are two hours old, and one webhook, whose state changes."""
    await api.order()
    async with populated_db.transaction() as tx:
        await tx.execute("UPDATE events SET sequence = sequence - interval '2 hours'")
        await _add_webhook(tx)
    wrong = []
    for reason in ("events", "events_failing", "events_parked", "events_disabled"):
        async with populated_db.transaction() as tx:
            await tx.execute("UPDATE webhooks SET due_at = now(), failing_since = NULL, enabled = true")
            await tx.execute(ROWS[reason])
            if reason == "events_parked":
                await tx.execute("UPDATE webhooks SET cursor_position = 2")
        reader = QueueReader(populated_db, [each for each in ALL_QUEUES if each.name in {*OF_EVENTS, "events_parked"}])
        states = await reader.read_states()
        await reader.close()
        assert states is not None
        oldest = {each.name: round(each.oldest_s / 3600) for each in states if each.oldest_s}
        if oldest != {reason: 2}:
            wrong.append((reason, oldest))
        async with populated_db.transaction() as tx:
            await tx.execute("DELETE FROM webhook_parked")
            await tx.execute("UPDATE webhooks SET cursor_position = 0")
    assert wrong == []


async def _add_webhook(tx: Connection) -> None:
    await tx.execute(
        "INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, "
        "cursor_position, next_attempt_at) "
        "SELECT organisation_id, mode, 'whk_1', 'https://a.test', now(), '', 'abcd', 0, now() FROM orders"
    )


async def _add_checkout(tx: Connection) -> None:
    await tx.execute(
        "INSERT INTO offset_links (account_id, id, organisation_id, mode, title, created_at) "
        "SELECT account_id, 'lnk_1', organisation_id, mode, 'x', now() FROM orders"
    )
    await tx.execute(
        "INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash, "
        "status, requested_value_minor, total_cost_minor, currency, email, created_at, expires_at) "
        "SELECT account_id, 'cko_1', organisation_id, mode, 'lnk_1', sha256('a'), sha256('b'), 'open', 1, 1, 'EUR', "
        "'a@b.test', now(), now() FROM orders"
    )


# Parked accounts are few, and a webhook is found by its key.
SMALL_TABLES = {"webhook_parked"}


@pytest.mark.parametrize("queue", ALL_QUEUES, ids=lambda queue: queue.name)
async def test_no_queue_reads_a_whole_table(queue: Queue, populated_db: Database) -> None:
    """With many rows that wait for nothing, a scrape must stay cheap."""
    async with populated_db.transaction() as tx:
        await tx.execute("SET LOCAL enable_seqscan = off")
        plan = "\n".join(row[0] for row in await tx.fetch(f"EXPLAIN {queue.sql}"))
    assert set(re.findall(r"Seq Scan on (\w+)", plan)) <= SMALL_TABLES, plan


async def test_queues_are_read_once_in_a_few_seconds(populated_db: Database) -> None:
    ticks = Ticks()
    reader = QueueReader(populated_db, ALL_QUEUES, ticks)
    first = await reader.read()
    assert await reader.read() is first
    ticks.now = 10
    assert await reader.read() is not first
    await reader.close()


async def test_a_lock_that_others_wait_for_is_seen_although_the_queues_wait_for_it_too(
    populated_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "READ_WITHIN_S", 0.2)
    [queue] = [each for each in ALL_QUEUES if each.name == "orders_placed"]
    ticks = Ticks()
    reader = QueueReader(populated_db, [queue], ticks)

    async def read() -> tuple[float, float]:
        ticks.now += 10
        by_name = {each.name: dict(each.series) for each in await reader.read()}
        return by_name["tonne_database_blocking_seconds"][()][0], by_name["tonne_queue_read_success"][()][0]

    async with populated_db.transaction() as holder:
        await holder.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        assert await read() == (0, 0), "its own wait, which has just begun, is not seen"
        waiting = asyncio.create_task(populated_db.run(Connection.fetchval, "SELECT count(*) FROM orders"))
        while (await read())[0] == 0:
            pass
    await waiting
    assert await read() == (0, 1)
    await reader.close()


async def test_metrics_do_not_need_the_database(api: ApiClient, services: Services) -> None:
    await api.get("/v1/orders")
    services.database.is_open = False
    samples = await _scrape(api)
    services.database.is_open = True
    assert total(samples, "tonne_queue_read_success") == 0
    assert total(samples, "tonne_http_requests_total", route="/v1/orders") == 1


async def test_operations_12_the_pool_reports_use_waits_and_timeouts(
    populated_db: Database, settings: Settings
) -> None:
    settings = msgspec.structs.replace(settings, database_connections=2, database_acquire_s=0.05)
    database = await Database(populated_db._url, settings).open()
    held = [await database.acquire() for _ in range(2)]
    with pytest.raises(PoolTimeout):
        await database.acquire()
    waiting = asyncio.create_task(database.acquire())
    await asyncio.sleep(0)
    database.release(held.pop(), reusable=True)
    held.append(await waiting)
    samples = parse_samples(render(metric.snapshot() for metric in database.metrics).decode())
    assert total(samples, "tonne_database_pool_connections", state="in_use") == 2
    assert total(samples, "tonne_database_pool_limit") == 2
    assert total(samples, "tonne_database_pool_timeouts_total") == 1
    assert total(samples, "tonne_database_pool_wait_seconds_count") == 1
    assert total(samples, "tonne_database_connects_total", outcome="opened") == 2
    for connection in held:
        database.release(connection, reusable=True)
    await database.close()

"""Orders that share a transaction: every answer is its own, and one order or lock does not harm the others."""

import asyncio
import os
import random
from collections import defaultdict
from typing import Any

import httpx
import msgspec
import pytest
from msgspec import structs

from tests.support.api_client import ApiClient
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.model import OrderStatus, OrderTax
from tonne.selling.orders.placing.insert_store import ORDER_COLUMNS
from tonne.selling.orders.schemas import order_document, placing_documents
from tonne.selling.orders.store import LINE_COLUMNS

PATH = "/v1/orders/by-mass"
LOCK_STREAM = "SELECT FROM event_streams WHERE organisation_id = $1 AND mode = 'test' FOR UPDATE"
COUNT_KEY = "SELECT count(*) FROM orders WHERE idempotency_key = $1"
# The orders of each stream in the order of their events.
EVENTS = """
SELECT organisation_id, mode, position, subject_id, event_type FROM events ORDER BY organisation_id, mode, position
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With caches: a request reads nothing before it waits for its batch."""
    return msgspec.structs.replace(settings, key_refresh_s=5.0, catalogue_refresh_s=60.0)


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


def _body(number: int, **more: Any) -> dict[str, Any]:
    return {"mass": {"amount": str(number + 1), "unit": "kg"}, "metadata": {"number": number}, **more}


def _largest_batch(services: Services) -> float:
    """The largest bound of the histogram that counts a batch."""
    sizes = services.place_orders.metrics[0].snapshot()
    counts = sizes.series[0][1][:-1]
    return max((bound for bound, count in zip((*sizes.bounds, 999), counts, strict=True) if count), default=0)


async def _check_events(scene: Scene, order_ids: set[str]) -> None:
    """Every stream is without gaps, and each order has its two events next to each other."""
    streams: dict[tuple[str, str], list[tuple[int, str, str]]] = defaultdict(list)
    for row in await scene.fetch(EVENTS):
        streams[row["organisation_id"], row["mode"]].append((row["position"], row["subject_id"], row["event_type"]))
    found = set()
    for events in streams.values():
        assert [position for position, _, _ in events] == list(range(1, len(events) + 1))
        for received, placed in zip(events[::2], events[1::2], strict=True):
            assert (received[1], received[2], placed[2]) == (placed[1], "order.received", "order.placed")
            found.add(placed[1])
    assert found == order_ids
    await scene.check_invariants()


async def test_orders_of_several_accounts_share_transactions_and_each_answer_is_its_own(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    clients = [api, api.as_key(world.theirs_test.key), api.as_key(world.ours_live.key)]
    answers = await asyncio.gather(*(clients[number % 3].post(PATH, _body(number)) for number in range(60)))
    assert [answer.status_code for answer in answers] == [201] * 60
    for number, answer in enumerate(answers):
        order = answer.json()
        assert (order["metadata"], order["quantity"]) == ({"number": number}, f"{(number + 1) / 1000:g}")
        assert (await clients[number % 3].get(f"/v1/orders/{order['id']}")).content == answer.content
    assert _largest_batch(services) >= 8
    await _check_events(scene, {answer.json()["id"] for answer in answers})


async def test_by_estimate_by_value_and_with_a_selection_share_a_transaction(
    api: ApiClient, world: World, scene: Scene
) -> None:
    estimate_ids = [await api.estimate(str(number + 1), "kg") for number in range(10)]
    bundle_ids = list(world.bundles_test.values())
    by_value = [
        {"value": f"{number + 5}.00", "bundle_selection": [{"bundle_id": bundle_ids[number % 2]}]}
        for number in range(10)
    ]
    answers = await asyncio.gather(
        *(api.post("/v1/orders/by-estimate", {"estimate_id": each}) for each in estimate_ids),
        *(api.post("/v1/orders/by-value", body) for body in by_value),
        *(api.post(PATH, _body(number, beneficiary={"name": f"N {number}", "kind": "person"})) for number in range(10)),
        *(api.post("/v1/orders/by-estimate", {"estimate_id": f"est_{number:026d}"}) for number in range(5)),
    )
    assert [answer.status_code for answer in answers] == [201] * 30 + [400] * 5
    orders = [answer.json() for answer in answers[:30]]
    for number in range(10):
        assert (orders[number]["estimate_id"], orders[number]["quantity"]) == (
            *(estimate_ids[number], f"{(number + 1) / 1000:g}"),
        )
        by_value_order = orders[10 + number]
        assert by_value_order["requested_value"] == f"{number + 5}.00"
        assert [line["bundle_id"] for line in by_value_order["bundles"]] == [bundle_ids[number % 2]]
        assert orders[20 + number]["beneficiary"]["name"] == f"N {number}"
    kinds = await scene.fetch("SELECT beneficiary_kind, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in kinds] == [("organisation", 20), ("person", 10)]
    stored = await scene.fetch("SELECT bundle_selection IS NOT NULL AS chosen, count(*) AS n FROM orders GROUP BY 1")
    assert {row["chosen"]: row["n"] for row in stored} == {False: 20, True: 10}
    await _check_events(scene, {order["id"] for order in orders})


async def test_a_storm_of_replays_and_conflicting_keys_places_one_order_per_key(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    seed = int(os.environ.get("ORDERS_SEED") or random.SystemRandom().getrandbits(32))
    print(f"ORDERS_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    clients = [api, api.as_key(world.theirs_test.key)]
    sent = [(rng.randrange(2), f"key {rng.randrange(25)}", rng.randrange(2)) for _ in range(200)]

    async def post(tenant: int, key: str, variant: int) -> httpx.Response:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        return await clients[tenant].post(PATH, _body(variant, idempotency_key=key))

    answers = await asyncio.gather(*(post(*each) for each in sent))
    by_key: dict[tuple[int, str], list[tuple[int, httpx.Response]]] = defaultdict(list)
    for (tenant, key, variant), answer in zip(sent, answers, strict=True):
        by_key[tenant, key].append((variant, answer))
    for (_, key), group in by_key.items():
        [(placed, original)] = [(variant, answer) for variant, answer in group if answer.status_code == 201]
        assert original.json()["idempotency_key"] == key
        assert original.json()["metadata"] == {"number": placed}
        for variant, answer in group:
            if answer is not original:
                assert (answer.status_code, answer.content) == (200, original.content)
                assert answer.headers["idempotent-replayed"] == "true"
                assert ("idempotency-mismatch" in answer.headers) is (variant != placed)
    assert _largest_batch(services) >= 8
    await _check_events(scene, {group[0][1].json()["id"] for group in by_key.values()})


async def test_two_processes_that_place_orders_for_the_same_accounts_agree(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    """Each has its own batches. They meet at the keys and at the streams."""
    database = await Database(services.database._url, services.settings).open()
    second = Services(database, services.settings)
    transport = httpx.ASGITransport(build_app(second), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        processes = [api, ApiClient(client, api.key)]
        keys = [world.ours_test.key, world.theirs_test.key]
        answers = await asyncio.gather(
            *(
                processes[number % 2]
                .as_key(keys[number // 2 % 2])
                .post(PATH, _body(0, idempotency_key=f"k{number // 8}"))
                for number in range(160)
            )
        )
    assert {answer.status_code for answer in answers} == {200, 201}
    placed = [answer.json() for answer in answers if answer.status_code == 201]
    assert len(placed) == len({order["id"] for order in placed}) == 40, "20 keys of 2 accounts"
    for number in range(0, 160, 8):
        for tenant in range(2):
            same = [answers[number + each].json()["id"] for each in range(8) if each // 2 % 2 == tenant]
            assert len(set(same)) == 1
    await _check_events(scene, {order["id"] for order in placed})
    await second.health.close()
    await second.metrics_endpoint.close()
    await database.close()


async def test_an_order_that_the_database_refuses_fails_alone(api: ApiClient, world: World, scene: Scene) -> None:
    await scene.execute("""ALTER TABLE orders ADD CHECK (metadata NOT LIKE '%"number":13}%')""")
    other = api.as_key(world.theirs_test.key)
    answers = await asyncio.gather(*((api, other)[number % 2].post(PATH, _body(number)) for number in range(30)))
    assert {number: answer.status_code for number, answer in enumerate(answers)} == {
        number: 500 if number == 13 else 201 for number in range(30)
    }
    await _check_events(scene, {answer.json()["id"] for answer in answers if answer.status_code == 201})


async def test_a_locked_stream_does_not_delay_other_organisations(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    other = api.as_key(world.theirs_test.key)
    await asyncio.gather(api.order(), other.order())
    async with services.database.transaction() as tx:
        await tx.execute(LOCK_STREAM, world.ours_test.scope.organisation_id)
        stuck = [asyncio.create_task(api.post(PATH, _body(number))) for number in range(20)]
        answers = await asyncio.gather(*(other.post(PATH, _body(number)) for number in range(20)))
        assert {answer.status_code for answer in answers} == {201}
        # Orders that arrive now do not try the lock again: those of others are placed without a delay.
        stuck += [asyncio.create_task(api.post(PATH, _body(number))) for number in range(20, 40)]
        answers += await asyncio.gather(*(other.post(PATH, _body(number)) for number in range(20, 40)))
        assert {answer.status_code for answer in answers} == {201}
        assert not any(task.done() for task in stuck)
    late = await asyncio.gather(*stuck)
    assert {answer.status_code for answer in late} == {201}
    ids = {answer.json()["id"] for answer in (*answers, *late)}
    before = await scene.fetch("SELECT id FROM orders ORDER BY created_at, id LIMIT 2")
    await _check_events(scene, ids | {row["id"] for row in before})


async def test_a_key_that_another_process_is_writing_does_not_delay_other_orders(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    """The batch waits at the unique constraint, gives up, and its orders are placed one by one."""
    await api.order(idempotency_key="original")
    other = api.as_key(world.theirs_test.key)
    copy = """
        INSERT INTO orders SELECT (jsonb_populate_record(orders, '{"id": "ord_other", "idempotency_key": "taken"}')).*
        FROM orders WHERE idempotency_key = 'original'
    """
    async with services.database.transaction() as tx:
        await tx.execute(copy)
        stuck = asyncio.create_task(api.post(PATH, _body(0, idempotency_key="taken")))
        answers = await asyncio.gather(*((api, other)[number % 2].post(PATH, _body(number)) for number in range(20)))
        assert {answer.status_code for answer in answers} == {201}
        await scene.until_waiting_for_lock()
        assert not stuck.done()
    replayed = await stuck
    assert (replayed.status_code, replayed.headers["idempotent-replayed"]) == (200, "true")
    assert await scene.fetchval(COUNT_KEY, "taken") == 1


async def test_an_order_that_is_the_victim_of_a_deadlock_is_placed_nevertheless(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    async with services.database.transaction() as tx:
        # The database ends the transaction that has waited longer, which is the order's.
        await tx.execute("SET LOCAL deadlock_timeout = '60s'")
        await tx.execute("SET LOCAL lock_timeout = '60s'")
        await tx.execute(LOCK_STREAM, world.ours_test.scope.organisation_id)
        placing = asyncio.create_task(api.post(PATH, _body(0, idempotency_key="k")))
        await scene.until_waiting_for_lock()
        # This waits for the order, which waits for the stream.
        await tx.execute(
            """
            INSERT INTO orders (account_id, id, wire_document, organisation_id, mode, idempotency_key, request_digest,
                                type, status, currency, payment_method, requested_quantity_grams, metadata,
                                beneficiary, created_at, status_changed_at)
            VALUES ($1, 'ord_other', '{}', $2, 'test', 'k', '', 'quantity', 'received', 'EUR', 'invoice', 1, '{}', 'B',
                    now(), now())
            """,
            world.ours_test.scope.account_id,
            world.ours_test.scope.organisation_id,
        )
    answer = await placing
    assert (answer.status_code, answer.content) == (200, b"{}"), "the key is taken by then"


async def test_a_request_that_is_cancelled_does_not_harm_its_batch(
    api: ApiClient, world: World, services: Services, scene: Scene
) -> None:
    await api.order()
    async with services.database.transaction() as tx:
        await tx.execute(LOCK_STREAM, world.ours_test.scope.organisation_id)
        tasks = [asyncio.create_task(api.post(PATH, _body(n, idempotency_key=f"k{n}"))) for n in range(20)]
        await scene.until_waiting_for_lock()
        for task in tasks[::3]:
            task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    for number, answer in enumerate(answers):
        if number % 3:
            assert isinstance(answer, httpx.Response)
            assert (answer.status_code, answer.json()["metadata"]) == (201, {"number": number})
        else:
            assert isinstance(answer, asyncio.CancelledError)
            again = await api.post(PATH, _body(number, idempotency_key=f"k{number}"))
            assert again.status_code in {200, 201}, "written or not, a repeat places it once"
    await services.place_orders.drain()
    assert await scene.fetchval("SELECT count(*) FROM orders") == 21
    await scene.check_invariants()


# The database hangs in the statement that inserts a certain order.
HANG = """
CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END';
CREATE TRIGGER hang BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.metadata LIKE '%"number":19}%')
    EXECUTE FUNCTION hang()
"""
TERMINATE = """
SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'
"""


async def test_a_batch_whose_connection_is_lost_answers_503_and_writes_nothing_twice(
    api: ApiClient, services: Services, scene: Scene
) -> None:
    await api.order()
    await scene.execute(HANG)
    tasks = [asyncio.create_task(api.post(PATH, _body(number))) for number in range(20)]
    await scene.until(lambda: scene.fetchval(TERMINATE))
    answers = await asyncio.gather(*tasks)
    lost = [answer for answer in answers if answer.status_code == 503]
    assert len(lost) > 1, "all orders of the batch"
    assert {answer.status_code for answer in answers} <= {201, 503}
    assert all("retry-after" in answer.headers for answer in lost)
    await services.place_orders.drain()
    assert await scene.fetchval("SELECT count(*) FROM orders") == 21 - len(lost)
    await api.order()
    await scene.check_invariants()


async def test_the_document_of_a_received_order_has_no_price(world: World, scene: Scene) -> None:
    """Both documents are made of one conversion."""
    order = await scene.place_order(world.ours_test.scope, metadata='{"a":1}')
    received = structs.replace(order, status=OrderStatus.RECEIVED, priced=None, tax=OrderTax())
    assert placing_documents(order) == (order_document(received), order_document(order))


async def test_stopping_waits_for_orders_that_were_accepted(api: ApiClient, services: Services, scene: Scene) -> None:
    tasks = [asyncio.create_task(api.post(PATH, _body(number))) for number in range(30)]
    await scene.until(lambda: scene.fetchval("SELECT count(*) FROM orders"))
    await services.place_orders.drain()
    assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {201}
    assert await scene.fetchval("SELECT count(*) FROM orders") == 30


ATTRIBUTES = """
SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::regclass
"""


async def test_rows_of_a_batch_have_the_columns_of_their_types_in_this_order(services: Services) -> None:
    """Values of the same type in the wrong order would be stored in each other's columns."""
    async with services.database.connection() as connection:
        assert await connection.fetchval(ATTRIBUTES, "new_order") == f"{ORDER_COLUMNS}, bundle_selection"
        assert await connection.fetchval(ATTRIBUTES, "new_order_line") == f"order_id, position, {LINE_COLUMNS}"

"""Lookups that share statements: who shares one, and that everyone gets the own result and nobody another's."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.group_commit import QueueTimeout
from tonne.platform.db.grouped_read import MAX_KEYS, MAX_STATEMENTS, GroupedRead
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.placing.insert_store import KeyOfClient
from tonne.selling.orders.read_store import READ_BY_ID, READ_BY_KEY

DOUBLE = "SELECT number, number * 2 AS double FROM unnest($1::int[]) AS number WHERE number >= 0"


class Doubles:
    """Doubles numbers that are not negative, by a statement. Every statement waits until `gate` is set."""

    def __init__(self, database: Database, *, wait_s: float = 60.0) -> None:
        self.group: GroupedRead[int, int] = GroupedRead(database, self._read, wait_s=wait_s)
        self.gate = asyncio.Event()
        self.gate.set()
        self.statements: list[list[int]] = []

    async def _read(self, connection: Connection, keys: Sequence[int]) -> dict[int, int]:
        self.statements.append(sorted(keys))
        await self.gate.wait()
        return {row["number"]: row["double"] for row in await connection.fetch(DOUBLE, keys)}

    def start(self, *numbers: int) -> list[asyncio.Task[int | None]]:
        return [asyncio.create_task(self.group.find(number)) for number in numbers]

    async def until_started(self, statements: int) -> None:
        async with asyncio.timeout(20):
            while len(self.statements) < statements:  # noqa: ASYNC110 - as soon as it is so
                await asyncio.sleep(0)


async def test_a_lookup_alone_is_one_statement(db: Database) -> None:
    doubles = Doubles(db)
    assert [await doubles.group.find(number) for number in (1, -1)] == [2, None]
    assert doubles.statements == [[1], [-1]]


async def test_lookups_of_one_turn_share_a_statement_in_which_each_key_is_once(db: Database) -> None:
    doubles = Doubles(db)
    assert await asyncio.gather(*doubles.start(3, 1, -1, 3, 2)) == [6, 2, None, 6, 4]
    assert doubles.statements == [[-1, 1, 2, 3]]


async def test_a_few_statements_run_at_a_time_with_a_limited_number_of_keys(db: Database) -> None:
    doubles = Doubles(db)
    doubles.gate.clear()
    tasks = doubles.start(*range(3 * MAX_KEYS))
    await doubles.until_started(MAX_STATEMENTS)
    # Not part of a statement that has begun: it might not find what was committed meanwhile.
    tasks += doubles.start(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [len(keys) for keys in doubles.statements] == [MAX_KEYS] * MAX_STATEMENTS
    doubles.gate.set()
    assert await asyncio.gather(*tasks) == [2 * number for number in (*range(3 * MAX_KEYS), 0)]
    assert len(doubles.statements) == 4
    assert doubles.statements[-1] == [0]


async def test_a_cancelled_request_neither_stops_the_others_nor_is_looked_up(db: Database) -> None:
    doubles = Doubles(db)
    doubles.gate.clear()
    running = doubles.start(1, 2)
    await doubles.until_started(1)
    running += doubles.start(3, 4)
    await doubles.until_started(2)
    waiting = doubles.start(5, 6)
    await asyncio.sleep(0)
    for task in (running[0], running[3], waiting[0]):
        task.cancel()
    await asyncio.sleep(0)
    doubles.gate.set()
    assert [await task for task in (running[1], running[2], waiting[1])] == [4, 6, 12]
    assert doubles.statements == [[1, 2], [3, 4], [6]]
    assert await doubles.group.find(7) == 14


async def test_an_error_fails_all_that_share_the_statement_and_no_other(db: Database) -> None:
    doubles = Doubles(db)
    # Its double is out of range.
    results = await asyncio.gather(*doubles.start(1, 2**30), return_exceptions=True)
    assert [type(result) for result in results] == [asyncpg.NumericValueOutOfRangeError] * 2
    assert await asyncio.gather(*doubles.start(1, 2)) == [2, 4]
    # It is not repeated.
    assert doubles.statements == [[1, 2**30], [1, 2]]


async def test_a_lookup_waits_for_its_statement_for_a_limited_time(db: Database) -> None:
    doubles = Doubles(db, wait_s=0.05)
    doubles.gate.clear()
    first = doubles.start(1)
    await doubles.until_started(1)
    first += doubles.start(2)
    await doubles.until_started(2)
    with pytest.raises(QueueTimeout):
        await doubles.group.find(3)
    doubles.gate.set()
    assert await asyncio.gather(*first) == [2, 4]
    assert await doubles.group.find(4) == 8
    assert doubles.statements == [[1], [2], [4]]


async def test_operations_11_reads_of_orders_share_statements_and_each_account_sees_only_its_own(
    services: Services, api: ApiClient, world: World
) -> None:
    tenants = (world.ours_test, world.ours_live, world.theirs_test)
    ours, ours_live, theirs = clients = [api.as_key(tenant.key) for tenant in tenants]
    mine, other = await ours.order(idempotency_key="same"), await theirs.order(idempotency_key="same")
    shown = {ours: mine, theirs: other}
    for client in clients:
        by_id = await asyncio.gather(*(client.get(f"/v1/orders/{order['id']}") for order in (mine, other)))
        found = [answer.json() for answer in (*by_id, await client.by_key("same")) if answer.status_code == 200]
        assert found == ([] if client is ours_live else [shown[client]] * 2)

    statements = _log_statements(services.database)
    endpoints, accounts = services.orders, [tenant.scope.account_id for tenant in tenants]
    documents = await asyncio.gather(
        *(endpoints.by_id.find(OrderKey(account, order["id"])) for account in accounts for order in (mine, other))
    )
    assert [document is not None for document in documents] == [True, False, False, False, False, True]
    originals = await asyncio.gather(*(endpoints.by_key.find(KeyOfClient(account, "same")) for account in accounts))
    assert list(originals) == [documents[0], None, documents[5]]
    assert statements == [READ_BY_ID, READ_BY_KEY]


def _log_statements(database: Database) -> list[str]:
    """The statements of idle connections from now on."""
    statements: list[str] = []
    for connection in database._idle:
        connection.add_query_logger(lambda record: statements.append(record.query))
    return statements


async def test_a_read_of_an_order_fails_as_usual_without_a_database(services: Services, api: ApiClient) -> None:
    order = await api.order()
    assert (await api.get(f"/v1/orders/{order['id']}")).status_code == 200
    await services.database.close()
    answers = await asyncio.gather(*(api.get(f"/v1/orders/{order['id']}") for _ in range(3)))
    await services.database.open()
    assert [(answer.status_code, codes(answer)) for answer in answers] == [(503, ["service_unavailable"])] * 3
    assert (await api.get(f"/v1/orders/{order['id']}")).status_code == 200

"""Rules that races could break are the database's own: it refuses what the code would not write."""

import asyncpg
import pytest

from tests.db.ordering import place
from tests.world import START, World
from tonne.app import Services
from tonne.db.pool import Database

REFUSED = [
    ("an order of no known status", "UPDATE orders SET status = 'lost'"),
    ("a negative cost", "UPDATE orders SET offset_cost_minor = -1, total_cost_minor = -1, commission_minor = 0"),
    ("a negative commission", "UPDATE orders SET commission_minor = -1, total_cost_minor = offset_cost_minor - 1"),
    ("a total that is not the sum", "UPDATE orders SET total_cost_minor = total_cost_minor + 1"),
    ("a total above the value asked for", "UPDATE orders SET requested_value_minor = total_cost_minor - 1"),
    ("neither quantity nor value", "UPDATE orders SET requested_value_minor = NULL"),
    ("both quantity and value", "UPDATE orders SET requested_quantity_grams = 1"),
    ("the type of the other", "UPDATE orders SET type = 'quantity'"),
    ("no gram at all", "UPDATE orders SET quantity_grams = 0"),
    ("more than the largest quantity", "UPDATE orders SET quantity_grams = 100000000000001"),
    ("a placed order without a price", "UPDATE orders SET quantity_grams = NULL"),
    ("an empty key", "UPDATE orders SET idempotency_key = ''"),
    ("a key that is too long", "UPDATE orders SET idempotency_key = repeat('x', 256)"),
    ("a currency that is no code", "UPDATE orders SET currency = 'euro'"),
    ("a mode that is neither", "UPDATE orders SET mode = 'demo'"),
    ("a line without a gram", "UPDATE order_lines SET quantity_grams = 0"),
    ("a gross price below the net one", "UPDATE order_lines SET gross_unit_price_minor = unit_price_minor - 1"),
    ("a line without its order", "UPDATE order_lines SET order_id = 'ord_gone'"),
    ("a lot that gives more than it has", "UPDATE lots SET allocated_grams = quantity_grams + 1"),
    ("a lot that gets more than it had", "UPDATE lots SET allocated_grams = -1"),
    ("a lot that ends before it begins", "UPDATE lots SET last_number = first_number - 1"),
    ("a serial number in two lots", "UPDATE lots SET first_number = 1, last_number = 2, serial_block = 1"),
    ("a fee of everything", "UPDATE organisations SET fee_rate = 1"),
    ("a fee below nothing", "UPDATE organisations SET fee_rate = -0.1"),
    ("a price of nothing", "UPDATE bundles SET unit_price_minor = 0"),
    ("a rate of nothing", "UPDATE exchange_rates SET rate = 0"),
    ("a rate of a currency to itself", "UPDATE exchange_rates SET quote = base"),
    (
        "a key with its account in the other mode",
        "UPDATE api_keys SET mode = CASE mode WHEN 'test' THEN 'live' ELSE 'test' END",
    ),
    ("two keys with one secret", "UPDATE api_keys SET secret_hash = repeat('x', 32)::bytea"),
    ("a change of the audit log", "UPDATE audit_log SET actor = 'nobody'"),
    ("a deletion from the audit log", "DELETE FROM audit_log"),
    ("an emptied audit log", "TRUNCATE audit_log"),
]


async def test_the_database_refuses_every_one_of_these(services: Services, world: World) -> None:
    await place(services, world.ours_test.scope, START, value_minor=5000)
    accepted = []
    for what, statement in REFUSED:
        try:
            async with services.database.transaction() as tx:
                await tx.execute(statement)
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError):
            continue
        accepted.append(what)
    assert accepted == []


async def test_two_orders_of_one_account_cannot_share_a_key(services: Services, world: World) -> None:
    await place(services, world.ours_test.scope, START)
    await place(services, world.ours_test.scope, START)
    with pytest.raises(asyncpg.UniqueViolationError):
        async with services.database.transaction() as tx:
            await tx.execute("UPDATE orders SET idempotency_key = 'same'")


async def test_text_sorts_by_its_bytes(db: Database) -> None:
    """Pages are cut between ids: the order must not depend on where the database was made."""
    async with db.connection() as connection:
        rows = await connection.fetch("SELECT x FROM unnest(ARRAY['a', 'B', '_', '1', 'é', 'b']) AS x ORDER BY x")
    assert [row["x"] for row in rows] == ["1", "B", "_", "a", "b", "é"]

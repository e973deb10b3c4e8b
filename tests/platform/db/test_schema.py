"""Constraints: the database itself refuses invalid rows, so that a race or a bug cannot write them."""

import asyncpg
import pytest

from tests.support.clock import START
from tests.support.orders import place
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database

REFUSED = [
    ("an unknown status", "UPDATE orders SET status = 'lost'"),
    ("a negative cost", "UPDATE orders SET offset_cost_minor = -1, total_cost_minor = -1, commission_minor = 0"),
    ("a negative commission", "UPDATE orders SET commission_minor = -1, total_cost_minor = offset_cost_minor - 1"),
    ("a total that is not the sum", "UPDATE orders SET total_cost_minor = total_cost_minor + 1"),
    ("a total above the value asked for", "UPDATE orders SET requested_value_minor = total_cost_minor - 1"),
    ("neither quantity nor value", "UPDATE orders SET requested_value_minor = NULL"),
    ("both quantity and value", "UPDATE orders SET requested_quantity_grams = 1"),
    ("a type that does not match the request", "UPDATE orders SET type = 'quantity'"),
    ("a quantity of zero", "UPDATE orders SET quantity_grams = 0"),
    ("a quantity above the maximum", "UPDATE orders SET quantity_grams = 100000000000001"),
    ("a placed order without a price", "UPDATE orders SET quantity_grams = NULL"),
    ("an empty idempotency key", "UPDATE orders SET idempotency_key = ''"),
    ("an idempotency key that is too long", "UPDATE orders SET idempotency_key = repeat('x', 256)"),
    ("an invalid currency code", "UPDATE orders SET currency = 'euro'"),
    ("an unknown mode", "UPDATE orders SET mode = 'demo'"),
    ("a line with a quantity of zero", "UPDATE order_lines SET quantity_grams = 0"),
    ("a gross price below the net one", "UPDATE order_lines SET gross_unit_price_minor = unit_price_minor - 1"),
    ("a line without its order", "UPDATE order_lines SET order_id = 'ord_gone'"),
    ("an over-allocated lot", "UPDATE lots SET allocated_grams = quantity_grams + 1"),
    ("a lot with a negative allocation", "UPDATE lots SET allocated_grams = -1"),
    ("a lot that ends before it begins", "UPDATE lots SET last_number = first_number - 1"),
    ("a serial number in two lots", "UPDATE lots SET first_number = 1, last_number = 2, serial_block = 1"),
    ("a fee rate of 1", "UPDATE organisations SET fee_rate = 1"),
    ("a negative fee rate", "UPDATE organisations SET fee_rate = -0.1"),
    ("a price of zero", "UPDATE bundles SET unit_price_minor = 0"),
    ("an exchange rate of zero", "UPDATE exchange_rates SET rate = 0"),
    ("an exchange rate of a currency to itself", "UPDATE exchange_rates SET quote = base"),
    (
        "a key with an account of the other mode",
        "UPDATE api_keys SET mode = CASE mode WHEN 'test' THEN 'live' ELSE 'test' END",
    ),
    ("two keys with one secret", "UPDATE api_keys SET secret_hash = repeat('x', 32)::bytea"),
    ("an update of the audit log", "UPDATE audit_log SET actor = 'nobody'"),
    ("a deletion from the audit log", "DELETE FROM audit_log"),
    ("a truncated audit log", "TRUNCATE audit_log"),
]


async def test_the_database_refuses_invalid_rows(services: Services, world: World) -> None:
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


async def test_two_orders_of_an_account_cannot_share_an_idempotency_key(services: Services, world: World) -> None:
    await place(services, world.ours_test.scope, START)
    await place(services, world.ours_test.scope, START)
    with pytest.raises(asyncpg.UniqueViolationError):
        async with services.database.transaction() as tx:
            await tx.execute("UPDATE orders SET idempotency_key = 'same'")


async def test_text_sorts_by_bytes(db: Database) -> None:
    """Keyset pagination compares ids: their order must not depend on the locale of the server."""
    async with db.connection() as connection:
        rows = await connection.fetch("SELECT x FROM unnest(ARRAY['a', 'B', '_', '1', 'é', 'b']) AS x ORDER BY x")
    assert [row["x"] for row in rows] == ["1", "B", "_", "a", "b", "é"]

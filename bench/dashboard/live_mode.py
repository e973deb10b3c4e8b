"""Makes a service in live mode of one in test mode, before its orders are copied.

Orders complete by themselves in test mode only, but only in live mode does the operator's work wait for anybody.
"""

from dataclasses import replace

from bench.environment import Environment
from tonne.platform.values import context
from tonne.platform.values.context import Mode

MODE = Mode.LIVE
# Partitions are changed with their tables.
TABLES_WITH_MODE = """
SELECT attrelid::regclass::text AS name FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE attname = 'mode' AND attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p') AND NOT relispartition
  AND relnamespace = 'public'::regnamespace
"""


# Simulated registries and made-up serials are for test mode only.
FORGET_SIMULATED = """
UPDATE lots SET registry_account = NULL, holding_id = NULL, serial = replace(serial, 'TEST-', 'TEST-LIVE-');
UPDATE serial_blocks SET namespace = regexp_replace(namespace, '^TEST ', 'TEST LIVE ');
UPDATE parcels SET instruction_id = NULL;
DELETE FROM registry_instructions;
DELETE FROM registry_drifts;
DELETE FROM registry_accounts;
DELETE FROM simulated_retirements;
DELETE FROM simulated_holdings;
"""


async def make_live(environment: Environment) -> None:
    """Everything of test mode becomes live. Keys keep their secrets, but the API no longer accepts them."""
    async with environment.connection() as tx, tx.transaction():
        # Without triggers and foreign keys: rows that refer to each other change their mode one after the other.
        await tx.execute("SET LOCAL session_replication_role = replica")
        # The live mode of the demo has the same units, and is deleted.
        await tx.execute("DELETE FROM lots WHERE mode = 'live'")
        await tx.execute("DELETE FROM serial_blocks WHERE namespace LIKE 'TEST LIVE %'")
        await tx.execute(FORGET_SIMULATED)
        for row in await tx.fetch(TABLES_WITH_MODE):
            # Rows that every organisation has in both modes, such as its streams of events.
            await tx.execute(f"DELETE FROM {row['name']} WHERE mode = 'live'")
            await tx.execute(f"UPDATE {row['name']} SET mode = 'live' WHERE mode = 'test'")
    environment.tenants = [
        replace(tenant, scope=context.replace(tenant.scope, mode=MODE)) for tenant in environment.tenants
    ]

"""Settings of PostgreSQL that every session of ours needs. A pooler refuses them, so there the role has them."""

from typing import TYPE_CHECKING

import asyncpg

from tonne.platform.settings.settings import Settings

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class RoleSettingsMissing(Exception):
    """The role has no time limits. The message says what to run."""


def session_settings(settings: Settings) -> dict[str, str]:
    timeout_ms = int(settings.statement_timeout_s * 1000)
    return {
        "statement_timeout": str(timeout_ms),
        # One row that is locked for long must not occupy the whole pool.
        "lock_timeout": str(int(settings.lock_timeout_s * 1000)),
        "idle_in_transaction_session_timeout": str(2 * timeout_ms),
        # Our queries are short and indexed: compiling them costs more than running them.
        "jit": "off",
        # One plan per statement: planning costs as much as running.
        "plan_cache_mode": "force_generic_plan",
    }


# Also those that a role has behind a pooler, and those of a command. Not the one for locks, which others wait behind.
NO_LIMITS = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
LIFT_LIMITS = "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in NO_LIMITS.items())
# What a client waits for one statement of a transaction without limits.
LONG_STATEMENT_S = 86_400.0
# A snapshot keeps the database from removing old rows, so nobody may hold one by reading nothing.
FOR_READERS = (
    "SET LOCAL idle_in_transaction_session_timeout = '10min'; SET LOCAL client_connection_check_interval = '10s'"
)


async def lift_limits(tx: _Connection) -> None:
    """Let this transaction take as long as its rows need. Pass LONG_STATEMENT_S to its long statements."""
    await tx.execute(LIFT_LIMITS)


UNLIMITED = """
SELECT quote_ident(current_user) AS role
FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') AND setting = '0'
"""


async def require_role_settings(connection: _Connection, settings: Settings) -> None:
    """Raise an error if a session without startup parameters has no time limits: one hanging statement would keep
    its connection, and the rows that it locked, for ever."""
    rows = await connection.fetch(UNLIMITED)
    if rows:
        role = rows[0]["role"]
        statements = [f"ALTER ROLE {role} SET {name} = '{text}';" for name, text in session_settings(settings).items()]
        raise RoleSettingsMissing(
            f"TONNE_DATABASE_POOLING is transaction, but the database role {role} has no time limits, and PgBouncer "
            f"does not pass them on. Run in PostgreSQL, then RECONNECT in PgBouncer: {' '.join(statements)}"
        )

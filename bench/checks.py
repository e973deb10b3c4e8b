"""Checks that the measured work really happened: commits are durable, and the data is consistent."""

from typing import TYPE_CHECKING

from tonne.cli.doctor import examine

if TYPE_CHECKING:
    from bench.environment import Environment

DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


class NotMeasured(Exception):
    """The results of this run are invalid; the message says why."""


async def require_durable(environment: "Environment") -> None:
    async with environment.connection() as connection:
        for setting in DURABLE:
            if await connection.fetchval("SELECT current_setting($1)", setting) != "on":
                raise NotMeasured(f"Commits are not durable: {setting} is off.")


async def require_consistent(environment: "Environment") -> None:
    """All invariants that `tonne doctor` checks hold."""
    async with environment.connection() as connection, connection.transaction():
        breaches = await examine(connection)
    if breaches:
        shown = {name: places[:3] for name, places in breaches.items()}
        raise NotMeasured(f"The doctor found inconsistent data: {shown}.")


COUNT_ROWS = """
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM events) AS events,
       (SELECT count(DISTINCT (account_id, order_id)) FROM order_lines) AS orders_with_lines
"""


async def count_orders(environment: "Environment") -> int:
    """How many orders there are, each with its lines and its two events."""
    async with environment.connection() as connection:
        row = await connection.fetchrow(COUNT_ROWS)
    if row is None or not row["orders"] * 2 == row["orders_with_lines"] * 2 == row["events"]:
        raise NotMeasured(f"Some orders lack lines or events: {row}.")
    orders: int = row["orders"]
    return orders

"""Whether what was measured is what it says: durable commits, and as many sound orders as there were answers."""

from bench.stage import Stage
from tonne.cli.doctor import examine

DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


class NotMeasured(Exception):
    """The numbers of this run are worth nothing; the message says why."""


async def require_durable(stage: Stage) -> None:
    async with stage.connection() as connection:
        for setting in DURABLE:
            if await connection.fetchval("SELECT current_setting($1)", setting) != "on":
                raise NotMeasured(f"Commits are not durable: {setting} is off.")


COUNT_ROWS = """
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM events) AS events,
       (SELECT count(DISTINCT (account_id, order_id)) FROM order_lines) AS orders_with_lines
"""


async def count_orders(stage: Stage) -> int:
    """How many there are, each with its lines and its two events."""
    async with stage.connection() as connection:
        row = await connection.fetchrow(COUNT_ROWS)
    if row is None or not row["orders"] * 2 == row["orders_with_lines"] * 2 == row["events"]:
        raise NotMeasured(f"Orders without lines or events: {row}.")
    orders: int = row["orders"]
    return orders


async def require_sound(stage: Stage) -> None:
    """Everything that must always be true of the data, as `tonne doctor` checks it."""
    async with stage.connection() as connection, connection.transaction():
        breaches = await examine(connection)
    if breaches:
        shown = {name: places[:3] for name, places in breaches.items()}
        raise NotMeasured(f"The doctor finds the data broken: {shown}.")

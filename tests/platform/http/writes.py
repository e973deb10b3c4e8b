"""Every endpoint with a body, a body that it accepts, and the number of rows in the tables they write to."""

from typing import Any

from tests.support.api_client import ApiClient
from tonne.platform.db.database import Database

ORDERS = ("/v1/orders/by-estimate", "/v1/orders/by-mass", "/v1/orders/by-value")
QUOTES = tuple(f"{path}/quote" for path in ORDERS)
CREATES = (*ORDERS, "/v1/estimates")
WRITES = (*CREATES, *QUOTES)

COUNT_ROWS = """
SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM order_lines) + (SELECT count(*) FROM estimates)
     + (SELECT count(*) FROM events) + (SELECT coalesce(sum(last_position), 0) FROM event_streams)
"""


async def count_rows(database: Database) -> int:
    """The rows that a request can add. If the number stays the same, nothing was written."""
    async with database.connection() as connection:
        count: int = await connection.fetchval(COUNT_ROWS)
    return count


async def valid_bodies(api: ApiClient) -> dict[str, dict[str, Any]]:
    """The smallest valid body for every path that writes. Creates one estimate."""
    what: dict[str, dict[str, Any]] = {
        "/v1/orders/by-estimate": {"estimate_id": await api.estimate()},
        "/v1/orders/by-mass": {"mass": {"amount": "1.5", "unit": "t"}},
        "/v1/orders/by-value": {"value": "100.00"},
        "/v1/estimates": {"mass": {"amount": "1.5", "unit": "t"}},
    }
    return {path: what[path.removesuffix("/quote")] for path in WRITES}


async def count_orders(database: Database) -> int:
    async with database.connection() as connection:
        count: int = await connection.fetchval("SELECT count(*) FROM orders")
    return count

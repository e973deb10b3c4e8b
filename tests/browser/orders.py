"""Orders that the running service completes."""

import asyncio
from typing import Any

from tests.support.api_client import ApiClient


async def complete_order(api: ApiClient, tonnes: str = "1.5", **body: Any) -> dict[str, Any]:
    """Order by mass, and wait until the order is complete."""
    order = await api.order(mass={"amount": tonnes, "unit": "t"}, **body)
    return await wait_until_complete(api, order["id"])


async def wait_until_complete(api: ApiClient, order_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            order: dict[str, Any] = (await api.get(f"/v1/orders/{order_id}")).json()
            if order["status"] == "complete":
                return order
            await asyncio.sleep(0.02)

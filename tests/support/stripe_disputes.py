"""A stand-in for Stripe's disputes, which localstripe does not have: their list, and a payer who opens and closes them.

It serves `GET /v1/disputes` with the filters that our gateway uses. The functions below open and close disputes, and
change the status of refunds that were made.
"""

import time
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web

WEEK_S = 7 * 24 * 3600


class DisputeBook:
    def __init__(self, change_refund: Callable[[str, str], None]) -> None:
        self.disputes: dict[str, dict[str, Any]] = {}
        self._change_refund = change_refund

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/disputes", self.list_disputes)
        router.add_post("/_config/stand_in/disputes", self.change)
        router.add_post("/_config/stand_in/refunds", self.change_refund)

    async def list_disputes(self, request: web.Request) -> web.Response:
        intent, since = request.query.get("payment_intent"), int(request.query.get("created[gte]", "0"))
        found = [
            each
            for each in reversed(self.disputes.values())
            if intent in {None, each["payment_intent"]} and each["created"] >= since
        ]
        return web.json_response({"object": "list", "data": found, "has_more": False, "url": "/v1/disputes"})

    async def change(self, request: web.Request) -> web.Response:
        """One dispute per payment: opened first, then with another status."""
        asked = await request.json()
        dispute = self.disputes.setdefault(
            asked["payment_intent"],
            {
                "id": f"dp_{len(self.disputes)}_{asked['payment_intent']}",
                "object": "dispute",
                "amount": asked["amount"],
                "currency": asked["currency"],
                "created": int(time.time()),
                "reason": "fraudulent",
                "payment_intent": asked["payment_intent"],
                "livemode": True,
                "metadata": {},
                "evidence_details": {"due_by": int(time.time()) + WEEK_S, "has_evidence": False},
            },
        )
        dispute["status"] = asked["status"]
        return web.json_response(dispute)

    async def change_refund(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self._change_refund(asked["id"], asked["status"])
        return web.json_response(asked)


async def dispute_at_stripe(url: str, payment_intent: str, status: str, amount: int, currency: str = "eur") -> None:
    """Open the dispute of a payment, or give it another status: needs_response, won, lost, warning_needs_response."""
    body = {"payment_intent": payment_intent, "status": status, "amount": amount, "currency": currency}
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.post(f"{url}/_config/stand_in/disputes", json=body)


async def change_refund_at_stripe(url: str, refund_id: str, status: str) -> None:
    """Give a refund the status that the bank's answer leads to: failed, pending, succeeded."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.post(f"{url}/_config/stand_in/refunds", json={"id": refund_id, "status": status})

"""An API client for tests."""

from typing import Any
from urllib.parse import quote

import httpx


class ApiClient:
    def __init__(self, http: httpx.AsyncClient, key: str) -> None:
        self.http = http
        self.key = key

    def as_key(self, key: str) -> "ApiClient":
        return ApiClient(self.http, key)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.http.get(path, headers=self._headers(headers))

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return await self.http.post(path, json=body, headers=self._headers(headers))

    async def post_raw(self, path: str, body: bytes, content_type: str = "application/json") -> httpx.Response:
        return await self.http.post(path, content=body, headers=self._headers({"Content-Type": content_type}))

    async def estimate(self, amount: str = "1.105697", unit: str = "t") -> str:
        answer = await self.post("/v1/estimates", {"mass": {"amount": amount, "unit": unit}})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def order(self, **body: Any) -> dict[str, Any]:
        """Place an order by mass, of one tonne by default."""
        answer = await self.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}, **body})
        assert answer.status_code == 201, answer.text
        order: dict[str, Any] = answer.json()
        return order

    async def by_key(self, idempotency_key: str) -> httpx.Response:
        return await self.get(f"/v1/orders/by-idempotency-key/{quote(idempotency_key, safe='')}")

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", **{k.replace("_", "-"): v for k, v in headers.items()}}


def codes(answer: httpx.Response) -> list[str]:
    """The codes of all errors in a response. Checks that the response has the documented form."""
    body = answer.json()
    assert set(body) == {"error", "errors", "request_id"}
    assert body["error"] == body["errors"][0]
    assert all(f"/docs/errors/#{each['error_code']}" in each["documentation_url"] for each in body["errors"])
    assert body["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json"
    return [fault["error_code"] for fault in body["errors"]]


def fields(answer: httpx.Response) -> list[str | None]:
    return [fault.get("field") for fault in answer.json()["errors"]]

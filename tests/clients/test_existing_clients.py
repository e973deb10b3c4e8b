"""Requests and responses of clients that were written for comparable services."""

from tests.clients.shapes import WEBHOOK, WEBHOOKS, check
from tests.support.api_client import ApiClient

RECEIVER = "https://1.1.1.1/hook"


async def test_webhooks_are_a_plain_array(api: ApiClient) -> None:
    registered = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    check(registered, WEBHOOK)
    for query in ("", "?limit=100", "?limit=1&after=some-cursor"):
        listed = (await api.get(f"/v1/webhooks{query}")).json()
        check(listed, WEBHOOKS)
        assert [item["id"] for item in listed] == [registered["id"]], query

"""Send a receiver an event that is marked as a test and is not stored."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from tonne.channels.webhooks.delivery.outcomes import SendOutcome
from tonne.channels.webhooks.model import Webhook
from tonne.channels.webhooks.sending.sender import Sender
from tonne.channels.webhooks.sending.signing import signed_headers
from tonne.platform.events.payload import API_VERSION, message_id
from tonne.platform.http.openapi.schemas import Schemas, example_of
from tonne.platform.values.context import new_id, to_wire
from tonne.selling.orders.schemas import OrderOut


async def send_test_event(
    sender: Sender, webhook: Webhook, account_id: str, *, brand: str, signing_secrets: Sequence[str], now: datetime
) -> tuple[str, SendOutcome]:
    """The id of the event, and the outcome of the request."""
    event_id = new_id("evt")
    event = {
        "api_version": API_VERSION,
        "event_id": event_id,
        "account_id": account_id,
        "event_type": "webhook.test",
        "sequence": to_wire(now),
        "data": {"message": "This is a test of your webhook. Its order is a sample.", "order": _sample_order()},
    }
    body = msgspec.json.encode({"events": [event]})
    headers = signed_headers(
        brand,
        signing_secrets,
        webhook.organisation_id,
        body,
        timestamp=int(now.timestamp()),
        message_id=message_id([event_id]) if webhook.standard_webhooks else None,
    )
    return event_id, await sender.post(webhook.url, body, headers)


@cache
def _sample_order() -> Any:
    """The order that the API documentation shows: receivers read `data.order` of every event."""
    schemas = Schemas([OrderOut], {})
    return example_of(schemas.of(OrderOut), schemas.components)

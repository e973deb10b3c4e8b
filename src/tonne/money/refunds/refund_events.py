"""Events of refunds: requested, succeeded, failed and cancelled."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tonne.money.refunds.model import Refund, RefundState
from tonne.money.refunds.schemas import refund_out
from tonne.platform.db.database import Connection
from tonne.platform.events.optional_events import OptionalEvent, record_optional

# Without `pending`: the card gateway has accepted a refund that was reported before.
EVENT_TYPES: Mapping[RefundState, str] = {
    RefundState.APPROVAL: "refund.requested",
    RefundState.DUE: "refund.requested",
    RefundState.SUCCEEDED: "refund.succeeded",
    RefundState.FAILED: "refund.failed",
    RefundState.CANCELLED: "refund.cancelled",
}


async def record_refund(tx: Connection, refund: Refund, now: datetime) -> None:
    """Record the event of a new state."""
    event_type = EVENT_TYPES.get(refund.state)
    if event_type is not None:
        document = msgspec.json.encode(refund_out(refund))
        event = OptionalEvent(event_type, refund.order_id, document, refund.order_id)
        await record_optional(tx, [(refund.scope, event)], now)

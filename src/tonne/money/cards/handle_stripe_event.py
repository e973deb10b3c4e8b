"""Handle a verified Stripe event: look up the charge that it names, or read its refunds and disputes."""

from datetime import datetime

import structlog

from tonne.money.cards.captured_store import request_checks_any_account
from tonne.money.cards.charge_store import make_due_any_account
from tonne.money.cards.gateways.stripe_events import StripeEvent
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode

_MONEY_BACK = ("charge.dispute.", "charge.refund", "refund.")
# Disputes, refunds and reviews need a person's attention.
_NEEDS_ATTENTION = (*_MONEY_BACK, "review.")

_log = structlog.get_logger()


async def handle_stripe_event(database: Database, event: StripeEvent, now: datetime) -> bool:
    """Make the charge that the event names due, so that a worker looks it up. Returns whether a charge became due.

    Nothing else in the event is used, so handling it twice is harmless. Of a captured charge, the worker reads refunds
    and disputes.
    """
    if event.mode is not Mode.LIVE:
        # All charges at Stripe are of live orders: the webhook was created in Stripe's test mode.
        _log.warning("stripe_event_of_test_mode", event_id=event.id, event_type=event.type, charge_id=event.charge_id)
        return False
    made_due = False
    if event.charge_id is not None and "\x00" not in event.charge_id:
        made_due = await database.run(make_due_any_account, event.charge_id, "stripe", now)
    if event.reference is not None and "\x00" not in event.reference and event.type.startswith(_MONEY_BACK):
        async with database.connection() as connection:
            made_due |= await request_checks_any_account(connection, "stripe", [event.reference], now) > 0
    log = _log.warning if event.type.startswith(_NEEDS_ATTENTION) else _log.info
    log(
        "stripe_event",
        event_id=event.id,
        event_type=event.type,
        charge_id=event.charge_id,
        reference=event.reference,
        made_due=made_due,
    )
    return made_due

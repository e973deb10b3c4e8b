"""Stripe says that something has happened: a reason to ask it, and no more than that."""

from datetime import datetime

import structlog

from tonne.cards.store import make_due_any_account
from tonne.db.pool import Database
from tonne.gateways.stripe_events import StripeEvent

# Somebody has asked for money back, or it did not arrive there: for a person to look at.
_FOR_PEOPLE = ("charge.dispute.", "charge.refund", "refund.", "review.")

_log = structlog.get_logger()


async def handle_stripe_event(database: Database, event: StripeEvent, now: datetime) -> bool:
    """Make the charge that a verified event names due now: the next look asks the gateway. True when one became due.

    Nothing else in the event is believed, and hearing it twice does no harm.
    """
    made_due = False
    if event.charge_id is not None and "\x00" not in event.charge_id:
        async with database.connection() as connection:
            made_due = await make_due_any_account(connection, event.charge_id, "stripe", now)
    log = _log.warning if event.type.startswith(_FOR_PEOPLE) else _log.info
    log(
        "stripe_event",
        event_id=event.id,
        event_type=event.type,
        charge_id=event.charge_id,
        reference=event.reference,
        made_due=made_due,
    )
    return made_due

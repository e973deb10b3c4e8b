"""Store, show and remove the card of an account. Tonne keeps the gateway's ids and display data, never card numbers.

Cards of closed accounts are removed, here and at the gateway, once no order needs them any more.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

import structlog
from msgspec import Struct

from tonne.money.cards.errors import CardGatewayUnavailable, CardNotStored, CardUnknown, StripeNotConfigured
from tonne.money.cards.gateways.card import CardDetails, CardGateway, CardNotDescribed, CardNotFound, StoredCard
from tonne.money.cards.gateways.metered_gateway import GATEWAY_OF
from tonne.money.cards.invoice_charge_store import make_declined_invoices_due, make_uncharged_invoices_due
from tonne.money.cards.stored_cards import stored_card_store
from tonne.money.cards.stored_cards.card_problem_store import list_declined, list_to_confirm, make_confirmations_due
from tonne.platform.db.batches import RowJob
from tonne.platform.db.database import Connection, optional, scope_of, value_of
from tonne.platform.events.audit import record as audit
from tonne.platform.events.audit.record import record
from tonne.platform.values.context import By, Mode, Scope, job_actor, new_id
from tonne.selling.accounts.limit_store import find_limits
from tonne.selling.accounts.store import lock_account
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import lock_orders, schedule_payment

ACTOR = job_actor("remove_closed_cards")
LEASE = timedelta(minutes=2)
# Between two looks while orders still need the card, and after a failure.
RETRY_AFTER = timedelta(hours=1)

_log = structlog.get_logger()


class ClosedCard(Struct, frozen=True):
    scope: Scope
    gateway: str
    card: StoredCard
    is_needed: bool


SET_REMOVAL = "UPDATE account_cards SET removal_at = $2 WHERE account_id = $1"


async def schedule_removal(tx: Connection, scope: Scope, at: datetime | None) -> None:
    """When the account is closed; None when it is open again."""
    await tx.execute(SET_REMOVAL, scope.account_id, at)
    if at is not None:
        await make_uncharged_invoices_due(tx, scope, at)


# An order needs the card as long as it may be charged.
CLAIM_CLOSED_CARD = """
UPDATE account_cards card SET removal_at = $1::timestamptz + $2::interval
WHERE card.account_id = (SELECT account_id FROM account_cards WHERE removal_at <= $1
                         ORDER BY removal_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING card.organisation_id, card.account_id, card.mode, card.gateway, card.customer, card.method, EXISTS (
    SELECT FROM orders WHERE orders.account_id = card.account_id AND orders.payment_method = 'card'
      AND orders.offset_link_id IS NULL AND orders.payment_state = 'unpaid'
      AND orders.status NOT IN ('cancelled', 'failed')) AS is_needed
"""


async def claim_closed_card(tx: Connection, now: datetime) -> ClosedCard | None:
    row = await tx.fetchrow(CLAIM_CLOSED_CARD, now, LEASE)
    if row is None:
        return None
    return value_of(ClosedCard, row, scope=scope_of(row), card=value_of(StoredCard, row))


# Not if the account was opened again, or the card was replaced.
DELETE_CLOSED_CARD = """
DELETE FROM account_cards WHERE account_id = $1 AND method = $2 AND removal_at IS NOT NULL RETURNING last_four
"""


async def delete_closed_card(tx: Connection, scope: Scope, method: str) -> str | None:
    return optional(str, await tx.fetchval(DELETE_CLOSED_CARD, scope.account_id, method))


POSTPONE_REMOVAL = "UPDATE account_cards SET removal_at = $2 WHERE account_id = $1 AND removal_at IS NOT NULL"


async def postpone_removal(tx: Connection, scope: Scope, until: datetime) -> None:
    await tx.execute(POSTPONE_REMOVAL, scope.account_id, until)


class RemoveClosedCards(RowJob, frozen=True):
    """A worker job."""

    EVERY_S: ClassVar[int] = 2

    gateways: Mapping[str, CardGateway]

    async def run_once(self) -> bool:
        """Process one card; false if none is due."""
        now = self.clock()
        due = await self.database.commit(claim_closed_card, now)
        if due is None:
            return False
        if due.is_needed or not await self._forget(due):
            await self.database.commit(postpone_removal, due.scope, now + RETRY_AFTER)
            return True
        async with self.database.transaction() as tx:
            await lock_account(tx, due.scope)
            last_four = await delete_closed_card(tx, due.scope, due.card.method)
            if last_four is not None:
                reason = "account closed"
                await record(tx, due.scope, "card.removed", by=ACTOR.at(now), last_four=last_four, reason=reason)
        return True

    async def _forget(self, due: ClosedCard) -> bool:
        gateway = self.gateways.get(due.gateway)
        if gateway is None:
            _log.warning("card_not_removed", account_id=due.scope.account_id, reason="the gateway is not set up")
            return False
        try:
            await gateway.forget(due.card)
        except CardNotFound:
            # Removed already, perhaps by an earlier attempt.
            return True
        except CardNotDescribed as error:
            _log.warning("card_not_removed", account_id=due.scope.account_id, reason=str(error))
            return False
        return True


async def charge_again(tx: Connection, scope: Scope, now: datetime) -> int:
    """Make them due, and return how many. Charges that wait for a confirmation of the old card end first."""
    declined = [
        OrderKey(scope.account_id, order.id) for order in await list_declined(tx, scope) if order.invoice is None
    ]
    to_confirm = [OrderKey(scope.account_id, order.id) for order in await list_to_confirm(tx, scope, now)]
    # All in one statement: two transactions that lock orders one after the other could deadlock.
    orders = await lock_orders(tx, [*declined, *to_confirm])
    if declined:
        await schedule_payment(tx, {key: orders[key.id].due_at(now) for key in declined})
    if to_confirm:
        await make_confirmations_due(tx, scope, now)
    return len(orders) + await make_declined_invoices_due(tx, scope, now)


async def set_card(
    connection: Connection,
    scope: Scope,
    gateways: Mapping[str, CardGateway],
    *,
    customer: str | None,
    method: str,
    by: By,
) -> CardDetails:
    """Ask the gateway about a card and store it. Declined orders and invoices are charged again at once.

    Call it outside of a transaction: the gateway may be slow.
    """
    card = await describe_card(gateways, scope.mode, customer, method)
    async with connection.transaction():
        await store_card(connection, scope, card, by=by)
        await charge_again(connection, scope, by.at)
    return card


async def describe_card(
    gateways: Mapping[str, CardGateway], mode: Mode, customer: str | None, method: str
) -> CardDetails:
    """Ask the gateway of that mode about a card. Network call: do not hold a transaction open."""
    if mode is Mode.TEST:
        customer = customer or new_id("cus")
    elif method.replace(" ", "").replace("-", "").isdigit():
        # The message does not repeat the text: a card number must not reach a terminal log.
        raise CardUnknown("Pass the id of the payment method at Stripe (pm_…), not a card number.")
    elif customer is None:
        raise CardUnknown("Pass the Stripe customer (cus_…) of the card with --customer.")
    gateway = gateways.get(GATEWAY_OF[mode])
    if gateway is None:
        raise StripeNotConfigured
    try:
        return await gateway.describe(StoredCard(customer, method))
    except CardNotFound as error:
        raise CardUnknown(str(error)) from error
    except CardNotDescribed as error:
        raise CardGatewayUnavailable(f"The card gateway cannot be reached: {error}") from error


async def store_card(tx: Connection, scope: Scope, card: CardDetails, *, by: By) -> None:
    """Replaces the stored card. A charge in progress keeps the old one.

    A payer may enter a card for the open orders of a closed account: it is removed once no order needs it.
    """
    # Serialises changes of the card: there may be no row to lock yet.
    await lock_account(tx, scope)
    old = await stored_card_store.find_card(tx, scope)
    await stored_card_store.store_card(tx, scope, card, gateway=GATEWAY_OF[scope.mode], now=by.at)
    limits = await find_limits(tx, scope)
    if limits.closed_at is not None or limits.organisation_closed_at is not None:
        await schedule_removal(tx, scope, by.at)
    await _record(tx, scope, "card.stored", old, card, by=by)


async def require_card(connection: Connection, scope: Scope) -> CardDetails:
    card = await stored_card_store.find_card(connection, scope)
    if card is None:
        raise CardNotStored
    return card


async def remove_card(tx: Connection, scope: Scope, *, by: By) -> None:
    """Orders that fall due afterwards fail. The gateway keeps its own copy of the card."""
    await lock_account(tx, scope)
    old = await require_card(tx, scope)
    await stored_card_store.remove_card(tx, scope)
    await _record(tx, scope, "card.removed", old, None, by=by)


async def _record(
    tx: Connection,
    scope: Scope,
    action: str,
    before: CardDetails | None,
    after: CardDetails | None,
    *,
    by: By,
) -> None:
    old, new = _audited_values(before), _audited_values(after)
    await audit.record(tx, scope, action, by=by, before=old, after=new)


def _audited_values(card: CardDetails | None) -> audit.Values | None:
    if card is None:
        return None
    values = {"brand": card.brand, "last_four": card.last_four, "expires": card.expires}
    # Two cards may have the same last four digits. In test mode, the method is the number of the card.
    return values if card.method.isdigit() else {**values, "method": card.method}

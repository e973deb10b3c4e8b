"""Remove the stored cards of closed accounts, here and at the gateway, once no order needs them any more."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

import structlog
from msgspec import Struct

from tonne.money.cards.gateways.card import CardGateway, CardNotDescribed, CardNotFound, StoredCard
from tonne.platform.db.database import Connection, Database, scope_of, value_of
from tonne.platform.events.audit.record import record
from tonne.platform.values.context import Clock, Scope, job_actor
from tonne.selling.accounts.store import lock_account

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
    last_four: str | None = await tx.fetchval(DELETE_CLOSED_CARD, scope.account_id, method)
    return last_four


POSTPONE_REMOVAL = "UPDATE account_cards SET removal_at = $2 WHERE account_id = $1 AND removal_at IS NOT NULL"


async def postpone_removal(tx: Connection, scope: Scope, until: datetime) -> None:
    await tx.execute(POSTPONE_REMOVAL, scope.account_id, until)


class RemoveClosedCards(Struct, frozen=True):
    """A worker job."""

    EVERY_S: ClassVar[int] = 2

    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock

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
                await record(tx, due.scope, "card.removed", actor=ACTOR, at=now, last_four=last_four, reason=reason)
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

"""Mail payers about refunds that were made, however they were made: at our request, by bank, or at the gateway."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.money.receipts.compose import REFUNDED_TO_BANK, REFUNDED_TO_CARD, enqueue_refund_mail
from tonne.money.refunds.model import RefundMethod, RefundPurpose
from tonne.platform.db.batches import RETRY_AFTER, run_claimed
from tonne.platform.db.columns import columns
from tonne.platform.db.pool import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.clock import Clock
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import OrderKey

BATCH = 50
_RETURNED = {RefundMethod.CARD: REFUNDED_TO_CARD, RefundMethod.BANK: REFUNDED_TO_BANK}


class UnmailedRefund(NamedTuple):
    account_id: str
    id: str
    order_id: str
    amount_minor: int
    method: RefundMethod
    purpose: RefundPurpose
    reason: str

    @property
    def reason_for_payer(self) -> str | None:
        """The reason of a refund that nobody asked for is a technical one."""
        return self.reason if self.purpose in {RefundPurpose.CANCELLATION, RefundPurpose.GOODWILL} else None


CLAIM_UNMAILED = """
SELECT account_id, id, order_id, amount_minor, method, purpose, reason FROM refunds
WHERE next_mail_at <= $1 AND state = 'succeeded' ORDER BY next_mail_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
SET_MAILED = """
UPDATE refunds SET next_mail_at = $3 FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
WHERE refunds.account_id = wanted.account_id AND refunds.id = wanted.id
"""


class MailRefunds:
    """A job of the worker. Enqueuing the mail and recording it commit together, so each refund is mailed once."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """Mail a batch; false when none is due."""
        return await run_claimed(
            self._database,
            self._claim_any_account,
            self._mail,
            lambda tx, refunds: self._schedule_any_account(tx, refunds, self._clock() + RETRY_AFTER),
            limit=BATCH,
            failure_event="refund_not_mailed",
            describe=lambda refund: {"refund_id": refund.id},
        )

    async def _claim_any_account(self, tx: Connection, limit: int) -> list[UnmailedRefund]:
        rows = await tx.fetch(CLAIM_UNMAILED, self._clock(), limit)
        return [
            UnmailedRefund(
                row["account_id"],
                row["id"],
                row["order_id"],
                row["amount_minor"],
                RefundMethod(row["method"]),
                RefundPurpose(row["purpose"]),
                row["reason"],
            )
            for row in rows
        ]

    async def _mail(self, tx: Connection, refunds: Sequence[UnmailedRefund]) -> None:
        for refund in refunds:
            [order] = await load_orders(tx, [OrderKey(refund.account_id, refund.order_id)])
            await enqueue_refund_mail(
                tx,
                order,
                refund.amount_minor,
                settings=self._settings,
                now=self._clock(),
                reason=refund.reason_for_payer,
                returned=_RETURNED[refund.method],
            )
        await self._schedule_any_account(tx, refunds, None)

    async def _schedule_any_account(
        self, tx: Connection, refunds: Sequence[UnmailedRefund], at: datetime | None
    ) -> None:
        """None: it is mailed."""
        await tx.execute(SET_MAILED, *columns(refunds, "account_id, id"), at)

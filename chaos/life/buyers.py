"""An organisation whose orders advance by themselves, and the final status that each must reach."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

import asyncpg

from chaos.cluster import Cluster
from chaos.model import Organisation, Payment, Refused
from tonne.money.invoices.credit_notes.issue_credit_note import LEASE as CREDIT_NOTE_LEASE
from tonne.money.invoices.follow_up_invoices import LEASE as INVOICE_LEASE
from tonne.money.invoices.issuing.issue_invoices import LEASE as GROUP_LEASE
from tonne.money.invoices.originals.render_documents import LEASE as RENDER_LEASE
from tonne.money.receipts.mail_orders import LEASE as ORDER_MAIL_LEASE
from tonne.platform.documents.mail.send_outbox import LEASE as MAIL_LEASE
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.accounts.store import add_admin
from tonne.supply.registries.retire_units import LEASE as REGISTRY_LEASE
from tonne.supply.registries.rules import RESEND_AFTER


class Way(Enum):
    """A way to pay: the card number, if any, and the final status of an order that is not cancelled in time."""

    INVOICE = (None, "complete")
    GOOD = ("4242424242424242", "complete")
    # Advanced only by the test helpers.
    HELPED = ("4242424242424242", "complete", False)
    REFUSED = ("4000000000000002", "failed")
    NO_MONEY = ("4000000000009995", "failed")
    DECLINED_TWICE = ("4000000000000341", "complete")
    NEEDS_AUTHENTICATION = ("4000002500003155", "failed")
    # The payer confirms each charge.
    CONFIRMED = ("4000002760003184", "complete")
    ANSWER_LOST = ("4000000000000259", "complete")
    REQUEST_LOST = ("4000000000000267", "cancelled")
    REFUND_PENDS = ("4000000000007726", "complete")
    REFUND_FAILS_TWICE = ("4000000000005126", "complete")

    def __init__(self, card: str | None, final_status: str, auto_advance: bool = True) -> None:
        self.payment = Payment(card, auto_advance)
        self.final_status = final_status


@dataclass(frozen=True, slots=True)
class Buyers:
    """`scopes` has an account for each way to pay."""

    cluster: Cluster
    organisation: Organisation
    scopes: Mapping[Way, Scope]

    async def order(self, ways: Sequence[Way]) -> list[str]:
        """Place one order over HTTP for each of these ways to pay. Returns their ids."""
        order_ids = await self.cluster.place_for(self.organisation, [self.scopes[way] for way in ways])
        for order_id, way in zip(order_ids, ways, strict=True):
            self.cluster.final_statuses[order_id] = way.final_status
        return order_ids

    async def order_some(self, ways: Sequence[Way], count: int) -> list[str]:
        """Orders whose way to pay is chosen at random."""
        return await self.order([self.cluster.rng.choice(ways) for _ in range(count)])

    async def cancel(self, order_id: str, way: Way, *, refund: bool = False) -> bool:
        """Over HTTP. False if the payment came first or, with a refund, the allocation."""
        try:
            await self.post(f"/v1/orders/{order_id}/cancel", way, {"reason": "chaos", "refund": refund})
        except Refused as refused:
            if refused.status != 409:
                raise
            return False
        self.cluster.final_statuses[order_id] = "cancelled"
        return True

    async def help(self, order_id: str, *verbs: str) -> None:
        for verb in verbs:
            await self.post(f"/v1/test-helpers/orders/{order_id}/{verb}", Way.HELPED)

    async def post(self, path: str, way: Way, body: object = None) -> dict[str, Any]:
        account_id = self.scopes[way].account_id
        return await self.cluster.call(self.organisation, "POST", path, body, account_id=account_id)

    async def until_complete(self, order_ids: Sequence[str]) -> None:
        await self.cluster.until_true(f"{len(order_ids)} orders are complete", COMPLETE, order_ids)

    async def until_finished(self, within_s: float = 30.0) -> None:
        """All orders have a final status, all charges, refunds and mails are done, and all events have arrived."""
        async with short_leases(self.cluster):
            await self.cluster.until_empty("every order was finished", UNFINISHED, within_s)
        await self.cluster.until_delivered()


async def open_buyers(cluster: Cluster, ways: Sequence[Way], receiver: str = "receiver") -> Buyers:
    """With an administrator who gets the mail, and a receiver of this name that gets every event."""
    organisation = await cluster.open_organisation([way.payment for way in ways])
    async with cluster.connection() as tx, tx.transaction():
        await add_admin(tx, organisation.id, "admin@buyer.example", utc_now())
    await cluster.register(organisation, await cluster.receiver(receiver))
    return Buyers(cluster, organisation, dict(zip(ways, organisation.scopes, strict=True)))


UNFINISHED = """
SELECT format('order %s is %s', id, status) AS what FROM orders WHERE status NOT IN ('complete', 'failed', 'cancelled')
UNION ALL
SELECT format('charge %s of order %s is %s, last outcome: %s', id, order_id, status, coalesce(outcome, 'none'))
FROM charges WHERE status IN ('pending', 'refund_due')
UNION ALL
SELECT format('refund %s of order %s is %s: %s', id, order_id, state, coalesce(message, 'no message'))
FROM refunds WHERE state IN ('due', 'pending')
UNION ALL
SELECT format('mail %s was not sent: %s', id, coalesce(last_error, 'not tried')) FROM mails WHERE sent_at IS NULL
UNION ALL
SELECT format('the %s of order %s was not composed', kind, order_id) FROM order_mails
"""


COMPLETE = "SELECT count(*) = cardinality($1::text[]) FROM orders WHERE id = ANY ($1) AND status = 'complete'"
SHORTEN_INVOICE_LEASES = """
UPDATE invoices SET next_attempt_at = clock_timestamp()
WHERE status = 'open' AND next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
SHORTEN_MAIL_LEASES = """
UPDATE mails SET next_attempt_at = clock_timestamp()
WHERE sent_at IS NULL AND next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
SHORTEN_ORDER_MAIL_LEASES = """
UPDATE order_mails SET due_at = clock_timestamp()
WHERE due_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
SHORTEN_GROUP_LEASES = """
UPDATE billing_groups SET next_attempt_at = clock_timestamp()
WHERE next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
# A batch of files takes longer than one of other rows.
RENDERED_WITHIN = timedelta(seconds=60)
SHORTEN_RENDER_LEASES = """
UPDATE unrendered_documents SET next_attempt_at = clock_timestamp()
WHERE next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
SHORTEN_CREDIT_NOTE_LEASES = """
UPDATE credit_notes SET next_attempt_at = clock_timestamp()
WHERE next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""


# A request that a killed worker did not send is repeated after ten minutes. What waits for longer than the lease has
# failed several times.
SHORTEN_REGISTRY_LEASES = """
UPDATE registry_instructions SET next_attempt_at = clock_timestamp(), sent_at = sent_at - $3::interval
WHERE id IN (SELECT id FROM registry_instructions
             WHERE next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
                OR next_attempt_at > clock_timestamp() + $2::interval
             FOR UPDATE SKIP LOCKED)
"""


@contextlib.asynccontextmanager
async def short_leases(cluster: Cluster, lease_s: float = 3.0) -> AsyncIterator[None]:
    """Leases of invoices, billing, mails and registries expire after this time, not minutes. No setting does that.

    If the worker still runs, two workers have the same task: the promises hold nevertheless.
    """
    shorter = timedelta(seconds=lease_s)

    async def shorten() -> None:
        while True:
            # Errors are expected while PostgreSQL is stopped.
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with cluster.connection() as connection:
                    await connection.execute(SHORTEN_INVOICE_LEASES, INVOICE_LEASE - shorter)
                    await connection.execute(SHORTEN_MAIL_LEASES, MAIL_LEASE - shorter)
                    await connection.execute(SHORTEN_ORDER_MAIL_LEASES, ORDER_MAIL_LEASE - shorter)
                    await connection.execute(SHORTEN_GROUP_LEASES, GROUP_LEASE - shorter)
                    await connection.execute(SHORTEN_CREDIT_NOTE_LEASES, CREDIT_NOTE_LEASE - shorter)
                    await connection.execute(SHORTEN_RENDER_LEASES, RENDER_LEASE - RENDERED_WITHIN)
                    await connection.execute(
                        SHORTEN_REGISTRY_LEASES, REGISTRY_LEASE - shorter, REGISTRY_LEASE + shorter, RESEND_AFTER
                    )
            await asyncio.sleep(0.25)

    task = asyncio.create_task(shorten())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

"""An organisation whose orders go on by themselves, and where each of them has to end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from chaos.scene import Organisation, Refused, Scene, Trouble
from tonne.accounts.api_keys import issue_key
from tonne.accounts.model import Account, AccountKind, PaymentMethod
from tonne.accounts.open_account import open_account
from tonne.accounts.open_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.accounts.store import add_admin
from tonne.base.clock import utc_now
from tonne.base.ids import new_id
from tonne.base.scope import Mode, Scope
from tonne.cards.stored_cards import store_card
from tonne.gateways.card import CardDetails
from tonne.gateways.outbox import LEASE as MAIL_LEASE
from tonne.invoices.chase_invoices import LEASE as INVOICE_LEASE

INVOICE = "invoice"
# By a good card, and only as far as the test helpers say.
HELPED = "helped"
GOOD = "4242424242424242"
REFUSED = "4000000000000002"
NO_MONEY = "4000000000009995"
DECLINED_TWICE = "4000000000000341"
NEEDS_AUTHENTICATION = "4000002500003155"
ANSWER_LOST = "4000000000000259"
REQUEST_LOST = "4000000000000267"

# Where an order ends that is paid in this way. One that is cancelled in time ends there, whatever its card.
ENDS: Mapping[str, str] = {
    INVOICE: "complete",
    HELPED: "complete",
    GOOD: "complete",
    REFUSED: "failed",
    NO_MONEY: "failed",
    DECLINED_TWICE: "complete",
    NEEDS_AUTHENTICATION: "failed",
    ANSWER_LOST: "complete",
    REQUEST_LOST: "cancelled",
}
ADMIN = "admin@buyer.example"


@dataclass(frozen=True, slots=True)
class Buyers:
    """`scopes`: an account for each way to pay: a card number, `INVOICE` or `HELPED`."""

    scene: Scene
    organisation: Organisation
    scopes: Mapping[str, Scope]

    async def order(self, ways: Sequence[str], at_once: int = 6) -> list[str]:
        """One order for each of these ways to pay, over HTTP; their ids."""
        gate = asyncio.Semaphore(at_once)

        async def order_one(way: str) -> str:
            async with gate:
                order_id = await self.scene.place_one(self.organisation, self.scopes[way], new_id("key"))
            self.scene.ends[order_id] = ENDS[way]
            return order_id

        return await asyncio.gather(*map(order_one, ways))

    async def cancel(self, order_id: str, way: str) -> bool:
        """Over HTTP; false when the payment was there first."""
        account_id = self.scopes[way].account_id
        try:
            await self.scene.call(
                self.organisation, "POST", f"/v1/orders/{order_id}/cancel", {"reason": "chaos"}, account_id=account_id
            )
        except Refused as refused:
            if refused.status != 409:
                raise
            return False
        self.scene.ends[order_id] = "cancelled"
        return True

    async def help(self, order_id: str, *verbs: str) -> None:
        for verb in verbs:
            path = f"/v1/test-helpers/orders/{order_id}/{verb}"
            await self.scene.call(self.organisation, "POST", path, account_id=self.scopes[HELPED].account_id)


async def open_buyers(scene: Scene, ways: Sequence[str]) -> Buyers:
    """With somebody who gets the mail, and a receiver that gets every event."""
    now = utc_now()
    async with scene.connection() as tx, tx.transaction():
        opened = await open_organisation(tx, new_id("name"), DEFAULT_FEE_RATE, actor="chaos", now=now)
        await add_admin(tx, opened.id, ADMIN, now)
        scopes = {way: Scope(opened.id, new_id("acc"), Mode.TEST) for way in ways}
        for way, scope in scopes.items():
            kind = AccountKind.CLIENT_ACCOUNT if way != ways[0] else AccountKind.ACCOUNT
            method = PaymentMethod.INVOICE if way == INVOICE else PaymentMethod.CARD
            account = Account(scope, kind, "Chaos", "EUR", "Chaos", method, now, auto_advance=way != HELPED)
            await open_account(tx, account, actor="chaos")
            if way != INVOICE:
                number = GOOD if way == HELPED else way
                card = CardDetails(new_id("cus"), number, "visa", number[-4:], "2049-12")
                await store_card(tx, scope, card, actor="chaos", now=now)
        _, key = await issue_key(tx, scopes[ways[0]], "chaos", actor="chaos", now=now)
    organisation = Organisation(opened.id, key, list(scopes.values()))
    await scene.register(organisation, await scene.receiver("receiver"))
    return Buyers(scene, organisation, scopes)


UNFINISHED = """
SELECT format('order %s is %s', id, status) AS what FROM orders WHERE status NOT IN ('complete', 'failed', 'cancelled')
UNION ALL
SELECT format('charge %s of order %s is %s, last heard: %s', id, order_id, status, coalesce(outcome, 'nothing'))
FROM charges WHERE status IN ('pending', 'refund_due')
UNION ALL
SELECT format('mail %s was not sent: %s', id, coalesce(last_error, 'not tried')) FROM mails WHERE sent_at IS NULL
"""


async def until_ended(scene: Scene, within_s: float) -> None:
    """Every order has come to its end, all money and mail is where it belongs, and every event has arrived."""

    async def nothing_is_left() -> bool:
        return not await scene.fetch(UNFINISHED)

    try:
        await scene.until(nothing_is_left, "every order has ended", within_s, every_s=0.1)
    except Trouble as trouble:
        left = [row["what"] for row in await scene.fetch(UNFINISHED)]
        raise Trouble(f"{trouble}: {len(left)} things are left, such as {'; '.join(left[:4])}") from trouble
    await scene.until_delivered(20)


SHORTEN_INVOICE_LEASES = """
UPDATE invoices SET next_attempt_at = clock_timestamp()
WHERE status = 'open' AND next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""
SHORTEN_MAIL_LEASES = """
UPDATE mails SET next_attempt_at = clock_timestamp()
WHERE sent_at IS NULL AND next_attempt_at BETWEEN clock_timestamp() AND clock_timestamp() + $1::interval
"""


@contextlib.asynccontextmanager
async def short_leases(scene: Scene, lease_s: float = 3.0) -> AsyncIterator[None]:
    """What a worker has claimed of invoices and mails is free again after so long, instead of two minutes.

    No setting shortens these. Should a worker still be at it, then two are: the promises hold all the same.
    """
    shorter = timedelta(seconds=lease_s)

    async def shorten() -> None:
        while True:
            # While PostgreSQL is away, there is nothing to shorten.
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await scene.fetch(SHORTEN_INVOICE_LEASES, INVOICE_LEASE - shorter)
                await scene.fetch(SHORTEN_MAIL_LEASES, MAIL_LEASE - shorter)
            await asyncio.sleep(0.25)

    task = asyncio.create_task(shorten())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


WAITING_IN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tonne' AND wait_event_type = 'Lock' AND query LIKE $1
"""


async def until_waiting_in(scene: Scene, statement: str, within_s: float = 20.0) -> None:
    """A worker has come to this statement, and waits there for a lock that we hold."""

    async def waits() -> bool:
        return bool((await scene.fetch(WAITING_IN, f"%{statement}%"))[0][0])

    await scene.until(waits, f"a worker waits in {statement}", within_s, every_s=0.02)


async def until_none_waits_in(scene: Scene, statement: str, within_s: float = 20.0) -> None:
    async def none_waits() -> bool:
        return not (await scene.fetch(WAITING_IN, f"%{statement}%"))[0][0]

    await scene.until(none_waits, f"nobody waits in {statement} any more", within_s, every_s=0.02)

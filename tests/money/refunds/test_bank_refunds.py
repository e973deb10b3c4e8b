"""Refunds by bank: never more than was paid, and repeated if the money comes back."""

from typing import Any

import msgspec
import pytest

from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import ADA as ADMIN
from tests.money.invoices.billing import Billing
from tests.money.invoices.test_transfers import DAY, bill, import_file, open_returns
from tests.money.refunds.refund_scene import ADA
from tests.support.clock import MARCH, ManualClock
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.money.bank.return_transfer import confirm_return
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.refunds.approve_refund import settle_refund
from tonne.money.refunds.bank_refunds import SettleBankRefunds, fail_refund_return
from tonne.money.refunds.errors import RefundNotSettleable
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.model import Order

TOTAL = 1395


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
async def billing(populated_db: Database, settings: Settings, world: World) -> Billing:
    clock = ManualClock(MARCH)
    billing = Billing(Services(populated_db, settings, clock), clock)
    await billing.add_admins(world.ours_live.scope.organisation_id, ADMIN)
    return billing


async def _cancel(billing: Billing, order: Order) -> None:
    async with billing.database.transaction() as tx:
        how = Cancellation(reason="No supply", with_refund=True)
        await cancel_by_id(tx, order.scope, order.id, how, settings=billing.settings, by=ADA.at(billing.clock.now))


async def _refunds(billing: Billing) -> list[tuple[str, int]]:
    rows = await billing.fetch("SELECT state, amount_minor FROM refunds ORDER BY created_at, attempt")
    return [(row["state"], row["amount_minor"]) for row in rows]


async def _settle(billing: Billing) -> None:
    billing.clock.advance(minutes=11)
    await SettleBankRefunds(billing.database, billing.clock).run_once()


async def _confirm(billing: Billing) -> str:
    [planned] = await open_returns(billing)
    facts: dict[str, Any] = {"settings": billing.settings, "by": ADA.at(billing.clock.now)}
    async with billing.database.transaction() as tx:
        await confirm_return(tx, planned.id, "Seen at the bank", **facts)
    return planned.id


async def test_what_a_correction_took_off_the_invoice_is_not_refunded(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    facts: dict[str, Any] = {"reason": "Agreed", "by": ADA.at(billing.clock.now)}
    async with billing.database.transaction() as tx:
        await correct_invoice(tx, await billing.invoice(order), None, 200, **facts)
    await import_file(billing, camt_file([Line(DAY, TOTAL - 200, "TN-LIVE-000001", reference="R1")]))
    assert await billing.status(order) == "paid"
    await _cancel(billing, order)
    assert await _refunds(billing) == [("due", TOTAL - 200)]
    assert [each.amount_minor for each in await open_returns(billing)] == [TOTAL - 200]
    await _confirm(billing)
    await _settle(billing)
    assert await billing.fetchval("SELECT payment_state FROM orders") == "refunded"
    await billing.check_invariants()


async def test_a_refund_whose_return_comes_back_is_repeated(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    await import_file(billing, camt_file([Line(DAY, TOTAL, "TN-LIVE-000001", reference="R1")]))
    await _cancel(billing, order)
    sent = await _confirm(billing)
    await _settle(billing)
    assert await _refunds(billing) == [("succeeded", TOTAL)]
    async with billing.database.transaction() as tx:
        await fail_refund_return(tx, sent, "The account is closed", by=ADA.at(billing.clock.now))
    await _settle(billing)
    assert await _refunds(billing) == [("failed", TOTAL), ("due", TOTAL)]
    assert await billing.fetchval("SELECT refunded_minor FROM orders") == 0
    assert await billing.fetchval("SELECT payment_state FROM orders") == "paid"
    await billing.check_invariants()
    await _confirm(billing)
    await _settle(billing)
    assert await _refunds(billing) == [("failed", TOTAL), ("succeeded", TOTAL)]
    await billing.check_invariants()


async def test_a_refund_whose_return_may_be_made_is_not_settled_by_hand(billing: Billing, world: World) -> None:
    """Otherwise the money could go back twice."""
    [order] = await bill(billing, world)
    await import_file(billing, camt_file([Line(DAY, TOTAL, "TN-LIVE-000001", reference="R1")]))
    await _cancel(billing, order)
    sent = await _confirm(billing)
    await _settle(billing)
    async with billing.database.transaction() as tx:
        await fail_refund_return(tx, sent, "The account is closed", by=ADA.at(billing.clock.now))
    await _settle(billing)
    [planned] = await open_returns(billing)
    repeated = str(await billing.fetchval("SELECT id FROM refunds WHERE state = 'due'"))
    for confirm in (True, False):
        async with billing.database.transaction() as tx:
            with pytest.raises(RefundNotSettleable, match=f"`tonne transfer returned {planned.id}`"):
                await settle_refund(tx, repeated, "Paid in cash", by=ADA.at(billing.clock.now))
        if confirm:
            await _confirm(billing)
    await _settle(billing)
    assert await _refunds(billing) == [("failed", TOTAL), ("succeeded", TOTAL)]

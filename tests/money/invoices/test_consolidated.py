"""Consolidated invoices: tax, groups, visibility, races and settings."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.money.invoices.billing import Billing
from tests.support.api_client import codes
from tests.support.command import Operator
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.wiring.app import build_app
from tonne.money.invoices.documents.pdf import load_annex
from tonne.money.invoices.issuing.collect_orders import month_end_after
from tonne.money.invoices.issuing.issue_invoices import LEASE, IssueConsolidatedInvoices
from tonne.money.invoices.waiting import WAITING
from tonne.platform.db.database import Database
from tonne.platform.values.context import Scope, replace, utc_now
from tonne.selling.accounts.errors import BillingInvalid
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.model import Fulfil, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange, with_billing
from tonne.selling.accounts.store import find_account
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.load import load_order
from tonne.selling.orders.schemas import order_document
from tonne.selling.orders.store import find_documents

_MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


@given(st.integers(0, 80 * 366 * 86_400).map(lambda seconds: _MOMENT + timedelta(seconds=seconds)))
def test_a_month_is_billed_in_the_first_hour_of_the_next(moment: datetime) -> None:
    due = month_end_after(moment)
    assert due > moment
    assert (due.day, due.hour, due.minute) == (1, 0, 15)
    assert (due.year * 12 + due.month) - (moment.year * 12 + moment.month) == 1


async def _monthly(billing: Billing, scope: Scope) -> None:
    await billing.set_billing(scope, billing=BillingMode.MONTHLY)


async def test_tax_is_known_once_the_orders_are_billed(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    settings = msgspec.structs.replace(
        billing.settings, tax_treatment="standard", tax_rate="19", seller_country="DE", seller_vat_id="DE136695976"
    )
    billing = Billing(type(billing.services)(billing.database, settings, billing.clock), billing.clock)
    await _monthly(billing, ours)
    async with billing.database.transaction() as tx:
        await set_tax_profile(tx, ours.organisation_id, ADDRESS, by=TESTER.at(billing.clock.now))
    # The metadata is the client's own: its fields are not those of the order.
    tricky = '{"tax":null,"amount_due":null,"exact":[1.10,1e400,12345678901234567890123]}'
    orders = [await billing.place_order(ours, metadata=each) for each in ("{}", tricky, "{}")]
    assert {order.tax.tax_minor for order in orders} == {None}
    await billing.issue.run_once()
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    invoice = await billing.invoice(orders[0])
    # Three times 13.945 is 41.84, not three times 13.95; 19 % of it is 7.9496.
    assert (invoice.tax_minor, invoice.total_minor) == (795, 4979)
    async with billing.database.connection() as connection:
        found = [await load_order(connection, ours, order.id) for order in orders]
        documents = await find_documents(connection, [order.key for order in orders])
    assert sum(order.tax.tax_minor or 0 for order in found if order) == 795
    assert sorted(order.billing_adjustment_minor for order in found if order) == [-1, 0, 0]
    assert sum(order.amount_due_minor or 0 for order in found if order) == 4979
    assert documents == {order.key: order_document(order) for order in found if order}
    assert [tax.tax for tax in invoice.read_record().taxes] == ["7.95"]
    await billing.check_invariants()


FAIL_ON_LAST = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk full'; END $$;
CREATE TRIGGER fail BEFORE UPDATE OF tax_minor ON orders FOR EACH ROW WHEN (NEW.id = '%s') EXECUTE FUNCTION fail()
"""
STATE = """
SELECT (SELECT count(*) FROM unbilled_orders), (SELECT count(tax_minor) FROM orders),
       (SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'live')
"""


async def test_a_run_that_fails_halfway_leaves_nothing_and_is_repeated(
    billing: Billing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.money.invoices.issuing.issue_invoices.CHUNK", 2)
    ours = world.ours_live.scope
    await _monthly(billing, ours)
    orders = [await billing.place_order(ours) for _ in range(5)]
    await billing.work()
    billing.clock.turn_to(4, 1, 1)
    await billing.execute(FAIL_ON_LAST % orders[-1].id)
    await billing.issue_consolidated.run_once()
    assert tuple((await billing.fetch(STATE))[0]) == (5, 0, 0)
    await billing.execute("DROP TRIGGER fail ON orders")
    billing.clock.now += LEASE
    await billing.work()
    assert tuple((await billing.fetch(STATE))[0]) == (0, 5, 1)
    assert (await billing.invoice(orders[0])).order_count == 5
    await billing.check_invariants()


async def test_accounts_with_the_same_settings_share_an_invoice_and_others_do_not(
    billing: Billing, world: World
) -> None:
    ours = world.ours_live.scope
    client = replace(ours, account_id=world.ours_live.client_account_id)
    await _monthly(billing, ours)
    await billing.set_billing(client, billing=BillingMode.THRESHOLD, threshold="1000")
    first, second = await billing.place_order(ours), await billing.place_order(client)
    await billing.work()
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    assert (await billing.invoice(first)).id != (await billing.invoice(second)).id
    await _monthly(billing, client)
    third, fourth = await billing.place_order(ours), await billing.place_order(client)
    await billing.work()
    billing.clock.turn_to(5, 1, 1)
    await billing.work()
    shared = await billing.invoice(third)
    assert shared.id == (await billing.invoice(fourth)).id
    async with billing.database.connection() as connection:
        annex = await load_annex(connection, shared)
    assert [(each.name, each.amount) for each in annex] == [("account live", "13.94"), ("client_account live", "13.94")]
    await billing.check_invariants()


async def test_an_order_keeps_the_way_it_was_placed_to_be_billed(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    alone = await billing.place_order(ours)
    await _monthly(billing, ours)
    together = await billing.place_order(ours)
    await billing.set_billing(ours, billing=BillingMode.PER_ORDER)
    await billing.work()
    assert (await billing.invoice(alone)).billing == "per_order"
    assert await billing.fetchval("SELECT count(*) FROM invoices") == 1
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    assert (await billing.invoice(together)).billing == "monthly"


async def test_workers_and_cancellations_race_without_losing_an_order(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    await _monthly(billing, ours)
    orders = [await billing.place_order(ours) for _ in range(12)]
    await billing.work()
    billing.clock.turn_to(4, 1, 1)
    others = [IssueConsolidatedInvoices(billing.database, billing.clock, billing.settings) for _ in range(2)]
    await asyncio.gather(*(each.run_once() for each in others), *(billing.cancel(order) for order in orders[::3]))
    await billing.work()
    invoice = await billing.invoice(orders[1])
    # Not 8 times 13.95: each order costs 13.945.
    assert invoice.due_minor == 11156
    assert await billing.fetchval("SELECT count(*) FROM invoices") == 1
    await billing.check_invariants()


async def test_more_orders_than_an_invoice_may_have_get_several(
    billing: Billing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.money.invoices.issuing.issue_invoices.MAX_ORDERS", 2)
    ours = world.ours_live.scope
    await _monthly(billing, ours)
    for _ in range(5):
        await billing.place_order(ours)
    await billing.work()
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    rows = await billing.fetch("SELECT order_count FROM invoices ORDER BY number")
    assert [row["order_count"] for row in rows] == [2, 2, 1]
    await billing.check_invariants()


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("invoice", BillingChange(billing=BillingMode.THRESHOLD), "--billing-threshold"),
        ("invoice", BillingChange(threshold="5"), "Only"),
        ("invoice", BillingChange(billing=BillingMode.THRESHOLD, threshold="0"), "not an amount"),
        ("invoice", BillingChange(billing=BillingMode.THRESHOLD, threshold="1.001"), "not an amount"),
        ("invoice", BillingChange(fulfil=Fulfil.ON_ORDER), "--credit-limit"),
        ("card", BillingChange(fulfil=Fulfil.ON_ORDER, credit_limit="10"), "pays by card"),
        ("card", BillingChange(billing=BillingMode.THRESHOLD, threshold="0.49"), "less than 0.50 EUR"),
    ],
)
async def test_settings_that_do_not_fit_together_are_refused(
    billing: Billing, world: World, method: str, change: BillingChange, message: str
) -> None:
    async with billing.database.connection() as connection:
        account = await find_account(connection, world.ours_live.scope)
    assert account is not None
    with pytest.raises(BillingInvalid, match=message):
        with_billing(replace(account, payment_method=PaymentMethod(method)), change)


async def test_an_operator_sets_the_billing_of_an_account(billing: Billing, world: World, operator: Operator) -> None:
    account_id = world.ours_live.scope.account_id
    words = ("--billing", "threshold", "--billing-threshold", "250", "--fulfil", "on_order", "--credit-limit", "1000")
    operator.does("account", "update", account_id, *words)
    shown = operator.does("account", "show", account_id)
    for text in ("threshold", "250.00", "on_order", "1,000.00"):
        assert text in shown, shown
    entry = await billing.fetchval("SELECT after::text FROM audit_log WHERE action = 'account.updated'")
    assert '"credit_limit_minor": 100000' in entry


async def test_an_order_says_that_it_waits_for_credit(billing: Billing, world: World, operator: Operator) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY, fulfil=Fulfil.ON_ORDER, credit_limit="20.00")
    first, second = [await billing.place_order(ours) for _ in range(2)]
    await billing.work()
    assert (await billing.status(first), await billing.status(second)) == ("paid", "placed")
    shown = " ".join(operator.does("order", "show", second.id).split())
    assert "the credit limit of its account is reached" in shown
    async with billing.database.connection() as connection:
        check = next(
            each for each in WAITING if each.name == "live orders are within the credit limits of their accounts"
        )
        billing.clock.advance(minutes=1)
        [row] = await connection.fetch(check.sql, billing.clock.now)
    assert ours.account_id in row["where"]


async def test_a_client_account_does_not_see_what_others_ordered(
    billing: Billing, world: World, populated_db: Database
) -> None:
    ours = world.ours_test.scope
    client = replace(ours, account_id=world.ours_test.client_account_id)
    for scope in (ours, client):
        await billing.set_billing(scope, billing=BillingMode.MONTHLY)
    billing.clock.now = utc_now()
    orders = [await billing.place_order(scope) for scope in (ours, client)]
    await billing.work()
    async with populated_db.transaction() as tx:
        _, secret = await issue_key(tx, client, "client key", by=TESTER.at(billing.clock.now))
    transport = httpx.ASGITransport(build_app(billing.services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        path = f"/v1/orders/{orders[1].id}/invoice"
        early = await http.get(path, headers={"Authorization": f"Bearer {secret}"})
        assert "billed together" in early.text
        billing.clock.now += timedelta(days=35)
        await billing.issue_consolidated.run_once()
        refused = await http.get(path, headers={"Authorization": f"Bearer {secret}"})
        assert (refused.status_code, codes(refused)) == (404, ["invoice_not_available"])
        assert "other accounts" in refused.text

"""Ageing of debts and statements of account."""

import json
from datetime import date

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.money.invoices.billing import Billing, pdf_text
from tests.support.command import Operator
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.accounting.reports.account_statement import (
    account_statement_pdf,
    make_statements,
    print_statement,
    signed_amount,
)
from tonne.money.accounting.reports.due_buckets import list_aged_debts
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode, Tenant

HEAD = "booked_on,amount,currency,payer,reference\n"


async def _book(billing: Billing, *lines: str) -> None:
    async with billing.database.transaction() as tx:
        file = SheetFile("march.csv", (HEAD + "\n".join(lines)).encode())
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock()))


async def test_debts_are_listed_by_age_without_what_was_paid_or_credited(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    billing.settings = msgspec.structs.replace(billing.settings, invoice_cancel_days=365)
    for month in (3, 4, 5, 6):
        billing.clock.turn_to(month, 1)
        await billing.renew_rates()
        await billing.place_order(ours)
        await billing.issue.run_once()
    cancelled, paid = [await billing.place_order(ours) for _ in range(2)]
    await billing.issue.run_once()
    await billing.cancel(cancelled)
    await billing.settle(paid)
    await _book(billing, "2026-06-02,3.95,EUR,Ada,TN-LIVE-000004")
    async with billing.database.connection() as connection:
        [debt] = await list_aged_debts(connection, Mode.LIVE, date(2026, 6, 5))
        assert await list_aged_debts(connection, Mode.TEST, date(2026, 6, 5)) == []
        assert await list_aged_debts(connection, Mode.LIVE, date(2026, 6, 5), "org_other") == []
    ages = (debt.up_to_30_minor, debt.up_to_60_minor, debt.up_to_90_minor, debt.older_minor)
    assert ages == (1000, 1395, 1395, 1395)
    assert (debt.invoices, debt.total_minor, debt.overdue_minor) == (4, 5185, 4185)


async def test_a_statement_of_account_tells_a_period_and_its_balances(billing: Billing, world: World) -> None:
    ours = world.ours_live.scope
    first, second, third = [await billing.place_order(ours) for _ in range(3)]
    await billing.work()
    await _book(billing, "2026-03-20,13.95,EUR,Ada,TN-LIVE-000001")
    billing.clock.turn_to(4, 2)
    await billing.cancel(second)
    await billing.settle(third)
    fourth = await billing.place_order(ours)
    await billing.issue.run_once()
    async with billing.database.connection() as connection:
        organisation_id = ours.organisation_id
        [april] = await make_statements(
            connection, Tenant(organisation_id, Mode.LIVE), date(2026, 4, 1), date(2026, 4, 30)
        )
        [march] = await make_statements(
            connection, Tenant(organisation_id, Mode.LIVE), date(2026, 3, 1), date(2026, 3, 31)
        )
        printed = await print_statement(connection, april, organisation_id, billing.settings)
    assert (march.opening_minor, march.closing_minor, april.opening_minor) == (0, 2790, 2790)
    assert [(entry.kind, entry.amount_minor) for entry in april.entries] == [
        ("invoice", 1395),
        ("credit_note", -1395),
        ("payment", -1395),
    ]
    assert april.closing_minor == (await billing.invoice(fourth)).due_minor == 1395
    text = " ".join(pdf_text(account_statement_pdf(printed)).split())
    for part in ("Statement of account", "Opening balance", "27.90", "CN-LIVE-000001", "TN-LIVE-000004", "Closing"):
        assert part in text, part
    assert (await billing.invoice(first)).status == "paid"


async def test_an_operator_prints_both(billing: Billing, world: World, operator: Operator) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    organisation_id = world.ours_live.scope.organisation_id
    assert "13.95" in operator.does("invoice", "ageing")
    [row] = map(json.loads, operator.does("invoice", "ageing", "--json").splitlines())
    assert (row["organisation_id"], row["older"], row["currency"]) == (organisation_id, "13.95", "EUR")
    words = ("invoice", "statement", organisation_id, "--from", "2026-03-01", "--to", "2026-03-31")
    rows = [json.loads(line) for line in operator.does(*words, "--json").splitlines()]
    assert [row["kind"] for row in rows] == ["opening_balance", "invoice", "closing_balance"]
    assert rows[-1]["balance"] == "13.95"


@given(st.integers(-(10**12), 10**12))
def test_amounts_keep_their_sign(amount: int) -> None:
    text = signed_amount(amount, "EUR")
    assert round(float(text) * 100) == amount

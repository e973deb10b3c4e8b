"""Bank statements: reading, matching, and booking each line once."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.money.invoices.billing import Billing
from tests.support.world import TESTER, World, open_tenant
from tonne.money.accounting.matching.import_statement import BookedLine, import_statement
from tonne.money.invoices.reference import reference_of, references_in
from tonne.money.invoices.settle_invoice import settle_invoice
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order

HEAD = "booked_on,amount,currency,payer,reference\n"


async def book(billing: Billing, *lines: str, mode: Mode = Mode.LIVE) -> list[BookedLine]:
    content = (HEAD + "".join(f"{line}\n" for line in lines)).encode()
    async with billing.database.transaction() as tx:
        return await import_statement(
            tx,
            mode,
            SheetFile("march.csv", content),
            settings=billing.settings,
            by=TESTER.at(billing.clock.now),
        )


async def bill(billing: Billing, world: World, count: int = 1) -> list[Order]:
    """Orders of 13.95 EUR each, with the invoices TN-LIVE-000001 and following."""
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(count)]
    await billing.work()
    return orders


def outcomes(booked: list[BookedLine]) -> list[str]:
    return [each.outcome.value for each in booked]


class TestReferences:
    @pytest.mark.parametrize(
        "text",
        [
            "TN-LIVE-000123",
            "tn-live-000123",
            "Invoice TN LIVE 000123, thank you",
            "RE TNLIVE000123/2026",
            "TN – LIVE – 000 123",
            "ＴＮ－ＬＩＶＥ－０００１２３",
            "SVWZ+TN-LI VE-0001 23 KREF+99",
            "tn.live/123",
            "TN-LIVE-123 and TN-LIVE-000123",
            "TN-LIVE-000123-4711 of 5 March",
            "\tTN_LIVE:000123\t",
        ],
    )
    def test_a_reference_is_found_in_any_spelling(self, text: str) -> None:
        assert {name for place in references_in(text) for name in place if len(name) == 14} == {"TN-LIVE-000123"}

    @pytest.mark.parametrize(
        "text", ["", "TN-LIVE-", "TN-LIFE-000123", "000123", "TN-LIVE-000000", "TN-LIVE-0000123", "LIVE 123", "TN 123"]
    )
    def test_other_numbers_are_not_references(self, text: str) -> None:
        assert references_in(text) == []

    def test_ambiguous_digits_give_several_candidates(self) -> None:
        assert references_in("TN-LIVE-123456 7") == [{"TN-LIVE-123456", "TN-LIVE-1234567"}]

    def test_two_references_are_two_places(self) -> None:
        assert references_in("TN-LIVE-000001, TN-TEST-000002") == [{"TN-LIVE-000001"}, {"TN-TEST-000002"}]

    @given(
        mode=st.sampled_from(Mode),
        number=st.integers(1, 10**9),
        gaps=st.lists(st.sampled_from(["", " ", "-", " - ", "\u2013"]), min_size=30, max_size=30),
        upper=st.booleans(),
        before=st.text(alphabet="abc xyz,;+", max_size=20),
        after=st.text(alphabet="abc xyz,;+", max_size=20),
    )
    def test_any_reference_is_found_in_any_text(
        self, *, mode: Mode, number: int, gaps: list[str], upper: bool, before: str, after: str
    ) -> None:
        plain = reference_of(mode, number).replace("-", "")
        written = "".join(letter + gap for letter, gap in zip(plain, gaps, strict=False))
        text = f"{before} {written.upper() if upper else written.lower()} {after}"
        [place] = references_in(text)
        assert reference_of(mode, number) in place

    @given(st.text(max_size=200))
    def test_any_text_can_be_searched(self, text: str) -> None:
        for place in references_in(text):
            assert place


async def test_a_statement_with_one_line_of_every_kind(billing: Billing, world: World) -> None:
    orders = await bill(billing, world, 6)
    await billing.settle(orders[4])
    await book(billing, "2026-03-04,13.95,EUR,Ada,TN-LIVE-000005")
    booked = await book(
        billing,
        "2026-03-05,13.95,EUR,Ada,TN-LIVE-000001",
        "2026-03-05,20.00,EUR,Ada,invoice tn live 000002 thanks",
        "2026-03-05,13.94,EUR,Ada,TN-LIVE-000003",
        "2026-03-05,13.95,EUR,Ada,my offsets",
        "2026-03-05,13.95,EUR,Ada,TN-LIVE-000005",
        "2026-03-05,13.95,USD,Ada,TN-LIVE-000004",
        "2026-03-05,27.89,EUR,Ada,TN-LIVE-000004 TN-LIVE-000006",
        "2026-03-05,13.95,EUR,Ada,TN-LIVE-000099",
        "2026-03-05,-13.95,EUR,Ada,TN-LIVE-000004",
        "2026-03-05,13.95,EUR,Ada,TN-TEST-000001",
        "2026-03-05,13.95,EUR,Ada,TN-LIVE-000004 or TN-LIVE-000099",
    )
    assert outcomes(booked) == [
        *("matched", "overpaid", "part_payment", "unmatched", "unmatched"),
        *("unmatched", "unmatched", "unmatched", "outgoing", "unmatched", "unmatched"),
    ]
    assert [await billing.status(order) for order in orders] == ["paid", "paid", "placed", "placed", "paid", "placed"]
    messages = [each.message for each in booked]
    assert "6.05 EUR too much" in messages[1]
    assert "0.01 EUR of 13.95 EUR still missing" in messages[2]
    assert messages[4] == "the invoice is already paid: assign the money to another invoice, or return it."
    assert "in EUR" in messages[5]
    assert "TN-LIVE-000004, TN-LIVE-000006" in messages[6]
    assert "TN-LIVE-000099" in messages[7]
    rows = await billing.fetch("SELECT state, invoice_id FROM bank_transfers ORDER BY id")
    assert len(rows) == len(booked) + 1
    await billing.check_invariants()


async def test_the_same_statement_again_changes_nothing(billing: Billing, world: World) -> None:
    await bill(billing, world)
    lines = (
        "2026-03-05,13.95,EUR,Ada,TN-LIVE-000001",
        "2026-03-05,1.00,EUR,Ada,hello",
        "2026-03-05,1.00,EUR,Ada,hello",
    )
    assert outcomes(await book(billing, *lines)) == ["matched", "unmatched", "unmatched"]
    assert outcomes(await book(billing, *lines)) == ["known"] * 3
    assert outcomes(await book(billing, lines[1], "2026-03-06,13.95,EUR,Ada,TN-LIVE-000001")) == ["known", "unmatched"]
    assert len(await billing.fetch("SELECT FROM bank_transfers")) == 4
    imports = await billing.fetch("SELECT details FROM audit_log WHERE action = 'bank_statement.imported' ORDER BY id")
    assert [json.loads(row["details"])["lines"] for row in imports] == [
        {"matched": 1, "unmatched": 2},
        {"known": 1, "unmatched": 1},
    ], "the second import changed nothing"
    await billing.check_invariants()


async def test_several_transfers_together_settle_an_invoice(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    first = await book(billing, "2026-03-05,5.00,EUR,Ada,TN-LIVE-000001", "2026-03-05,5.00,EUR,Ada,TN-LIVE-000001")
    assert outcomes(first) == ["part_payment", "part_payment"]
    assert "3.95 EUR of 13.95 EUR" in first[1].message
    assert await billing.status(order) == "placed"
    last = await book(billing, "2026-03-06,4.00,EUR,Ada,TN-LIVE-000001", "2026-03-07,4.00,EUR,Ada,TN-LIVE-000001")
    assert outcomes(last) == ["overpaid", "unmatched"]
    assert "0.05 EUR too much" in last[0].message
    assert await billing.status(order) == "paid"
    states = await billing.fetch("SELECT state FROM bank_transfers ORDER BY booked_on, id")
    assert [row["state"] for row in states] == ["matched", "matched", "overpaid", "unmatched"]
    await billing.check_invariants()


async def test_one_transfer_settles_the_two_invoices_that_it_names(billing: Billing, world: World) -> None:
    orders = await bill(billing, world, 4)
    [booked] = await book(billing, "2026-03-05,27.90,EUR,Ada,TN-LIVE-000001 and TN-LIVE-000003")
    assert (booked.outcome, booked.reference) == ("matched", "TN-LIVE-000001, TN-LIVE-000003")
    assert booked.message == "TN-LIVE-000001, TN-LIVE-000003 paid."
    assert [await billing.status(order) for order in orders] == ["paid", "placed", "paid", "placed"]
    # Once more is another payment of what is paid.
    [again] = await book(billing, "2026-03-06,27.90,EUR,Ada,TN-LIVE-000001 and TN-LIVE-000003")
    assert again.outcome == "unmatched"
    await billing.check_invariants()


@pytest.mark.parametrize(
    ("currency", "exact", "less"), [("JPY", "2259", "2258"), ("KWD", "4.630", "4.629"), ("KWD", "4.63", "4.62")]
)
async def test_amounts_count_in_their_currencys_minor_units(
    billing: Billing, world: World, currency: str, exact: str, less: str
) -> None:
    async with billing.database.transaction() as tx:
        tenant = await open_tenant(tx, world.ours_live.scope.organisation_id, Mode.LIVE, currency)
        # The rates of the demo are too old for live orders.
        await tx.execute("UPDATE exchange_rates SET as_of = now()")
    for _ in range(2):
        await billing.place_order(tenant.scope)
    await billing.work()
    booked = await book(
        billing, f"2026-03-05,{less},{currency},A,TN-LIVE-000001", f"2026-03-05,{exact},{currency},A,TN-LIVE-000002"
    )
    assert outcomes(booked) == ["part_payment", "matched"]


async def test_a_statement_with_an_error_is_not_imported(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    with pytest.raises(SheetInvalid):
        await book(billing, "2026-03-05,13.95,EUR,Ada,TN-LIVE-000001", "2026-03-05,oops,EUR,Ada,TN-LIVE-000001")
    assert await billing.status(order) == "placed"
    assert await billing.fetch("SELECT FROM bank_transfers") == []


async def test_a_payment_of_a_cancelled_invoice_is_reported(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    billing.clock.turn_to(4, 3)
    await billing.work()
    billing.clock.turn_to(4, 14)
    await billing.work()
    [line] = await book(billing, "2026-04-15,13.95,EUR,Ada,TN-LIVE-000001")
    assert line.outcome.value == "unmatched"
    assert line.message == "the invoice is already cancelled: assign the money to another invoice, or return it."
    assert await billing.status(order) == "cancelled"


async def test_two_imports_of_one_statement_at_once_book_it_once(billing: Billing, world: World) -> None:
    orders = await bill(billing, world, 4)
    lines = [f"2026-03-05,13.95,EUR,Ada,TN-LIVE-{number:06}" for number in range(1, 5)]
    barrier = asyncio.Barrier(5)

    async def at_once(work: Any) -> Any:
        await barrier.wait()
        return await work

    imports = [at_once(book(billing, *lines)) for _ in range(3)]
    by_hand = [at_once(billing.settle(order)) for order in (orders[0], orders[3])]
    done = await asyncio.gather(*imports, *by_hand, return_exceptions=True)
    assert not any(isinstance(each, BaseException) for each in done[:3]), done
    assert {await billing.status(order) for order in orders} == {"paid"}
    assert len(await billing.fetch("SELECT FROM bank_transfers")) == 4
    assert len(await billing.fetch("SELECT FROM audit_log WHERE action = 'invoice.settled'")) == 4
    await billing.check_invariants()


async def test_an_invoice_settled_during_the_import_is_not_settled_again(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    async with billing.database.transaction() as tx:
        await settle_invoice(tx, await billing.invoice(order), by=TESTER.at(billing.clock.now))
        importing = asyncio.create_task(book(billing, "2026-03-05,13.95,EUR,Ada,TN-LIVE-000001"))
        await billing.until_waiting_for_lock()
    [booked] = await importing
    assert (booked.outcome.value, booked.message) == (
        "matched",
        "the invoice was settled by hand: this is its payment.",
    )
    await billing.check_invariants()


async def test_an_invoice_issued_during_the_import_is_not_known_to_it(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    lines = [f"2026-03-05,13.95,EUR,Ada,TN-LIVE-{number:06}" for number in (1, 2)]
    async with billing.database.transaction() as tx:
        await lock_order(tx, order.scope, order.id)
        importing = asyncio.create_task(book(billing, *lines))
        await billing.until_waiting_for_lock()
        await billing.place_order(world.ours_live.scope)
        await billing.run_jobs(billing.issue)
    booked = await importing
    assert outcomes(booked) == ["matched", "unmatched"]
    assert booked[1].message == "there is no invoice TN-LIVE-000002."
    await billing.check_invariants()

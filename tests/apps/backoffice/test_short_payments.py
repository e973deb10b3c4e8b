"""A transfer that is less than its invoice: the operator says what becomes of the rest."""

import pytest

from tests.apps.backoffice.statement_desk import LIVE, import_lines
from tests.apps.backoffice.test_money import DAY, billed, books, confirm, settings
from tests.money.invoices.bank import Line
from tests.money.invoices.billing import Billing
from tests.support.people import Person
from tests.support.world import World

__all__ = ["books", "settings"]


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ("", ("which is then open", 0, 0)),
        ("bank_fees", ("booked as bank fees", 95, 0)),
        ("small_difference", ("booked as a small difference", 95, 0)),
        ("credit_note", ("given up by a credit note", 0, 95)),
    ],
)
async def test_a_short_payment_is_matched_with_a_decision_about_the_rest(
    olga: Person, books: Billing, world: World, difference: str, expected: tuple[str, int, int]
) -> None:
    await billed(books, world, 1)
    await import_lines(olga, books, Line(DAY, 1300, "Rechnung 000001", reference="B1"))
    path = f"{LIVE}/transfers/" + await books.fetchval("SELECT id FROM bank_transfers")
    for page in (f"{LIVE}/inbox", path):
        assert "€0.95 are missing:" in (await olga.get(page)).text
    shown = await confirm(olga, f"{path}/assign", invoice="TN-LIVE-000001", difference=difference)
    assert expected[0] in shown
    [row] = await books.fetch("SELECT status, difference_minor, credited_minor FROM invoices")
    assert (row["difference_minor"], row["credited_minor"]) == expected[1:]
    assert row["status"] == ("paid" if difference else "open")
    await books.check_invariants()


async def test_what_arrived_is_said_when_an_invoice_is_marked_as_paid(
    olga: Person, books: Billing, world: World
) -> None:
    await billed(books, world, 2)
    path = f"{LIVE}/invoices/TN-LIVE-000001"
    assert "Received in EUR" in (await olga.get(path)).text
    for fields, fault in (
        ({"received": "x", "difference": "bank_fees"}, "Enter an amount such as 12.50."),
        ({"received": "13.00"}, "Choose how to book what is missing."),
        ({"received": "13.95", "difference": "bank_fees"}, "nothing is missing"),
    ):
        refused = await olga.submit(f"{path}/settle", note="By cheque", **fields)
        assert (refused.status_code, fault in refused.text) == (422, True), fault
    shown = await confirm(olga, f"{path}/settle", note="By cheque", received="13.00", difference="bank_fees")
    assert "0.95 EUR are booked as bank fees" in shown
    row, _ = await books.fetch("SELECT status, difference_minor, settled_by_hand FROM invoices ORDER BY number")
    assert tuple(row) == ("paid", 95, True)
    # Of another one, 0.95 never arrive.
    path = f"{LIVE}/invoices/TN-LIVE-000002"
    await import_lines(olga, books, Line(DAY, 1300, "TN-LIVE-000002", reference="B1"))
    await confirm(olga, f"{path}/settle", note="The rest by cheque")
    assert "No transfer has shown €0.95 of it yet" in (await olga.get(path)).text
    for fields in ({"clear_note": "Lost"}, {"clear_difference": "bank_fees"}):
        assert (await olga.submit(f"{path}/clear-settled", **fields)).status_code == 422
    shown = await confirm(olga, f"{path}/clear-settled", clear_difference="small_difference", clear_note="Lost")
    assert "0.95 EUR of invoice TN-LIVE-000002 are booked as a small difference" in shown
    assert "No transfer has shown" not in (await olga.get(path)).text
    assert await books.fetchval("SELECT sum(difference_minor) FROM invoices") == 190
    await books.check_invariants()


async def test_the_limit_of_a_return_is_the_one_that_two_people_approved(
    olga: Person, books: Billing, world: World
) -> None:
    await billed(books, world, 1)
    await import_lines(olga, books, Line(DAY, 300, "Tip", reference="B2"))
    path = f"{LIVE}/transfers/" + await books.fetchval("SELECT id FROM bank_transfers")
    # The service is configured with another one.
    assert books.settings.return_approval_above > 3
    await books.execute("INSERT INTO guarded_settings (name, value) VALUES ('return_approval_above', '1')")
    assert "A second operator must approve it first." in await confirm(olga, f"{path}/return", reason="Not ours")

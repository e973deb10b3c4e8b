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

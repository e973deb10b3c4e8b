"""The last lines of the list of sales: what its documents sum to, and what the books have."""

import csv
import io

import pytest

from tests.money.accounting.journal.test_tax_due import credit, debts, settings
from tests.stories.test_write_offs import Debts
from tests.support.world import World
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.journal.read_journal import month_period
from tonne.platform.values.context import Mode

__all__ = ["debts", "settings"]


async def rows(debts: Debts, month: int) -> list[dict[str, str]]:
    period = month_period(Mode.LIVE, debts.clock.now.date().replace(month=month, day=1))
    await debts.post_entries()
    async with debts.database.snapshot() as tx:
        text = "".join([each async for each in FILES["sales.csv"].write(tx, period)])
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("settings", ["payment"], indirect=True)
async def test_the_list_ends_with_the_tax_of_each_code_beside_that_of_the_books(debts: Debts, world: World) -> None:
    order = await debts.on_credit(world)
    await credit(debts, order, 415)
    invoice, note, total = await rows(debts, 3)
    assert (invoice["corrects"], note["corrects"]) == ("", invoice["number"])
    assert (invoice["booked_tax"], note["booked_tax"]) == ("", "")
    names = ("document", "number", "issued_on", "tax_code", "currency", "net", "tax", "total", "corrects", "booked_tax")
    assert [total[name] for name in names] == [
        *("total", "", "", "DE-S-19", "EUR", "10.46", "1.99", "12.45", "", "1.99")
    ]
    # Nobody wrote what the books lack to the documents: the two differ, and the list shows both.
    await debts.tamper(
        "UPDATE tax_documents SET tax_lines = jsonb_build_object('FR-S-20', tax_minor), "
        "record = convert_to(replace(convert_from(record, 'UTF8'), 'DE-S-19', 'FR-S-20'), 'UTF8')",
        "DELETE FROM ledger_due",
    )
    *_, lost, found = await rows(debts, 3)
    assert [lost[each] for each in ("tax_code", "tax", "booked_tax")] == ["DE-S-19", "0.00", "1.99"]
    assert [found[each] for each in ("tax_code", "tax", "booked_tax")] == ["FR-S-20", "1.99", "0.00"]

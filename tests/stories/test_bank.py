"""Stories of bank money, through the command line, the worker's jobs and the mails."""

import re
from datetime import date
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest
from lxml import etree
from sepaxml.validation import try_valid_xml

from tests.money.invoices.bank import ADA_IBAN, OWN, Line, camt_file, local_csv_file, mt940_file
from tests.money.invoices.billing import Billing, text_of
from tests.support.clock import MARCH, ManualClock
from tests.support.command import tonne
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings

OPEN = "unmatched live bank transfers are resolved within three days"
TO_RETURN = "live bank refunds are made within three days"


class Desk(Billing):
    """An operator with a folder of bank files."""

    folder: Path

    def run(self, *words: str) -> CompletedProcess[str]:
        return tonne(*words, database_url=self.database._url, **SELLER)

    def does(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.strip()

    def imports(self, name: str, content: bytes) -> str:
        """The last line of the report."""
        (self.folder / name).write_bytes(content)
        return self.does("invoice", "import-statement", str(self.folder / name), "--mode", "live").splitlines()[-1]

    def waiting(self) -> list[dict[str, str]]:
        return [msgspec.json.decode(line) for line in self.does("transfer", "list", "--json").splitlines()]

    async def booked(self) -> tuple[int, int]:
        row = await self.fetch("SELECT count(*), coalesce(sum(amount_minor), 0)::bigint AS sum FROM bank_transfers")
        return row[0]["count"], row[0]["sum"]


@pytest.fixture
async def desk(populated_db: Database, settings: Settings, world: World, tmp_path: Path) -> Desk:
    """On 1 March, with an administrator."""
    clock = ManualClock(MARCH)
    settings = msgspec.structs.replace(settings, **SELLER)
    desk = Desk(Services(populated_db, settings, clock), clock)
    desk.folder = tmp_path
    await desk.add_admins(world.ours_live.scope.organisation_id, "ada@ours.test")
    return desk


async def test_the_same_statement_imported_three_times_in_two_formats_books_once(desk: Desk, world: World) -> None:
    orders = [await desk.place_order(world.ours_live.scope) for _ in range(3)]
    await desk.work()
    day, next_day = date(2026, 3, 5), date(2026, 3, 6)
    lines = [
        Line(day, 1395, "Invoice TN-LIVE-000001 of the first of March, many thanks", reference="B1"),
        # Two equal part payments of one day, and a third on the next.
        Line(day, 500, "TN-LIVE-000002", reference="B2", end_to_end="PAYROLL"),
        Line(day, 500, "TN-LIVE-000002", reference="B3", end_to_end="PAYROLL"),
        Line(next_day, 395, "TN-LIVE-000002", reference="B4"),
        Line(next_day, 1395, "Rechnung", payer="Müller & Söhne GmbH", reference="B5"),
        Line(next_day, -250, "Fees of March", payer="Our bank", iban=OWN, reference="B6"),
    ]
    assert desk.imports("one.xml", camt_file(lines)) == "6 lines: 4 matched, 1 unmatched, 1 outgoing"
    assert desk.imports("two.sta", mt940_file(lines)) == "6 lines: 6 known"
    assert desk.imports("three.xml", camt_file(lines)) == "6 lines: 6 known"
    assert desk.imports("four.csv", local_csv_file(lines)) == "6 lines: 6 known"
    assert await desk.booked() == (6, 1395 + 500 + 500 + 395 + 1395 - 250)
    assert [await desk.status(order) for order in orders] == ["paid", "paid", "placed"]
    # The second day's file alone, with a new line: two equal part payments in two files are two.
    more = [
        Line(next_day, 395, "TN-LIVE-000003", reference="B7"),
        Line(next_day, 395, "TN-LIVE-000003", reference="B8"),
    ]
    assert desk.imports("five.xml", camt_file([lines[3], more[0]])) == "2 lines: 1 part payment, 1 known"
    assert desk.imports("six.xml", camt_file([more[1]])) == "1 line: 1 part payment"
    assert desk.imports("seven.sta", mt940_file([*lines[3:], *more])) == "5 lines: 5 known"
    await desk.check_invariants()


async def test_12_61_of_12_62_arrive_and_go_back_by_sepa(desk: Desk, world: World) -> None:
    """1 March invoice, 5 March a part, 3 April reminder, 14 April cancelled, then returned."""
    order = await desk.place_order(world.ours_live.scope)
    await desk.execute("UPDATE orders SET total_cost_minor = 1262, commission_minor = 1262 - offset_cost_minor")
    await desk.work()
    assert (await desk.invoice(order)).total == "12.62 EUR"
    paid = Line(date(2026, 3, 5), 1261, "TN-LIVE-000001 less one cent", reference="B1")
    desk.clock.turn_to(3, 5)
    assert desk.imports("march.xml", camt_file([paid])) == "1 line: 1 part payment"
    desk.clock.turn_to(4, 3)
    await desk.work()
    *_, reminder = await desk.mails()
    assert "We have received €12.61. €0.01 is missing." in _flat(text_of(reminder))
    desk.clock.turn_to(4, 14)
    await desk.work()
    assert await desk.status(order) == "cancelled"
    *_, cancelled = await desk.mails()
    assert "We have received €12.61 for it, and will return it" in _flat(text_of(cancelled))
    [waiting] = desk.waiting()
    assert (waiting["state"], waiting["invoice_number"]) == ("to_return", "TN-LIVE-000001")
    await desk.execute("UPDATE transfer_returns SET created_at = now() - interval '4 days'")
    assert f"ok      {TO_RETURN}" not in desk.run("doctor").stdout
    file = desk.folder / "returns.xml"
    assert "1 return in batch RTB" in desk.does("transfer", "export-returns", "-o", str(file))
    try_valid_xml(file.read_bytes(), "pain.001.001.03")
    root = etree.fromstring(file.read_bytes())
    [amount], [end_to_end] = root.iter("{*}InstdAmt"), root.iter("{*}EndToEndId")
    assert (amount.text, amount.get("Ccy")) == ("12.61", "EUR")
    assert [each.text for each in root.iter("{*}IBAN")] == [OWN, ADA_IBAN]
    sent = Line(date(2026, 4, 16), -1261, "Return", reference="B2", end_to_end=end_to_end.text or "")
    assert desk.imports("april.sta", mt940_file([sent])) == "1 line: 1 outgoing", "MT940 has no end-to-end id here"
    assert desk.imports("april.xml", camt_file([sent])) == "1 line: 1 known"
    assert [each["state"] for each in desk.waiting()] == ["to_return"]
    sent = Line(date(2026, 4, 17), -1261, f"{end_to_end.text} returned", reference="B3")
    path = desk.folder / "april2.sta"
    path.write_bytes(mt940_file([sent]))
    said = desk.does("invoice", "import-statement", str(path), "--mode", "live")
    assert re.search(r"return ret_\w+ is paid\.", said)
    assert desk.waiting() == []
    assert f"ok      {TO_RETURN}" in desk.run("doctor").stdout
    await desk.check_invariants()


async def test_money_that_names_no_invoice_is_assigned(desk: Desk, world: World) -> None:
    order = await desk.place_order(world.ours_live.scope)
    await desk.work()
    assert desk.imports("m.xml", camt_file([Line(date(2026, 3, 5), 1500, "offsets", reference="B1")])) == (
        "1 line: 1 unmatched"
    )
    assert desk.imports("m2.xml", camt_file([Line(date(2026, 3, 5), 1500, "offsets", reference="B1")])) == (
        "1 line: 1 known"
    )
    [found] = desk.waiting()
    await desk.execute("UPDATE bank_transfers SET imported_at = now() - interval '4 days'")
    assert f"ok      {OPEN}" not in desk.run("doctor").stdout
    desk.does("transfer", "assign", found["id"], "TN-LIVE-000001", "--note", "they told us by phone")
    assert await desk.status(order) == "paid"
    [found] = desk.waiting()
    assert (found["state"], found["rest"]) == ("overpaid", "1.05")
    desk.does("transfer", "return", found["id"], "--reason", "Paid too much")
    desk.does("transfer", "export-returns", "-o", str(desk.folder / "returns.xml"))
    [planned] = [msgspec.json.decode(line) for line in desk.does("transfer", "returns", "--json").splitlines()]
    desk.does("transfer", "returned", planned["id"], "--note", "seen in online banking")
    assert desk.waiting() == []
    assert f"ok      {OPEN}" in desk.run("doctor").stdout
    await desk.check_invariants()


async def test_settled_by_hand_and_then_in_the_statement(desk: Desk, world: World) -> None:
    """The operator believed the customer's word. Tomorrow's statement has the transfer: there is nothing to refund."""
    order = await desk.place_order(world.ours_live.scope)
    await desk.work()
    desk.does("invoice", "settle", "TN-LIVE-000001", "--note", "the customer sent proof")
    assert await desk.status(order) == "paid"
    statement = [Line(date(2026, 3, 6), 1395, "TN-LIVE-000001", reference="B1")]
    assert desk.imports("march.xml", camt_file(statement)) == "1 line: 1 matched"
    assert desk.waiting() == []
    await desk.check_invariants()
    # A second transfer is too much.
    again = [Line(date(2026, 3, 7), 1395, "TN-LIVE-000001", reference="B2")]
    assert desk.imports("march2.xml", camt_file(again)) == "1 line: 1 unmatched"
    assert desk.waiting()[0]["invoice_number"] == "TN-LIVE-000001"
    await desk.check_invariants()


async def test_a_doubtful_line_is_counted_once_until_somebody_decides(desk: Desk, world: World) -> None:
    orders = [await desk.place_order(world.ours_live.scope) for _ in range(2)]
    await desk.work()
    day = date(2026, 3, 5)
    desk.imports("march.xml", camt_file([Line(day, 1395, "TN-LIVE-000001", reference="B1")]))
    # The same day and amount in another format, but another payer and another invoice.
    other = Line(day, 1395, "TN-LIVE-000002", payer="Eve B.V.", iban="NL20INGB0001234567")
    assert desk.imports("march.sta", mt940_file([other])) == "1 line: 1 doubtful"
    assert desk.imports("again.sta", mt940_file([other])) == "1 line: 1 known"
    assert [await desk.status(order) for order in orders] == ["paid", "placed"]
    [line] = [msgspec.json.decode(each) for each in desk.does("transfer", "doubtful", "--json").splitlines()]
    assert (line["payer"], line["transfer_payer"]) == ("EVE B.V.", "Ada GmbH")
    said = desk.does("transfer", "different", line["id"])
    assert said.endswith("of 13.95 EUR: matched.")
    assert [await desk.status(order) for order in orders] == ["paid", "paid"]
    assert desk.imports("third.sta", mt940_file([other])) == "1 line: 1 known"
    assert desk.does("transfer", "doubtful") == "No doubtful lines."
    await desk.check_invariants()


def _flat(text: str) -> str:
    return " ".join(text.split())

"""`tonne invoice` and `tonne order cancel`."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_of, pdf_text, text_of
from tests.support.command import output_of, refusal_of, tonne
from tests.support.world import World

HEAD = "booked_on;amount;currency;payer;reference\n"


@dataclass(frozen=True)
class Operator:
    """Runs commands on this database."""

    url: str

    def does(self, *words: str) -> str:
        return output_of("invoice", *words, database_url=self.url)

    def is_refused(self, *words: str) -> str:
        return refusal_of("invoice", *words, database_url=self.url)


@pytest.fixture
def operator(billing: Billing) -> Operator:
    return Operator(billing.database._url)


async def test_invoices_are_listed_newest_first_and_by_status(
    billing: Billing, world: World, operator: Operator
) -> None:
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(3)]
    await billing.place_order(world.ours_test.scope)
    await billing.work()
    await billing.settle(orders[1])
    heads, *lines = operator.does("list", "--mode", "live").splitlines()
    assert heads.split() == ["number", "status", "total", "organisation", "due", "mailed", "reminded", "settled"]
    assert [line.split()[:2] for line in lines] == [
        ["TN-LIVE-000003", "open"],
        ["TN-LIVE-000002", "paid"],
        ["TN-LIVE-000001", "open"],
    ]
    assert lines[0].split()[2:] == ["13.95", "EUR", "Ours", "2026-03-31", "2026-03-01", "-", "-"]
    assert len(operator.does("list").splitlines()) == 5
    assert len(operator.does("list", "--status", "open").splitlines()) == 3
    assert len(operator.does("list", "--limit", "1").splitlines()) == 3


async def test_the_list_names_organisations_without_a_recipient(
    billing: Billing, world: World, operator: Operator
) -> None:
    async with billing.database.transaction() as tx:
        await tx.execute("DELETE FROM organisation_admins")
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    done = tonne("invoice", "list", database_url=operator.url)
    assert done.returncode == 0
    organisation_id = world.ours_live.scope.organisation_id
    assert f"{organisation_id} has no admin" in done.stderr
    assert "add-admin" in operator.is_refused("resend", "1", "--mode", "live")
    await billing.add_admins(organisation_id, ADA)
    assert operator.does("resend", "1", "--mode", "live") == f"TN-LIVE-000001 will be mailed to {ADA}."
    [mail] = await billing.mails()
    assert "13.95" in pdf_of(mail)
    assert "TN-LIVE-000001" in text_of(mail)
    [entry] = await billing.fetch("SELECT details FROM audit_log WHERE action = 'invoice.resent'")
    assert json.loads(entry["details"])["recipients"] == [ADA]


async def test_an_invoice_is_settled_by_hand_once(billing: Billing, world: World, operator: Operator) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    said = operator.does("settle", "1", "--mode", "live", "--note", "cheque 17")
    assert said == f"Invoice TN-LIVE-000001 for 13.95 EUR and order {order.id} are marked as paid."
    assert await billing.status(order) == "paid"
    [entry] = await billing.fetch("SELECT actor, details FROM audit_log WHERE action = 'invoice.settled'")
    assert entry["actor"].startswith("cli:")
    assert json.loads(entry["details"])["note"] == "cheque 17"
    assert "already paid" in operator.is_refused("settle", "TN-LIVE-000001")
    assert "settled       " in operator.does("show", "tn live 1")
    await billing.check_invariants()


async def test_an_operator_cancels_an_order_and_its_invoice(billing: Billing, world: World, operator: Operator) -> None:
    order, other = [await billing.place_order(world.ours_live.scope) for _ in range(2)]
    await billing.work()
    words = ("order", "cancel", order.id, "--reason", " Ordered twice ")
    assert output_of(*words, database_url=operator.url) == f"Order {order.id} is cancelled."
    assert (await billing.status(order), (await billing.invoice(order)).status) == ("cancelled", "cancelled")
    assert await billing.status(other) == "placed"
    # The command uses the real time, which is later than the clock of the job.
    await billing.execute("UPDATE credit_notes SET next_attempt_at = $1", billing.clock.now)
    await billing.work()
    *_, mail = await billing.mails()
    assert "Reason: Ordered twice\n" in text_of(mail)
    [entry] = await billing.fetch("SELECT actor, details, before FROM audit_log WHERE action = 'order.cancelled'")
    assert entry["actor"].startswith("cli:")
    assert json.loads(entry["details"]) == {"reason": "Ordered twice"}
    assert json.loads(entry["before"]) == {"status": "placed"}
    assert len(await billing.fetch("SELECT FROM audit_log WHERE action = 'invoice.cancelled'")) == 1
    assert "cancelled" in refusal_of(*words, database_url=operator.url)
    await billing.check_invariants()


def test_an_order_that_cannot_be_cancelled_is_refused(operator: Operator) -> None:
    words = ("order", "cancel", "ord_unknown", "--reason")
    assert "no such order" in refusal_of(*words, "Ordered twice", database_url=operator.url)
    for reason in ("", " ", "x" * 501):
        assert "1 to 500 characters" in tonne(*words, reason, database_url=operator.url).stderr


async def test_a_cancelled_invoice_is_not_settled(billing: Billing, world: World, operator: Operator) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    for month, day in ((4, 3), (4, 14)):
        billing.clock.turn_to(month, day)
        await billing.work()
    assert "cancelled" in operator.is_refused("settle", "TN-LIVE-000001")


async def test_an_invoice_that_is_not_mailed_yet_is_not_resent(
    billing: Billing, world: World, operator: Operator
) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    assert "tonne worker" in operator.is_refused("resend", "TN-LIVE-000001")


async def test_an_unknown_invoice_is_refused_in_one_sentence(
    billing: Billing, world: World, operator: Operator
) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    for number in ("TN-LIVE-000002", "TN-TEST-000001", "nonsense", "TN-LIVE-000001 TN-LIVE-000002", ""):
        assert "tonne invoice list" in operator.is_refused("show", number)
    assert "--mode" in operator.is_refused("show", "1")
    assert "test mode" in operator.is_refused("show", "TN-LIVE-000001", "--mode", "test")
    assert "tonne invoice list" in operator.is_refused("show", "9" * 40, "--mode", "live")


async def test_the_pdf_is_written_to_a_file(billing: Billing, world: World, operator: Operator, tmp_path: Path) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    assert operator.does("pdf", "1", "--mode", "live", "-o", str(tmp_path / "one.pdf")).endswith("for 13.95 EUR.")
    assert "13.95" in pdf_text((tmp_path / "one.pdf").read_bytes())
    assert "cannot be written" in operator.is_refused("pdf", "TN-LIVE-000001", "-o", str(tmp_path / "no" / "one.pdf"))


async def test_a_statement_is_imported_with_a_report(
    billing: Billing, world: World, operator: Operator, tmp_path: Path
) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    file = tmp_path / "march.csv"
    lines = (
        "2026-03-05;10.00;EUR;Ada\u200b & Co;TN-LIVE-1\n2026-03-06;4.00;EUR;Ada;TN-LIVE-1\n2026-03-07;1.00;EUR;Eve;?\n"
    )
    file.write_text(HEAD + lines, encoding="utf-8-sig")
    report = operator.does("import-statement", str(file), "--mode", "live")
    table, _, summary = report.rpartition("\n\n")
    assert summary == "3 lines: 1 matched, 1 overpaid, 1 unmatched"
    assert [line.split()[:3] for line in table.splitlines()[1:]] == [
        ["2", "matched", "TN-LIVE-000001"],
        ["3", "overpaid", "TN-LIVE-000001"],
        ["4", "unmatched", "-"],
    ]
    assert "\u200b" not in report
    assert await billing.status(order) == "paid"
    shown = operator.does("show", "TN-LIVE-000001")
    assert "10.00 EUR" in shown
    assert "4.00 EUR" in shown
    again = operator.does("import-statement", str(file), "--mode", "live")
    assert again.endswith("3 lines: 3 known")


async def test_an_invalid_statement_imports_nothing(
    billing: Billing, world: World, operator: Operator, tmp_path: Path
) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    file = tmp_path / "march.csv"
    file.write_text(f"{HEAD}2026-03-05;13.95;EUR;Ada;TN-LIVE-1\nx;y;z;;\n")
    done = tonne("invoice", "import-statement", str(file), "--mode", "live", database_url=operator.url)
    assert (done.returncode, done.stdout) == (1, "")
    *faults, last = done.stderr.splitlines()
    assert all(fault.startswith("march.csv, line 3, column ") for fault in faults)
    assert last == f"Error: Nothing was imported: {len(faults)} errors."
    assert await billing.status(order) == "placed"
    file.write_text(HEAD)
    assert operator.does("import-statement", str(file), "--mode", "live") == "0 lines."

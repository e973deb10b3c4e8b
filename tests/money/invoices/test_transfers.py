"""What happens to money that arrived: assigned, returned, resolved, and each undone by a recorded opposite."""

import re
from datetime import date
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import asyncpg
import msgspec
import pytest
from lxml import etree
from sepaxml.validation import try_valid_xml

from tests.money.invoices.bank import ADA_IBAN, EVE_IBAN, OWN, Line, camt_file, csv_file
from tests.money.invoices.billing import Billing
from tests.support.command import Operator, refusal_of, tonne
from tests.support.people import approver
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.import_statement import BookedLine, import_statement
from tonne.money.bank.errors import ReturnInvalid
from tonne.money.bank.export_returns import export_returns
from tonne.money.bank.return_store import list_open_returns_any_account
from tonne.money.bank.return_transfer import approve_return, confirm_return, return_transfer
from tonne.money.bank.transfer_model import BankReturn
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Actor, ActorKind, Mode, new_id, person_of
from tonne.selling.orders.model import Order
from tonne.selling.users.errors import SecondPersonNeeded

DAY = date(2026, 3, 5)
SCHEMA = "pain.001.001.03"
FAIL_AT_COMMIT = """
CREATE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'at the commit'; END $$;
CREATE CONSTRAINT TRIGGER fault AFTER INSERT ON return_batches DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION fail_at_commit();
"""
ADA = Actor(ActorKind.USER, new_id("usr"))


async def import_file(billing: Billing, content: bytes) -> list[BookedLine]:
    async with billing.database.transaction() as tx:
        file = SheetFile("march", content)
        return await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock.now))


async def bill(billing: Billing, world: World, count: int = 1) -> list[Order]:
    """Orders of 13.95 EUR each, with the invoices TN-LIVE-000001 and following."""
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(count)]
    await billing.work()
    return orders


async def states(billing: Billing) -> list[str]:
    return [row["state"] for row in await billing.fetch("SELECT state FROM bank_transfers ORDER BY booked_on, id")]


async def open_returns(billing: Billing) -> list[BankReturn]:
    async with billing.database.connection() as connection:
        return await list_open_returns_any_account(connection, None)


async def transfer_id(billing: Billing) -> str:
    return str(await billing.fetchval("SELECT id FROM bank_transfers ORDER BY imported_at DESC, id DESC LIMIT 1"))


async def _approve(billing: Billing, return_id: str, *names: str) -> BankReturn:
    for name in names:
        person = await approver(billing.database, name)
        async with billing.database.transaction() as tx:
            approved = await approve_return(tx, return_id, approver=person, now=billing.clock.now)
    return approved


async def _plan(billing: Billing, transfer_id: str) -> BankReturn:
    """Ada plans to return all that is left."""
    async with billing.database.transaction() as tx:
        return await return_transfer(tx, transfer_id, None, reason="a mistake", to=None, by=ADA.at(billing.clock.now))


def _run_export(operator: Operator, file: Path) -> CompletedProcess[str]:
    words = ("transfer", "export-returns", "-o", str(file))
    return tonne(*words, database_url=operator.url, bank_iban=OWN, seller_name="Offsets Ltd")


def _export(operator: Operator, file: Path) -> str:
    done = _run_export(operator, file)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def _read_sepa(content: bytes) -> dict[str, str | list[str]]:
    """The values of a file with one payment, after its validation by the schema."""
    try_valid_xml(content, SCHEMA)
    root = etree.fromstring(content)
    texts: dict[str, list[str]] = {}
    for element in root.iter():
        texts.setdefault(etree.QName(element).localname, []).append((element.text or "").strip())
    names = [name.text for name in root.iter("{*}Nm")]
    found: dict[str, str | list[str]] = {name: values[-1] for name, values in texts.items()}
    return {**found, "IBAN": texts["IBAN"], "Cdtr": names[-1] or ""}


def _flat(text: str) -> str:
    return " ".join(text.split())


class TestAssigning:
    async def test_one_transfer_pays_two_invoices(self, billing: Billing, world: World, operator: Operator) -> None:
        orders = await bill(billing, world, 2)
        await import_file(billing, camt_file([Line(DAY, 3000, "both invoices", reference="R1")]))
        found = await transfer_id(billing)
        said = operator.does("transfer", "assign", found, "TN-LIVE-000001")
        assert said == f"Transfer {found} is assigned to invoice TN-LIVE-000001, which is paid. 16.05 EUR is left."
        assert await states(billing) == ["overpaid"]
        said = operator.does("transfer", "assign", found, "TN-LIVE-000002", "--amount", "10.00")
        assert said.endswith("TN-LIVE-000002, which is open. 6.05 EUR is left.")
        assert [await billing.status(order) for order in orders] == ["paid", "placed"]
        assert "at most the lower of both" in operator.is_refused(
            "transfer", "assign", found, "TN-LIVE-000002", "--amount", "4.00"
        )
        assert "needs no money" in operator.is_refused("transfer", "assign", found, "TN-LIVE-000001")
        operator.does("transfer", "assign", found, "TN-LIVE-000002", "--note", "the rest")
        assert [await billing.status(order) for order in orders] == ["paid", "paid"]
        assert await states(billing) == ["overpaid"]
        operator.does("transfer", "resolve", found, "--note", "a donation")
        assert await states(billing) == ["assigned"]
        shown = operator.does("transfer", "show", found)
        assert shown.count("TN-LIVE-000002") == 2
        assert "a donation" in shown
        await billing.check_invariants()

    async def test_an_assignment_is_undone_by_its_opposite(
        self, billing: Billing, world: World, operator: Operator
    ) -> None:
        orders = await bill(billing, world, 2)
        await import_file(billing, camt_file([Line(DAY, 1395, "my offsets", reference="R1")]))
        found = await transfer_id(billing)
        operator.does("transfer", "assign", found, "TN-LIVE-000001")
        assignment = await billing.fetchval("SELECT id FROM transfer_assignments")
        said = operator.does("transfer", "unassign", assignment, "--note", "the wrong one")
        assert said == f"Transfer {found} no longer pays invoice TN-LIVE-000001. 13.95 EUR is left."
        assert "undone already" in operator.is_refused("transfer", "unassign", assignment, "--note", "again")
        assert await states(billing) == ["unmatched"]
        operator.does("transfer", "assign", found, "TN-LIVE-000002")
        # The first stays paid: its order may be fulfilled. Its own money is matched when it arrives.
        assert [await billing.status(order) for order in orders] == ["paid", "paid"]
        await billing.check_invariants()
        [line] = await import_file(billing, csv_file([Line(date(2026, 3, 6), 1395, "TN-LIVE-000001", payer="Eve")]))
        assert line.outcome == "matched"
        await billing.check_invariants()

    async def test_an_invoice_of_another_mode_or_currency_is_refused(
        self, billing: Billing, world: World, operator: Operator
    ) -> None:
        await bill(billing, world)
        await import_file(billing, csv_file([Line(DAY, 1395, "dollars", currency="USD")]))
        found = await transfer_id(billing)
        assert "but invoice TN-LIVE-000001 is in live mode and EUR" in operator.is_refused(
            "transfer", "assign", found, "TN-LIVE-000001"
        )
        assert "no such transfer" in operator.is_refused("transfer", "assign", "trf_nope", "TN-LIVE-000001")

    async def test_what_was_resolved_can_be_reopened(self, billing: Billing, operator: Operator) -> None:
        await import_file(billing, csv_file([Line(DAY, 1234, "interest"), Line(DAY, -500, "a fee")]))
        found = await billing.fetchval("SELECT id FROM bank_transfers WHERE amount_minor > 0")
        assert await billing.fetchval("SELECT state FROM bank_transfers WHERE amount_minor < 0") == "outgoing"
        listed = operator.does("transfer", "list", "--mode", "live")
        assert found in listed
        assert "12.34 EUR" in listed
        assert "a fee" not in listed
        said = operator.does("transfer", "resolve", found, "--note", "interest")
        assert said == f"Transfer {found} of 12.34 EUR is resolved."
        assert operator.does("transfer", "list") == "No unresolved transfers."
        again = ("transfer", "resolve", found, "--note", "again")
        assert "no unresolved transfer" in refusal_of(*again, database_url=operator.url)
        operator.does("transfer", "reopen", found, "--note", "it was none")
        assert "12.34 EUR: tonne transfer assign or return" in operator.does("transfer", "list")
        actions = await billing.fetch("SELECT action FROM audit_log WHERE subject_id = $1 ORDER BY id", found)
        assert [row["action"] for row in actions] == ["transfer.resolved", "transfer.reopened"]
        await billing.check_invariants()

    async def test_transfers_are_listed_by_state_and_invoice(
        self, billing: Billing, world: World, operator: Operator
    ) -> None:
        await bill(billing, world, 2)
        lines = [Line(DAY, 1395, "TN-LIVE-000001"), Line(DAY, 2000, "TN-LIVE-000002"), Line(DAY, 1, "?")]
        await import_file(billing, csv_file(lines))
        assert len(operator.does("transfer", "list").splitlines()) == 3
        assert len(operator.does("transfer", "list", "--state", "all").splitlines()) == 4
        assert len(operator.does("transfer", "list", "--state", "matched").splitlines()) == 2
        assert len(operator.does("transfer", "list", "--invoice", "TN-LIVE-000002").splitlines()) == 2
        assert operator.does("transfer", "list", "--state", "returned") == "No transfers."
        found = msgspec.json.decode(operator.does("transfer", "list", "--invoice", "TN-LIVE-000002", "--json"))
        assert (found["state"], found["amount"], found["rest"]) == ("overpaid", "20.00", "6.05")


class TestReturning:
    async def test_a_surplus_goes_back_by_sepa(
        self, billing: Billing, world: World, operator: Operator, tmp_path: Path
    ) -> None:
        await bill(billing, world)
        text, payer = "TN-LIVE-000001 & more_#1", "Müller & Söhne"
        await import_file(billing, camt_file([Line(DAY, 2000, text, payer=payer, reference="R1")]))
        found = await transfer_id(billing)
        assert "6.05 EUR left" in operator.is_refused("transfer", "return", found, "--amount", "7", "--reason", "x")
        operator.does("transfer", "return", found, "--reason", "Paid too much")
        assert await states(billing) == ["to_return"]
        [planned] = await open_returns(billing)
        file = tmp_path / "returns.xml"
        said = _export(operator, file)
        assert re.fullmatch(rf"Wrote 1 return in batch RTB\w+ to {re.escape(str(file))}\. Upload .*", said)
        values = _read_sepa(file.read_bytes())
        assert values["EndToEndId"] == planned.payment_id
        assert values["InstdAmt"] == values["CtrlSum"] == "6.05"
        assert (values["IBAN"], values["Cdtr"]) == ([OWN, ADA_IBAN], "Muller Sohne")
        assert values["Ustrd"] == f"{planned.payment_id} TN-LIVE-000001 more 1"
        assert _export(operator, tmp_path / "second.xml") == "Nothing to export."
        batch = str(values["MsgId"])
        again = tmp_path / "again.xml"
        operator.does("transfer", "export-returns", "--batch", batch, "-o", str(again))
        assert again.read_bytes() == file.read_bytes()
        sent = Line(date(2026, 3, 9), -605, "Return", reference="R2", end_to_end=planned.payment_id)
        [line] = await import_file(billing, camt_file([sent]))
        assert line.outcome == "outgoing"
        assert await states(billing) == ["returned", "outgoing"]
        assert await open_returns(billing) == []
        await billing.check_invariants()

    async def test_a_file_exists_only_after_its_returns_are_recorded_as_exported(
        self, billing: Billing, operator: Operator, tmp_path: Path
    ) -> None:
        """Otherwise a failed commit leaves a file whose payments are exported a second time."""
        await import_file(billing, camt_file([Line(DAY, 2000, "gift", reference="R1")]))
        await _plan(billing, await transfer_id(billing))
        file = tmp_path / "returns.xml"
        async with billing.database.connection() as connection:
            await connection.execute(FAIL_AT_COMMIT)
        with pytest.raises(asyncpg.RaiseError, match="at the commit"):
            _run_export(operator, file)
        assert not file.exists()
        async with billing.database.connection() as connection:
            await connection.execute("DROP FUNCTION fail_at_commit CASCADE")
        _export(operator, file)
        assert file.read_bytes().count(b"<CdtTrfTxInf>") == 1
        assert not (tmp_path / "returns.xml.part").exists()

    async def test_a_line_of_another_amount_is_not_the_return(self, billing: Billing) -> None:
        await import_file(billing, camt_file([Line(DAY, 2000, "gift", reference="R1")]))
        planned = await _plan(billing, await transfer_id(billing))
        text = f"{planned.payment_id[:10]} {planned.payment_id[10:]}"
        await import_file(billing, csv_file([Line(DAY, -1999, text), Line(DAY, -2000, "something else")]))
        assert len(await open_returns(billing)) == 1
        await import_file(billing, csv_file([Line(date(2026, 3, 6), -2000, text.lower())]))
        assert await open_returns(billing) == []

    async def test_a_second_person_approves_another_account(
        self, billing: Billing, operator: Operator, tmp_path: Path
    ) -> None:
        await import_file(billing, camt_file([Line(DAY, 2000, "gift", reference="R1")]))
        found = await transfer_id(billing)
        words = ("transfer", "return", found, "--reason", "The account is closed", "--iban")
        assert "check digits" in operator.is_refused(*words, "NL20INGB0001234568")
        said = operator.does(*words, EVE_IBAN, "--name", "Ada's new account")
        assert "Another person must approve it: tonne transfer approve ret_" in said
        [planned] = await open_returns(billing)
        link = f"https://offsets.example.com/operator/live/money/returns/{planned.id}"
        assert operator.does("transfer", "approve", planned.id) == f"Approve it in the browser: {link}"
        done = _run_export(operator, tmp_path / "x.xml")
        assert "waits for a second person" in done.stderr
        assert done.stdout == "Nothing to export.\n"
        assert "needs the approval" in operator.is_refused("transfer", "returned", planned.id, "--note", "done")
        assert (await _approve(billing, planned.id, "eve")).waits_for_approval(1000), "the command line is nobody known"
        await _approve(billing, planned.id, "bob")
        _export(operator, tmp_path / "y.xml")
        assert _read_sepa((tmp_path / "y.xml").read_bytes())["IBAN"] == [OWN, EVE_IBAN]
        await billing.check_invariants()

    async def test_a_high_amount_needs_a_second_person(self, billing: Billing) -> None:
        await import_file(billing, camt_file([Line(DAY, 100_001, "gift", reference="R1")]))
        planned = await _plan(billing, await transfer_id(billing))
        assert not planned.to_other_account
        assert planned.waits_for_approval(billing.settings.return_approval_above)
        async with billing.database.transaction() as tx:
            with pytest.raises(SecondPersonNeeded):
                await confirm_return(tx, planned.id, "x", settings=billing.settings, by=TESTER.at(billing.clock.now))
        await _approve(billing, planned.id, "eve")
        async with billing.database.transaction() as tx:
            await confirm_return(tx, planned.id, "by hand", settings=billing.settings, by=ADA.at(billing.clock.now))
        assert await states(billing) == ["returned"]

    async def test_returns_are_cancelled_and_fail(self, billing: Billing, operator: Operator, tmp_path: Path) -> None:
        await import_file(billing, camt_file([Line(DAY, 2000, "gift", reference="R1")]))
        found = await transfer_id(billing)
        planned = await _plan(billing, found)
        assert "was not sent" in operator.is_refused("transfer", "return-failed", planned.id, "--note", "x")
        operator.does("transfer", "cancel-return", planned.id, "--note", "not after all")
        assert await states(billing) == ["unmatched"]
        second = await _plan(billing, found)
        _export(operator, tmp_path / "x.xml")
        assert "only a planned return" in operator.is_refused("transfer", "cancel-return", second.id, "--note", "x")
        said = operator.does("transfer", "return-failed", second.id, "--note", "account closed")
        assert said.endswith("Plan it again with `tonne transfer return`.")
        assert await states(billing) == ["unmatched"]
        await _plan(billing, found)
        assert await states(billing) == ["to_return"]
        await billing.check_invariants()

    async def test_money_of_an_unknown_account_is_left_out(
        self, billing: Billing, operator: Operator, tmp_path: Path
    ) -> None:
        await import_file(billing, csv_file([Line(DAY, 2000, "gift")]))
        planned = await _plan(billing, await transfer_id(billing))
        assert planned.to_other_account
        await _approve(billing, planned.id, "eve")
        assert "account is not known" in _run_export(operator, tmp_path / "x.xml").stderr

    async def test_a_planned_return_gets_the_account_of_the_payer(
        self, billing: Billing, operator: Operator, tmp_path: Path
    ) -> None:
        await import_file(billing, csv_file([Line(DAY, 2000, "gift")]))
        planned = await _plan(billing, await transfer_id(billing))
        words = ("transfer", "redirect-return", planned.id, "--iban")
        assert "check digits" in operator.is_refused(*words, "NL20INGB0001234568")
        operator.does(*words, EVE_IBAN, "--name", "Eve", "--note", "they told us by letter")
        await _approve(billing, planned.id, "eve", "bob")
        _export(operator, tmp_path / "x.xml")
        assert _read_sepa((tmp_path / "x.xml").read_bytes())["IBAN"] == [OWN, EVE_IBAN]
        assert "only a planned return" in operator.is_refused(*words, EVE_IBAN)

    async def test_other_currencies_are_exported_as_csv(self, billing: Billing) -> None:
        await import_file(billing, camt_file([Line(DAY, 2000, "=1+1", currency="CHF", reference="R1")]))
        planned = await _plan(billing, await transfer_id(billing))
        async with billing.database.transaction() as tx:
            export: dict[str, Any] = {"settings": billing.settings, "by": TESTER.at(billing.clock.now)}
            with pytest.raises(ReturnInvalid, match="export CHF as CSV"):
                await export_returns(tx, Mode.LIVE, "CHF", format_="sepa", **export)
            written = await export_returns(tx, Mode.LIVE, "CHF", format_="csv", **export)
        head, row = written.content.decode().splitlines()
        assert head == "id,name,iban,bic,amount,currency,reference"
        assert row == f"{planned.payment_id},Ada GmbH,{ADA_IBAN},,20.00,CHF,{planned.payment_id} =1+1"


@pytest.mark.parametrize(
    ("actor", "person"),
    [
        ("user:usr_1", "usr_1"),
        ("cli:ada@desk", None),
        ("system:follow_up_invoices", None),
        ("key:key_1", None),
    ],
)
def test_only_a_user_is_a_person(actor: str, person: str | None) -> None:
    assert person_of(actor) == person

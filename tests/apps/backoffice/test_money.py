"""The operator's money: what is owed, statements, transfers, returns, refunds and disputes."""

import re
from collections.abc import Callable
from datetime import date, timedelta

import msgspec
import pytest

from tests.apps.backoffice.statement_desk import LIVE, import_lines, import_upload, upload
from tests.money.invoices.bank import ADA_IBAN, EVE_IBAN, Line, camt_file
from tests.money.invoices.billing import ADA, Billing
from tests.money.refunds.refund_scene import RefundScene
from tests.support.clock import ManualClock
from tests.support.people import Person, operator
from tests.support.world import SELLER, TESTER, World
from tonne.apps.backoffice.money.inbox_page import BEGINNING
from tonne.apps.wiring.app import Services
from tonne.money.accounting.matching.match_line import MatchHint, suggest_matches_any_account
from tonne.money.bank.transfer_store import list_waiting_any_account
from tonne.money.cards.gateways.card import DisputeState
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

MakePerson = Callable[[], Person]
TEST = "/operator/test/money"
DAY = date(2026, 11, 2)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With what live invoices need. A second operator approves more than 10 EUR."""
    return msgspec.structs.replace(settings, **SELLER, refund_approval_above="EUR 10", return_approval_above=10)


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    books = Billing(services, clock)
    await books.renew_rates()
    await books.add_admins(world.ours_live.scope.organisation_id, ADA)
    return books


@pytest.fixture
async def olga(services: Services, person: MakePerson) -> Person:
    olga = person()
    await operator(services, olga)
    return olga


@pytest.fixture
async def omar(services: Services, person: MakePerson) -> Person:
    """Another operator."""
    omar = person()
    await operator(services, omar, "omar@tonne.test", "Omar Diaz")
    return omar


async def billed(books: Billing, world: World, count: int = 1) -> list[Order]:
    """Live orders with mailed invoices over 13.95 EUR each."""
    orders = [await books.place_order(world.ours_live.scope) for _ in range(count)]
    await books.work()
    return orders


async def confirm(person: Person, path: str, /, **fields: str) -> str:
    """Submit a form twice: returns the text of the confirming page."""
    asked = await person.submit(path, **fields)
    assert asked.status_code == 200, re.sub(r"<[^>]+>|\s+", " ", asked.text)
    assert "What will happen" in asked.text
    answer = await person.submit(path, **fields, confirmed="yes")
    assert answer.status_code == 303, answer.text
    return asked.text


async def last_action(books: Billing | RefundScene) -> tuple[str, str]:
    [row] = await books.fetch("SELECT action, actor FROM audit_log ORDER BY id DESC LIMIT 1")
    return row["action"], row["actor"].partition("_")[0]


async def actions_of_users(books: Billing) -> list[str]:
    return [row["action"] for row in await books.fetch("SELECT action FROM audit_log WHERE actor LIKE 'user:%'")]


async def test_what_is_owed_is_shown_by_age_in_its_mode_only(
    services: Services, person: MakePerson, books: Billing, world: World, clock: ManualClock
) -> None:
    await billed(books, world)
    clock.advance(days=31)
    await books.renew_rates()
    await billed(books, world)
    olga = person()
    await operator(services, olga)
    page = (await olga.get(LIVE)).text
    assert "1 invoice" in page
    assert page.count("€13.95") == 2
    assert "€27.90" in page
    listed = (await olga.get(f"{LIVE}/invoices?bucket=up_to_30&currency=EUR")).text
    assert "TN-LIVE-000001" in listed
    assert "TN-LIVE-000002" not in listed
    assert "1 day ago" in listed
    assert "TN-LIVE-000001" not in (await olga.get(f"{LIVE}/invoices?bucket=not_due")).text
    assert "TN-LIVE-000001" in (await olga.get(f"{LIVE}/invoices")).text
    assert "TN-LIVE-000001" not in (await olga.get(f"{TEST}/invoices")).text
    assert "No invoice is open." in (await olga.get(TEST)).text
    found = await olga.get(f"{LIVE}/invoices?number=1")
    assert found.headers["location"] == f"{LIVE}/invoices/TN-LIVE-000001"
    missing = await olga.get(f"{LIVE}/invoices?number=99")
    assert (missing.status_code, "There is no such invoice in live mode." in missing.text) == (422, True)
    assert (await olga.get(f"{TEST}/invoices/TN-LIVE-000001")).status_code == 404
    assert (await olga.get(f"{LIVE.removesuffix('/money')}/documents/TN-LIVE-000001/pdf")).content.startswith(b"%PDF")
    assert (await olga.get(f"{LIVE}/invoices/TN-LIVE-000001/state")).content.startswith(b"%PDF")


async def test_lists_have_pages(olga: Person, books: Billing, world: World) -> None:
    await billed(books, world, 32)
    for query in ("bucket=not_due", ""):
        seen, address = list[str](), f"{LIVE}/invoices?{query}"
        while address:
            page = (await olga.get(address)).text
            seen += re.findall(r"invoices/(TN-LIVE-\d+)\"", page)
            more = re.search(r'href="([^"]+)" rel="next"', page)
            address = more[1].replace("&amp;", "&") if more else ""
        assert len(seen) == len(set(seen)) == 32, query


async def test_a_statement_is_shown_before_it_is_imported(olga: Person, books: Billing, world: World) -> None:
    await billed(books, world, 2)
    lines = (
        Line(DAY, 1395, "Invoice TN-LIVE-000001", reference="B1"),
        Line(DAY, 1395, "Thank you", payer="Ours Ltd", iban=EVE_IBAN, reference="B2"),
        Line(DAY, -500, "Fee of the bank", reference="B3"),
    )
    answer = await upload(olga, books, camt_file(lines))
    preview = answer.headers["location"]
    page = (await olga.get(preview)).text
    for part in ("november.xml", "What the import would do", "Pays an invoice", "No match", "Outgoing", "Thank you"):
        assert part in page, part
    assert await books.fetchval("SELECT count(*) FROM bank_transfers") == 0
    assert await books.fetchval("SELECT status FROM invoices WHERE number = 1") == "open"
    assert "november.xml" in (await olga.get(f"{LIVE}/inbox")).text
    assert (await olga.get(preview.replace("/live/", "/test/"))).status_code == 404
    assert await last_action(books) == ("bank_statement.uploaded", "user:usr")
    await import_upload(olga, books, preview)
    assert "bank_statement.imported" in await actions_of_users(books)
    assert await books.fetchval("SELECT status FROM invoices WHERE number = 1") == "paid"
    assert (await olga.get(preview)).status_code == 404
    inbox = (await olga.get(f"{LIVE}/inbox")).text
    assert "same amount, similar name" in inbox
    assert inbox.count("TN-LIVE-000002") > 0
    assert "TN-LIVE-000001" not in inbox
    again = (await upload(olga, books, camt_file(lines))).headers["location"]
    assert "All lines were imported before." in (await olga.get(again)).text
    assert (await olga.submit(f"{again}/discard")).headers["location"] == f"{LIVE}/inbox?done=statement_discarded"
    assert await last_action(books) == ("bank_statement.discarded", "user:usr")
    assert await books.fetchval("SELECT count(*) FROM statement_uploads") == 0


async def test_suggested_matches_say_why(olga: Person, books: Billing, world: World) -> None:
    await billed(books, world, 3)
    await import_lines(olga, books, Line(DAY, 1395, "TN-LIVE-000001", payer="Holding", iban=EVE_IBAN, reference="B1"))
    assert await books.fetchval("SELECT status FROM invoices WHERE number = 1") == "paid"
    await import_lines(
        olga,
        books,
        Line(DAY, 700, "Rechnung 000003 Teil 1", payer="Stranger", reference="B2"),
        Line(DAY, 800, "Second instalment", payer="Unknown", iban=EVE_IBAN, reference="B3"),
        Line(DAY, 900, "Room 3, 12 nights in 2026", payer="Guest", reference="B4"),
        Line(DAY, 1000, "Invoice 000001 again", payer="Late", reference="B5"),
    )
    async with books.database.connection() as connection:
        waiting = await list_waiting_any_account(connection, Mode.LIVE, (BEGINNING, ""), 10)
        found = await suggest_matches_any_account(connection, Mode.LIVE, waiting)
    suggested = {each.amount_minor: [(one.reference, *one.hints) for one in found.get(each.id, [])] for each in waiting}
    assert suggested == {
        700: [("TN-LIVE-000003", MatchHint.NUMBER)],
        # Of the organisation whose invoice was paid from this account, the oldest debt first.
        800: [("TN-LIVE-000002", MatchHint.ACCOUNT), ("TN-LIVE-000003", MatchHint.ACCOUNT)],
        # Short numbers are days or quantities, and no invoice has the number 2026.
        900: [],
        # Paid already.
        1000: [],
    }
    inbox = (await olga.get(f"{LIVE}/inbox")).text
    assert "number in the text" in inbox
    assert "paid from this account before" in inbox
    part = next(each.id for each in waiting if each.amount_minor == 700)
    assert "number in the text" in (await olga.get(f"{LIVE}/transfers/{part}")).text


async def test_a_file_with_errors_says_all_of_them(olga: Person, books: Billing) -> None:
    content = b"booked_on,amount,currency,payer,reference\nsoon,much,EUR,A,B\n2026-11-02,1.00,XXX,A,B\n"
    preview = (await upload(olga, books, content)).headers["location"]
    page = (await olga.get(preview)).text
    assert "The file cannot be imported: 3 errors" in page
    assert "Import it" not in page
    assert (await olga.submit(f"{preview}/import")).headers["location"] == preview
    missing = await upload(olga, books, b"", iban="DE00")
    assert missing.status_code == 422
    assert "Choose the file of a bank statement." in missing.text
    assert "its check digits are wrong" in missing.text
    assert await books.fetchval("SELECT count(*) FROM statement_uploads") == 1


async def test_a_transfer_is_matched_in_parts_and_undone(olga: Person, books: Billing, world: World) -> None:
    await billed(books, world, 2)
    await import_lines(olga, books, Line(DAY, 2000, "for both", reference="B1"))
    transfer_id = await books.fetchval("SELECT id FROM bank_transfers")
    transfer = f"{LIVE}/transfers/{transfer_id}"
    faulty = await olga.submit(f"{transfer}/assign", invoice="TN-LIVE-000099", amount="x")
    assert faulty.status_code == 422
    assert "There is no such invoice in live mode." in faulty.text
    refused = await olga.submit(f"{transfer}/assign", invoice="1", amount="20.00")
    assert (refused.status_code, "assign at most the lower of both" in refused.text) == (422, True)
    said = await confirm(olga, f"{transfer}/assign", invoice="1")
    assert "13.95 EUR of the transfer go to invoice TN-LIVE-000001 over 13.95 EUR, which is then paid." in said
    assert "6.05 EUR of the transfer are left" in said
    assert await books.fetchval("SELECT status FROM invoices WHERE number = 1") == "paid"
    await confirm(olga, f"{transfer}/assign", invoice="2", amount="6.05", note="As agreed by phone")
    assert await last_action(books) == ("transfer.assigned", "user:usr")
    assert "Nothing to decide" in (await olga.get(transfer)).text
    part = await books.fetchval("SELECT id FROM transfer_assignments WHERE amount_minor = 605")
    assert (await olga.submit(f"{transfer}/unassign", assignment_id=part)).status_code == 422
    await confirm(olga, f"{transfer}/unassign", assignment_id=part, undo_note="Wrong invoice")
    assert await last_action(books) == ("transfer.unassigned", "user:usr")
    await confirm(olga, f"{transfer}/resolve", resolution="A tip")
    assert await last_action(books) == ("transfer.resolved", "user:usr")
    await confirm(olga, f"{transfer}/reopen", reopen_note="Not a tip")
    assert await last_action(books) == ("transfer.reopened", "user:usr")
    assert (await olga.get(transfer.replace("/live/", "/test/"))).status_code == 404
    assert (await olga.submit(f"{transfer.replace('/live/', '/test/')}/resolve", resolution="x")).status_code == 404
    await books.check_invariants()


async def test_money_goes_back_after_a_second_operator_agreed(
    olga: Person, omar: Person, books: Billing, world: World
) -> None:
    await billed(books, world)
    await import_lines(olga, books, Line(DAY, 2000, "Thank you", reference="B1"), Line(DAY, 300, "Tip", reference="B2"))
    [big, small] = [row["id"] for row in await books.fetch("SELECT id FROM bank_transfers ORDER BY amount_minor DESC")]
    said = await confirm(olga, f"{LIVE}/transfers/{big}/return", reason="Not ours")
    assert ADA_IBAN in said
    assert "A second operator must approve it first." in said
    assert await last_action(books) == ("transfer.return_planned", "user:usr")
    await confirm(olga, f"{LIVE}/transfers/{small}/return", reason="Not ours", return_amount="2.00")
    planned = {
        row["amount_minor"]: row["id"] for row in await books.fetch("SELECT id, amount_minor FROM transfer_returns")
    }
    one = f"{LIVE}/returns/{planned[2000]}"
    own = await olga.submit(f"{one}/approve")
    assert (own.status_code, "another person must approve it" in own.text) == (422, True)
    await confirm(omar, f"{one}/approve")
    assert await last_action(books) == ("transfer.return_approved", "user:usr")
    await confirm(olga, f"{LIVE}/returns/{planned[200]}/redirect", iban=EVE_IBAN, redirect_note="They asked for it")
    assert await last_action(books) == ("transfer.return_redirected", "user:usr")
    await confirm(olga, f"{LIVE}/returns/{planned[200]}/cancel", note="Changed our mind")
    assert await last_action(books) == ("transfer.return_cancelled", "user:usr")
    said = await confirm(olga, f"{LIVE}/returns/export", currency="EUR", format="sepa")
    assert "The file pays 20.00 EUR in 1 payment." in said
    assert await last_action(books) == ("transfer.return_exported", "user:usr")
    nothing = await olga.submit(f"{LIVE}/returns/export", currency="EUR", format="sepa")
    assert (nothing.status_code, "Nothing can be exported" in nothing.text) == (422, True)
    batch = await books.fetchval("SELECT id FROM return_batches")
    file = await olga.get(f"{LIVE}/return-files/{batch}")
    assert ADA_IBAN.encode() in file.content
    assert (await olga.get(f"{TEST}/return-files/{batch}")).status_code == 404
    await confirm(olga, f"{one}/returned", note="Seen at the bank")
    assert await last_action(books) == ("transfer.returned", "user:usr")
    await confirm(olga, f"{one}/failed", note="It came back after all")
    assert await last_action(books) == ("transfer.return_failed", "user:usr")
    await books.check_invariants()


async def test_an_invoice_is_marked_as_paid_after_a_confirmation(olga: Person, books: Billing, world: World) -> None:
    [order] = await billed(books, world)
    path = f"{LIVE}/invoices/TN-LIVE-000001"
    page = (await olga.get(path)).text
    for part in (order.id, "Ours", "Left to pay", "€13.95", "Service fee"):
        assert part in page, part
    assert (await olga.submit(f"{path}/settle")).status_code == 422
    asked = await olga.submit(f"{path}/settle", note="Paid in cash")
    assert "this cannot be undone" in asked.text
    assert (await books.invoice(order)).status == "open"
    await confirm(olga, f"{path}/resend")
    assert await last_action(books) == ("invoice.resent", "user:usr")
    await confirm(olga, f"{path}/settle", note="Paid in cash")
    assert (await books.invoice(order)).status == "paid"
    assert await last_action(books) == ("invoice.settled", "user:usr")
    again = await olga.submit(f"{path}/settle", note="Again")
    assert (again.status_code, "is already paid" in again.text) == (422, True)


async def test_a_write_off_above_the_limit_needs_a_second_operator(
    olga: Person, omar: Person, books: Billing, world: World
) -> None:
    await books.set_billing(world.ours_live.scope, fulfil="on_order", credit_limit="100.00")
    [order] = await billed(books, world)
    path = f"{LIVE}/invoices/TN-LIVE-000001"
    said = await confirm(olga, f"{path}/write-off", reason="Insolvent")
    assert "wait until a second operator approves the write-off" in said
    assert await last_action(books) == ("invoice.write_off_requested", "user:usr")
    assert (await olga.submit(f"{path}/approve-write-off")).status_code == 422
    await confirm(omar, f"{path}/approve-write-off")
    assert await last_action(books) == ("invoice.written_off", "user:usr")
    assert (await books.invoice(order)).is_written_off
    assert "Written off and still owed" in (await olga.get(LIVE)).text
    assert "TN-LIVE-000001" in (await olga.get(f"{LIVE}/invoices?bucket=written_off")).text
    await confirm(olga, f"{path}/reinstate", reason="They pay")
    assert not (await books.invoice(order)).is_written_off
    assert await last_action(books) == ("invoice.reinstated", "user:usr")


async def test_a_doubtful_line_is_decided(olga: Person, books: Billing, world: World) -> None:
    await billed(books, world)
    await import_lines(olga, books, Line(DAY, 1000, "Something", payer="Ada GmbH", reference="B1"))
    content = b"booked_on,amount,currency,payer,reference\n2026-11-02,10.00,EUR,Someone else,Other words\n"
    preview = (await upload(olga, books, content)).headers["location"]
    assert "Maybe imported before" in (await olga.get(preview)).text
    await import_upload(olga, books, preview)
    line = await books.fetchval("SELECT id FROM doubtful_lines")
    assert "Maybe imported before" in (await olga.get(f"{LIVE}/inbox")).text
    assert (await olga.submit(f"{LIVE}/doubtful/{line}")).status_code == 422
    assert (await olga.submit(f"{TEST}/doubtful/{line}", decision="same")).status_code == 404
    assert (await olga.submit(f"{LIVE}/doubtful/{line}", decision="same")).status_code == 303
    assert await last_action(books) == ("transfer.doubt_decided", "user:usr")


async def test_refunds_are_approved_declined_and_settled(
    olga: Person, omar: Person, services: Services, world: World, clock: ManualClock
) -> None:
    scene = RefundScene(services, world.ours_test, clock)
    order = await scene.paid()
    await scene.allocate()
    first = await scene.refund(order, 1100)
    page = (await olga.get(f"{TEST}/refunds")).text
    assert "Wait for a second operator" in page
    assert first.id not in (await olga.get(f"{LIVE}/refunds")).text
    assert (await olga.get(f"{LIVE}/refunds/{first.id}")).status_code == 404
    path = f"{TEST}/refunds/{first.id}"
    assert (await olga.submit(f"{path}/decline")).status_code == 422
    await confirm(olga, f"{path}/decline", reason="Agreed otherwise")
    assert await last_action(scene) == ("refund.declined", "user:usr")
    second = await scene.refund(order, 1200, actor=TESTER)
    await confirm(omar, f"{TEST}/refunds/{second.id}/approve")
    assert await last_action(scene) == ("refund.approved", "user:usr")
    await confirm(olga, f"{TEST}/refunds/{second.id}/retry")
    assert await last_action(scene) == ("refund.retried", "user:usr")
    early = await olga.submit(f"{TEST}/refunds/{second.id}/settle", note="By hand")
    assert (early.status_code, "is made automatically" in early.text) == (422, True)
    scene.gateway.lost_refunds = 1
    await scene.send()
    failed = await scene.fetchval("SELECT id FROM refunds WHERE state = 'due'")
    assert "attempt 2" in (await olga.get(f"{TEST}/refunds")).text
    await confirm(olga, f"{TEST}/refunds/{failed}/settle", note="Sent by bank")
    assert await last_action(scene) == ("refund.settled", "user:usr")
    assert await scene.breaches() == {}


async def test_disputes_have_deadlines_and_say_what_to_do(
    olga: Person, services: Services, world: World, clock: ManualClock
) -> None:
    scene = RefundScene(services, world.ours_test, clock)
    order = await scene.paid()
    await scene.dispute(order, DisputeState.OPENED)
    await scene.execute("UPDATE disputes SET evidence_due = $1", clock() + timedelta(days=2, hours=1))
    page = (await olga.get(f"{TEST}/disputes")).text
    assert "2 days left" in page
    dispute = await scene.fetchval("SELECT id FROM disputes")
    assert "Do not refund the order while the dispute is open" in (await olga.get(f"{TEST}/disputes/{dispute}")).text
    assert (await olga.get(f"{LIVE}/disputes/{dispute}")).status_code == 404
    assert "1</strong> open dispute" in (await olga.get(TEST)).text
    await scene.dispute(order, DisputeState.LOST)
    assert "dispute loss" in (await olga.get(f"{TEST}/disputes/{dispute}")).text


async def test_hostile_text_of_payers_stays_text(olga: Person, books: Billing, world: World) -> None:
    await billed(books, world)
    await import_lines(olga, books, Line(DAY, 700, "<script>alert(1)</script>", payer="<img src=x>", reference="B1"))
    transfer = await books.fetchval("SELECT id FROM bank_transfers")
    for path in ("inbox", "transfers", f"transfers/{transfer}"):
        page = (await olga.get(f"{LIVE}/{path}")).text
        assert "<script>alert" not in page
        assert "<img src=x>" not in page
        assert "&lt;img src=x&gt;" in page


async def test_a_split_is_suggested_and_small_returns_say_why_they_wait(
    olga: Person, books: Billing, world: World
) -> None:
    await billed(books, world, 2)
    await import_lines(olga, books, Line(DAY, 2792, "TN-LIVE-000001 + TN-LIVE-000002", reference="B1"))
    path = f"{LIVE}/transfers/" + await books.fetchval("SELECT id FROM bank_transfers")
    for page in (f"{LIVE}/inbox", path):
        text = re.sub(r"<[^>]+>|\n", "", (await olga.get(page)).text)
        assert "€13.95 for TN-LIVE-000001, €13.95 for TN-LIVE-000002; €0.02 would be left" in text
    said = await confirm(olga, f"{path}/assign", invoice="TN-LIVE-000001 TN-LIVE-000002")
    assert "which is then paid, and to invoice TN-LIVE-000002" in said
    await confirm(olga, f"{path}/return", reason="Too much")
    assert "waits for others to this account until" in (await olga.get(f"{LIVE}/returns")).text

"""Invoices, credit notes, receipts and the statement of account of an organisation."""

import csv
import html
import io
import re
from collections.abc import Callable

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_text
from tests.money.refunds.refund_scene import RefundScene
from tests.support.clock import ManualClock
from tests.support.people import Person, add_user, operator
from tests.support.world import SELLER, TESTER, World
from tonne.apps.dashboard import document_files
from tonne.apps.wiring.app import Services
from tonne.apps.workspace import statement_page
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.accounting.reports import document_list
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
FIRST = "TN-LIVE-000001"
HEAD = "booked_on,amount,currency,payer,reference\n"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With what live and electronic invoices need."""
    place = {"seller_country": "DE", "seller_street": "Hafen 7", "seller_postcode": "20095", "seller_city": "Hamburg"}
    return msgspec.structs.replace(settings, **SELLER, **place)


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    books = Billing(services, clock)
    await books.renew_rates()
    await books.add_admins(world.ours_live.scope.organisation_id, ADA)
    return books


@pytest.fixture
async def rea(services: Services, world: World, person: MakePerson) -> Person:
    """A member who may only look."""
    await add_user(services, "rea@ours.test", world.ours_test.scope.organisation_id, Role.READ_ONLY, name="Rea Sun")
    rea = person()
    await rea.sign_in("rea@ours.test")
    return rea


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/live/{world.ours_test.scope.organisation_id}"


async def book(books: Billing, *lines: str) -> None:
    async with books.database.transaction() as tx:
        file = SheetFile("november.csv", (HEAD + "\n".join(lines)).encode())
        await import_statement(tx, Mode.LIVE, file, settings=books.settings, by=TESTER.at(books.clock()))


async def test_invoices_are_listed_with_their_state_in_words(
    rea: Person, books: Billing, world: World, base: str, clock: ManualClock
) -> None:
    assert "No invoices yet." in (await rea.get(f"{base}/invoices")).text
    orders = [await books.place_order(world.ours_live.scope) for _ in range(4)]
    await books.work()
    await book(books, "2026-11-02,13.95,EUR,Ours Ltd,TN-LIVE-000001", "2026-11-02,3.95,EUR,Ours Ltd,TN-LIVE-000002")
    await books.cancel(orders[2], "Ordered twice")
    page = (await rea.get(f"{base}/invoices")).text
    states = re.findall(r'<span class="badge[^"]*">([^<]+)</span>', page)
    assert states == ["Open", "Cancelled", "Partly paid", "Paid"]
    assert "€10.00" in page
    opened = (await rea.get(f"{base}/invoices?show=open")).text
    assert re.findall(r">(TN-LIVE-\d+)<", opened) == ["TN-LIVE-000004", "TN-LIVE-000002"]
    clock.advance(days=32)
    await rea.sign_in("rea@ours.test")
    assert "2 days overdue" in (await rea.get(f"{base}/invoices")).text
    assert "CN-LIVE-000001" in (await rea.get(f"{base}/documents")).text
    assert (await rea.get(f"{base}/documents/CN-LIVE-000001/pdf")).content.startswith(b"%PDF")


async def test_the_page_of_an_invoice_says_how_to_pay(rea: Person, books: Billing, world: World, base: str) -> None:
    async with books.database.transaction() as tx:
        profile = {"country": "DE", "treatment": TaxTreatment.NONE}
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, profile, by=TESTER.at(books.clock()))
    order = await books.place_order(world.ours_live.scope)
    await books.work()
    page = (await rea.get(f"{base}/invoices/{FIRST}")).text
    for part in ("How to pay", "DE89 3704 0044 0532 0130 00", order.id, "<svg", "Left to pay"):
        assert part in page, part
    assert FIRST in pdf_text((await rea.get(f"{base}/documents/{FIRST}/pdf")).content)
    xml = await rea.get(f"{base}/documents/{FIRST}/cii")
    assert (xml.headers["content-type"], b"CrossIndustryInvoice" in xml.content) == ("application/xml", True)
    await book(books, "2026-11-02,13.95,EUR,Ada <b>GmbH</b>,TN-LIVE-000001")
    page = (await rea.get(f"{base}/invoices/{FIRST}")).text
    assert "How to pay" not in page
    assert "€13.95 by transfer from <bdi>Ada &lt;b&gt;GmbH&lt;/b&gt;</bdi>" in page


async def test_write_offs_are_not_shown_to_the_customer(rea: Person, books: Billing, world: World, base: str) -> None:
    await books.place_order(world.ours_live.scope)
    await books.work()
    await books.execute("UPDATE invoices SET written_off_at = now(), next_attempt_at = NULL")
    for path in ("/invoices", f"/invoices/{FIRST}", "/statement"):
        page = (await rea.get(base + path)).text.lower()
        assert "written" not in page
        assert "write" not in page


async def test_what_the_next_invoice_will_have(rea: Person, books: Billing, world: World, base: str) -> None:
    await books.set_billing(world.ours_live.scope, billing="monthly")
    for _ in range(2):
        await books.place_order(world.ours_live.scope)
    await books.work()
    page = (await rea.get(f"{base}/invoices")).text
    assert "Next invoice so far" in page
    # The sum is rounded once, not each order.
    assert "€27.89" in page
    assert "Dec 1, 2026" in page
    assert "Next invoice" not in (await rea.get(f"{base.replace('/live/', '/test/')}/invoices")).text


async def test_nothing_of_another_organisation_or_mode_is_shown(
    rea: Person, services: Services, books: Billing, world: World, *, base: str, person: MakePerson
) -> None:
    await books.place_order(world.ours_live.scope)
    await books.work()
    theirs = world.theirs_test.scope.organisation_id
    await add_user(services, "eve@theirs.test", theirs)
    eve, others = person(), f"/dashboard/live/{theirs}"
    await eve.sign_in("eve@theirs.test")
    for path in (f"/invoices/{FIRST}", f"/documents/{FIRST}/pdf", f"/documents/{FIRST}/cii"):
        assert (await rea.get(base.replace("/live/", "/test/") + path)).status_code == 404
        assert (await eve.get(others + path)).status_code == 404
    for path in ("/invoices", "/statement", "/statement/csv"):
        assert FIRST in (await rea.get(base + path)).text
        assert FIRST not in (await rea.get(base.replace("/live/", "/test/") + path)).text
        assert FIRST not in (await eve.get(others + path)).text


async def test_the_statement_of_account_has_balances_and_exports(
    rea: Person, books: Billing, world: World, base: str, *, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await books.place_order(world.ours_live.scope)
    await books.work()
    clock.turn_to(12, 2)
    await books.renew_rates()
    await books.place_order(world.ours_live.scope)
    await books.work()
    await book(books, "2026-12-02,13.95,EUR,Ours,TN-LIVE-000001")
    await rea.sign_in("rea@ours.test")
    period = "?from=2026-12-01&to=2026-12-31"
    page = (await rea.get(f"{base}/statement{period}")).text
    assert "Opening balance" in page
    this_month = (await rea.get(f"{base}/statement")).text
    assert "from=2026-11-01&amp;to=2026-11-30" in this_month
    assert "from=2026-01-01&amp;to=2026-12-31" in this_month
    november = (await rea.get(f"{base}/statement?from=2026-11-01&to=2026-11-30")).text
    assert "from=2026-12-01&amp;to=2026-12-02" in november
    assert re.search(r"Closing balance.*€13\.95", november, re.DOTALL)
    assert "Nothing was billed" in (await rea.get(f"{base}/statement?from=0001-01-01&to=0001-01-31")).text
    assert (await rea.get(f"{base}/statement?from=2026-01-01&to=9999-12-31")).status_code == 200
    monkeypatch.setattr(statement_page, "SHOWN_ENTRIES", 1)
    cut = (await rea.get(f"{base}/statement?from=2026-11-01&to=2026-12-31")).text
    assert "The first 1 of 3 entries; the closing balance is €13.95." in cut
    assert FIRST in cut
    assert "TN-LIVE-000002" not in cut
    rows = list(csv.reader(io.StringIO((await rea.get(f"{base}/statement/csv{period}")).text)))
    assert [(row[1], row[4], row[5]) for row in rows[1:]] == [
        ("opening_balance", "", "13.95"),
        ("invoice", "13.95", "27.90"),
        ("payment", "-13.95", "13.95"),
        ("closing_balance", "", "13.95"),
    ]
    pdf = await rea.get(f"{base}/statement/pdf/EUR{period}")
    assert "Statement of account" in " ".join(pdf_text(pdf.content).split())
    assert (await rea.get(f"{base}/statement/pdf/USD{period}")).status_code == 404
    faulty = await rea.get(f"{base}/statement?from=soon&to=2025-01-01")
    assert faulty.status_code == 422
    assert "Enter a date, such as 2026-11-30." in faulty.text
    assert "The last day is before the first." in faulty.text


async def test_card_payments_have_receipts(
    rea: Person, services: Services, world: World, clock: ManualClock, base: str
) -> None:
    scene, base = RefundScene(services, world.ours_test, clock), base.replace("/live/", "/test/")
    assert "No card payments yet." in (await rea.get(f"{base}/receipts")).text
    order = await scene.paid()
    await scene.allocate()
    await scene.refund(order, 500)
    await scene.send()
    page = (await rea.get(f"{base}/receipts")).text
    assert order.id in page
    assert "€5.00" in page
    [charge] = await scene.charges(order)
    receipt = (await rea.get(f"{base}/receipts/{charge['id']}")).text
    for part in ("Payment confirmation", "Offsets Ltd", "Hafen 7", order.id, "A test payment"):
        assert part in receipt, part
    assert (await rea.get(f"{base.replace('/test/', '/live/')}/receipts/{charge['id']}")).status_code == 404


async def test_documents_are_found_by_number_amount_and_buyer(
    rea: Person, person: MakePerson, books: Billing, world: World, base: str
) -> None:
    """By the organisation, and among those of all by the operator."""
    orders = [await books.place_order(world.ours_live.scope) for _ in range(2)]
    await books.place_order(world.theirs_test.scope)
    await books.work()
    await books.cancel(orders[1], "Ordered twice")
    await book(books, "2026-11-02,13.95,EUR,Ours Ltd,TN-LIVE-000001")
    olga = person()
    await operator(books.services, olga)

    async def found(person: Person, place: str, query: str = "") -> list[str]:
        page = (await person.get(f"{place}/documents{query}")).text
        return re.findall(r">((?:TN|CN)-(?:LIVE|TEST)-\d+)<", page)

    ours = ["CN-LIVE-000001", "TN-LIVE-000002", "TN-LIVE-000001"]
    for who, place in ((rea, base), (olga, "/operator/live")):
        assert sorted(await found(who, place)) == sorted(ours)
        assert await found(who, place, "?q=tn-live-000001") == ["TN-LIVE-000001"]
        assert sorted(await found(who, place, "?q=13.95")) == sorted(ours)
        assert await found(who, place, "?q=2") == ["TN-LIVE-000002"]
        assert sorted(await found(who, place, "?q=ours")) == sorted(ours)
        assert await found(who, place, "?q=nobody") == []
        assert "No document has this" in (await who.get(f"{place}/documents?q=nobody")).text
        page = (await who.get(f"{place}/documents")).text
        assert "Credit note for TN-LIVE-000002" in page
        for state in ("Paid", "Cancelled", "Issued"):
            assert f">{state}<" in page, state
    in_test, theirs = base.replace("live", "test"), "TN-TEST-000001"
    assert (await found(rea, in_test), await found(olga, "/operator/test")) == ([], [theirs])
    assert (await rea.get(f"{in_test}/documents/{theirs}/pdf")).status_code == 404
    assert (await olga.get(f"/operator/test/documents/{theirs}/pdf")).content.startswith(b"%PDF")
    for wrong in ("TN-LIVE-000001/zip", "TN-LIVE-000001/ubl", "TN-TEST-000001/pdf"):
        assert (await rea.get(f"{base}/documents/{wrong}")).status_code == 404, wrong


async def test_old_documents_are_found_by_number_at_once_and_otherwise_step_by_step(
    rea: Person, person: MakePerson, books: Billing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_list, "SCANNED", 2)
    base = f"/dashboard/live/{world.ours_test.scope.organisation_id}"
    for _ in range(3):
        await books.place_order(world.ours_live.scope)
        await books.work()
        books.clock.advance(days=1)
    olga = person()
    await operator(books.services, olga)
    await rea.sign_in("rea@ours.test")
    oldest, since = "TN-LIVE-000001", "since November 2, 2026"
    for who, place in ((rea, base), (olga, "/operator/live")):
        for exact in (oldest, oldest.lower(), "1", "000001"):
            assert f">{oldest}<" in (await who.get(f"{place}/documents?q={exact}")).text, exact
        page = (await who.get(f"{place}/documents?q=nobody")).text
        assert since in page
        [older] = re.findall(r'href="([^"]+)" rel="next"', page)
        page = (await who.get(html.unescape(older))).text
        assert (since in page, 'rel="next"' in page, "No document has this" in page) == (False, False, True)
        page = (await who.get(f"{place}/documents?q=13.95")).text
        assert (page.count(">TN-LIVE-"), "Search documents before November 2, 2026" in page) == (2, True)
        [older] = re.findall(r'href="([^"]+)" rel="next"', page)
        assert f">{oldest}<" in (await who.get(html.unescape(older))).text


async def test_long_lists_of_documents_have_pages(
    rea: Person, books: Billing, world: World, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_files, "PAGE", 2)
    for _ in range(3):
        await books.place_order(world.ours_live.scope)
    await books.work()
    first = (await rea.get(f"{base}/documents?q=ours")).text
    [more] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = (await rea.get(html.unescape(more))).text
    seen = [re.findall(r">(TN-LIVE-\d+)<", page) for page in (first, second)]
    assert [len(each) for each in seen] == [2, 1]
    assert len({*seen[0], *seen[1]}) == 3
    assert 'rel="next"' not in second

"""Every sale by card has a tax document, and what goes back is credited on it."""

import csv
import io
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest

from tests.money.refunds.documents_scene import DocumentsScene
from tests.support.api_client import ApiClient
from tests.support.world import ADDRESS, SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.check_month import SETTLING, check_month
from tonne.money.accounting.books.close_month import close_month
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.journal.read_journal import month_period
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.invoices.credit_notes.issue_credit_note import MailCreditNotes
from tonne.money.invoices.credit_notes.replace_invoice import StatedBuyer, replace_invoice
from tonne.money.invoices.documents.held_back import HeldBack, KnownFacts
from tonne.money.invoices.issuing.issue_documents import draft_document
from tonne.money.invoices.model import BilledOrganisation
from tonne.money.invoices.originals.render_documents import RenderDocuments
from tonne.money.invoices.store import find_invoice
from tonne.money.refunds.disputes.decide_tax import TaxDecision
from tonne.money.refunds.errors import TaxDecisionInvalid
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment, format_money
from tonne.platform.values.context import Mode, replace
from tonne.selling.accounts.store import add_admin
from tonne.selling.accounts.tax.tax_profile import TaxProfile, set_tax_profile
from tonne.selling.catalogue.prices.reference_rates import ReferenceRate, save_reference_rates
from tonne.selling.orders.buyer import BuyerDetails
from tonne.selling.orders.model import HoldReason, Order, OrderTax

FIRST, NOTE, SECOND = "TN-TEST-000001", "CN-TEST-000001", "TN-TEST-000002"
CLEARING, LOSSES, TAX = "Assets:Card-Clearing", "Expenses:Dispute-Losses", "Liabilities:Tax:S-19"


@pytest.fixture
async def scene(services: Services, world: World) -> DocumentsScene:
    scene = DocumentsScene(services, world.ours_test)
    profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
    async with scene.database.transaction() as tx:
        await set_tax_profile(tx, scene.scope.organisation_id, profile, by=TESTER.at(scene.clock()))
    return scene


def due(order: Order) -> int:
    return order.amount_due_minor or 0


async def test_a_captured_payment_has_a_prepaid_invoice(scene: DocumentsScene) -> None:
    order = await scene.paid()
    await scene.check_invariants()
    await scene.issue()
    await scene.issue()
    assert await scene.documents() == [(FIRST, due(order), None)]
    async with scene.database.connection() as connection:
        invoice = await find_invoice(connection, order.scope, order.id)
    assert invoice is not None
    record = invoice.read_record()
    assert (invoice.status, invoice.is_prepaid, record.paid_by_card) == ("paid", True, True)
    assert (record.paid_on, record.bank.iban, record.document) == (record.issued_on, None, "invoice")
    balances = await scene.balances()
    assert balances[CLEARING] == due(order)
    assert balances[TAX] == -(invoice.tax_minor or 0) < 0
    assert "Assets:Receivables" not in balances


async def test_a_refund_is_credited_when_it_has_succeeded(scene: DocumentsScene) -> None:
    order = await scene.documented()
    await scene.allocate()
    await scene.refund(order, 500)
    assert len(await scene.documents()) == 1, "it may still fail"
    await scene.send()
    assert (await scene.documents())[1:] == [(NOTE, 500, FIRST)]
    balances = await scene.balances()
    assert balances[CLEARING] == due(order) - 500
    period = month_period(scene.scope.mode, scene.clock().date().replace(day=1))
    by, settings = TESTER.at(period.end + SETTLING), scene.settings
    await scene.database.commit(close_month, scene.scope.mode, period.start.date(), settings=settings, by=by)
    async with scene.database.snapshot() as tx:
        text = "".join([each async for each in FILES["sales.csv"].write(tx, period)])
    *documents, total = csv.DictReader(io.StringIO(text))
    assert [each["number"] for each in documents] == [FIRST, NOTE]
    owed = format_money(-balances[TAX], "EUR")
    assert [total[name] for name in ("document", "tax_code", "tax", "booked_tax")] == ["total", "S-19", owed, owed]
    await scene.balances()


async def test_a_refund_before_the_document_is_credited_with_it(scene: DocumentsScene) -> None:
    order = await scene.paid()
    await scene.refund(order, 500)
    await scene.send()
    assert await scene.documents() == []
    await scene.issue()
    assert await scene.documents() == [(FIRST, due(order), None), (NOTE, 500, FIRST)]
    await scene.balances()


async def test_a_credit_note_whose_refund_failed_later_is_taken_back(scene: DocumentsScene) -> None:
    order = await scene.documented()
    await scene.refund_at_gateway(order, 500)
    await scene.check()
    assert (await scene.documents())[1:] == [(NOTE, 500, FIRST)]
    before = await scene.balances()
    await scene.fail_at_gateway()
    await scene.check()
    assert (await scene.documents())[2:] == [(SECOND, 500, NOTE)]
    after = await scene.balances()
    assert after[CLEARING] == before[CLEARING] + 500
    assert after[TAX] < before[TAX], "the tax is owed again"
    await scene.run_jobs(RenderDocuments(scene.database, scene.clock, scene.services.originals, share_percent=100))
    assert await scene.fetchval("SELECT count(*) FROM unrendered_documents") == 0, "its file, too"


async def test_a_credit_note_of_a_simplified_invoice_is_taken_back_by_a_simplified_invoice(
    services: Services, world: World
) -> None:
    scene = DocumentsScene(services, world.ours_test)
    async with scene.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19")}
        await set_tax_profile(tx, scene.scope.organisation_id, profile, by=TESTER.at(scene.clock()))
    order = await scene.documented()
    await scene.refund_at_gateway(order, 500)
    await scene.check()
    await scene.fail_at_gateway()
    await scene.check()
    assert await scene.documents() == [
        ("TS-TEST-000001", due(order), None),
        (NOTE, 500, "TS-TEST-000001"),
        ("TS-TEST-000002", 500, NOTE),
    ]
    assert (await scene.pdf("TS-TEST-000002")).startswith(b"%PDF")
    assert (await scene.balances())[CLEARING] == due(order)


async def test_what_goes_back_later_is_credited_on_the_invoice_that_replaced_the_first(scene: DocumentsScene) -> None:
    order = await scene.documented()
    before = await scene.balances()
    async with scene.database.transaction() as tx:
        found = await find_invoice(tx, order.scope, order.id)
        assert found is not None
        stated = StatedBuyer("Ours", "Kai 2", "20457", "Hamburg", "PO 4711")
        document = await replace_invoice(tx, found, stated, settings=scene.settings, by=TESTER.at(scene.clock()))
    assert await scene.documents() == [(FIRST, due(order), None), (NOTE, due(order), FIRST), (SECOND, due(order), NOTE)]
    record = document.electronic()
    assert (record.paid_by_card, record.due, record.buyer.reference) == (True, "0.00", "PO 4711")
    assert await scene.balances() == before
    await scene.refund(order, 500)
    await scene.send()
    assert (await scene.documents())[3:] == [("CN-TEST-000002", 500, SECOND)]
    await scene.cancel_with_refund(order)
    await scene.send()
    assert (await scene.documents())[4:] == [("CN-TEST-000003", due(order) - 500, SECOND)]
    assert await scene.balances() == {}


async def test_the_invoice_that_takes_a_mailed_credit_note_back_is_mailed_and_readable(
    scene: DocumentsScene, api: ApiClient, world: World
) -> None:
    order = await scene.documented()
    await scene.refund_at_gateway(order, 500)
    await scene.check()
    # As if the invoice had been mailed: those of checkout and of single card orders are not.
    async with scene.database.transaction() as tx:
        await add_admin(tx, scene.scope.organisation_id, "ada@ours.test", scene.clock())
    await scene.execute("UPDATE credit_notes SET next_attempt_at = $1", scene.clock())
    mailer = MailCreditNotes(scene.database, scene.clock, scene.settings, scene.services.originals)
    await scene.run_jobs(mailer)
    await scene.fail_at_gateway()
    await scene.check()
    await scene.run_jobs(mailer)
    subjects = "SELECT convert_from(message, 'UTF8') LIKE $1 AS found FROM mails ORDER BY created_at, id"
    pattern = f"%{SECOND} takes back credit note%{NOTE}%"
    assert [row["found"] for row in await scene.fetch(subjects, pattern)] == [False, True]
    keyed = api.as_key(world.ours_test.key)
    [note] = (await keyed.get(f"/v1/orders/{order.id}/credit-notes")).json()["data"]
    assert (note["number"], note["taken_back_by"]) == (NOTE, SECOND)
    answer = await keyed.get(f"/v1/credit-notes/{note['id']}?document=taken_back_by")
    assert answer.content == await scene.pdf(SECOND)
    await scene.balances()


async def test_an_order_that_is_cancelled_before_its_document_gets_none(scene: DocumentsScene) -> None:
    order = await scene.paid()
    await scene.cancel_with_refund(order)
    await scene.issue()
    await scene.send()
    assert await scene.documents() == []
    assert await scene.balances() == {}
    period = month_period(scene.scope.mode, scene.clock().date().replace(day=1))
    async with scene.database.connection() as connection:
        check = await check_month(connection, period, period.end + SETTLING)
    assert check.refusals == [], "the month can be closed"


async def test_a_cancelled_order_is_credited_with_the_cancellation(scene: DocumentsScene) -> None:
    order = await scene.documented()
    await scene.cancel_with_refund(order)
    assert (await scene.documents())[1:] == [(NOTE, due(order), FIRST)]
    await scene.send()
    assert await scene.balances() == {}


async def test_a_dispute_lost_before_delivery_takes_the_tax_back(scene: DocumentsScene) -> None:
    order = await scene.documented()
    await scene.dispute(order, DisputeState.OPENED)
    await scene.dispute(order, DisputeState.LOST)
    assert (await scene.documents())[1:] == [(NOTE, due(order), FIRST)]
    assert await scene.balances() == {}


async def test_a_person_decides_about_the_tax_of_a_dispute_lost_after_delivery(scene: DocumentsScene) -> None:
    order = await scene.documented()
    await scene.allocate()
    await scene.dispute(order, DisputeState.OPENED)
    await scene.dispute(order, DisputeState.LOST)
    assert len(await scene.documents()) == 1
    before = await scene.balances()
    assert before[LOSSES] == due(order)
    await scene.decide_tax(TaxDecision.CREDITED)
    assert (await scene.documents())[1:] == [(NOTE, due(order), FIRST)]
    after = await scene.balances()
    assert TAX not in after
    assert after[LOSSES] == due(order) + before[TAX], "the loss is smaller by the tax, and the revenue stays"
    with pytest.raises(TaxDecisionInvalid):
        await scene.decide_tax(TaxDecision.KEPT)


SETTINGS = msgspec.structs.replace(Settings(), **SELLER, seller_country="DE", seller_vat_id="DE136695976")
COMPANY = BuyerDetails(is_business=True, company="Ours GmbH", **ADDRESS)
PERSON = BuyerDetails(name="Ada", **ADDRESS)


@pytest.mark.parametrize(
    ("at_checkout", "minor", "treatment", "known", "expected"),
    [
        (True, 10_000, TaxTreatment.STANDARD, None, "simplified_invoice"),
        (True, 10_001, TaxTreatment.STANDARD, None, "lacks name street postcode city country"),
        (True, 10_001, TaxTreatment.STANDARD, PERSON, "invoice"),
        (True, 10_001, TaxTreatment.NONE, None, "invoice"),
        (True, 1, TaxTreatment.STANDARD, COMPANY, "invoice"),
        (True, 1, TaxTreatment.REVERSE_CHARGE, None, "lacks name street postcode city country"),
        (False, 1, TaxTreatment.STANDARD, ADDRESS, "invoice"),
        (False, 10_000, TaxTreatment.STANDARD, None, "simplified_invoice"),
        (False, 10_001, TaxTreatment.STANDARD, None, "lacks street postcode city country"),
        (False, 1, TaxTreatment.REVERSE_CHARGE, None, "lacks street postcode city country"),
        (False, 1, TaxTreatment.NONE, None, "invoice"),
    ],
)
async def test_the_kind_of_a_document_follows_from_the_buyer_and_the_amount(
    scene: DocumentsScene, *, at_checkout: bool, minor: int, treatment: TaxTreatment, known: object, expected: str
) -> None:
    order = _live(await scene.order(), minor, treatment, at_checkout=at_checkout)
    profile = TaxProfile(**known) if isinstance(known, dict) else TaxProfile()
    details = known if isinstance(known, BuyerDetails) else None
    if details is not None:
        profile = TaxProfile(**ADDRESS)
    kind, lacks = draft_document(order, BilledOrganisation("Ours", "", [], profile), details, SETTINGS, _facts(order))
    found = f"lacks {' '.join(lacks.details)}" if lacks else kind
    assert found == expected


@pytest.mark.parametrize("person", [None, PERSON], ids=["organisation", "person at checkout"])
async def test_reverse_charge_without_a_vat_id_is_held_back(scene: DocumentsScene, person: BuyerDetails | None) -> None:
    order = _live(await scene.order(), 1, TaxTreatment.REVERSE_CHARGE, at_checkout=person is not None)
    ours = BilledOrganisation("Ours", "", [], TaxProfile(**ADDRESS))
    _, lacks = draft_document(order, ours, person, SETTINGS, _facts(order))
    assert lacks.hold_reason == HoldReason.VAT_CHECK_MISSING
    assert "tonne org tax" in lacks.reason


async def test_the_note_of_the_merchant_is_not_printed_for_its_customers_at_checkout(scene: DocumentsScene) -> None:
    async with scene.database.transaction() as tx:
        own = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), "legal_note": "Frame contract 17"}
        await set_tax_profile(tx, scene.scope.organisation_id, own, by=TESTER.at(scene.clock()))
    order = await scene.order()
    await scene.execute("UPDATE orders SET offset_link_id = 'lnk_1' WHERE id = $1", order.id)
    await scene.run_jobs(scene.worker)
    await scene.issue()
    async with scene.database.connection() as connection:
        invoice = await find_invoice(connection, order.scope, order.id)
    assert invoice is not None
    assert [tax.note for tax in invoice.read_record().taxes] == [None]


@pytest.mark.parametrize(("tax_point", "rate"), [("payment", "11"), ("supply", "11.5"), ("invoice", "12")])
async def test_the_rate_is_that_of_the_tax_point(services: Services, world: World, tax_point: str, rate: str) -> None:
    settings = msgspec.structs.replace(services.settings, seller_country="SE", tax_point=tax_point)
    scene = DocumentsScene(services, world.ours_test, settings=settings)
    paid_on = scene.clock().date()
    async with scene.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.25"), **ADDRESS}
        await set_tax_profile(tx, scene.scope.organisation_id, profile, by=TESTER.at(scene.clock()))
        rates = [
            ReferenceRate("SEK", paid_on + timedelta(days=days), Decimal(each), "ECB")
            for days, each in ((0, "11"), (1, "11.5"), (3, "12"))
        ]
        await save_reference_rates(tx, rates, by=TESTER.at(scene.clock()))
    order = await scene.paid()
    scene.clock.now += timedelta(days=1)
    await scene.allocate()
    scene.clock.now += timedelta(days=2)
    await scene.issue()
    async with scene.database.connection() as connection:
        invoice = await find_invoice(connection, order.scope, order.id)
    assert invoice is not None
    home = invoice.read_record().home
    assert home is not None
    assert (home.currency, home.rate) == ("SEK", rate)


async def test_a_document_waits_for_the_settings_of_the_seller(scene: DocumentsScene) -> None:
    order = _live(await scene.order(), 1, TaxTreatment.STANDARD, at_checkout=True)
    _, lacks = draft_document(order, BilledOrganisation("Ours", "", []), None, Settings(), _facts(order))
    assert lacks == HeldBack(lacks.settings)
    assert "TONNE_SELLER_NAME" in lacks.settings
    assert "TONNE_BANK_IBAN" not in lacks.settings


def _facts(order: Order) -> KnownFacts:
    return KnownFacts(order.created_at)


def _live(order: Order, minor: int, treatment: TaxTreatment, *, at_checkout: bool) -> Order:
    assert order.priced is not None
    return replace(
        order,
        scope=replace(order.scope, mode=Mode.LIVE),
        priced=replace(order.priced, offset_cost_minor=minor, commission_minor=0, total_cost_minor=minor),
        tax=OrderTax(treatment, Fraction(0), 0),
        offset_link_id="lnk_1" if at_checkout else None,
    )

"""Tax from the order to the documents: a reverse-charge invoice, a checkout with tax, and an order by value."""

import io
from collections.abc import AsyncIterator
from decimal import Decimal

import httpx
import msgspec
import pypdf
import pytest

from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.money.invoices.billing import ADA, Billing, pdf_of
from tests.money.invoices.factur_x_rules import broken_rules
from tests.support.api_client import ApiClient
from tests.support.clock import MARCH, ManualClock
from tests.support.command import Operator
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.wiring.app import Services, build_app
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

SELLER = {
    "seller_name": "Beispiel Klima GmbH",
    "seller_street": "Hafenstraße 12",
    "seller_postcode": "20457",
    "seller_city": "Hamburg",
    "seller_country": "DE",
    "seller_vat_id": "DE136695976",
    "bank_iban": "DE89 3704 0044 0532 0130 00",
    "tax_treatment": "standard",
    "tax_rate": "19",
}
STATEMENT = "booked_on,amount,currency,payer,reference\n2026-03-05,{total},EUR,Marlowe SARL,{reference}\n"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
async def billing(populated_db: Database, settings: Settings, clock: ManualClock, world: World) -> Billing:
    """On 1 March, with an administrator."""
    billing = Billing(Services(populated_db, settings, clock), clock)
    await billing.add_admins(world.ours_live.scope.organisation_id, ADA)
    async with populated_db.transaction() as tx:
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, ADDRESS, by=TESTER.at(MARCH))
    await billing.renew_rates()
    return billing


@pytest.fixture
async def http(billing: Billing) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(billing.services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


async def test_a_reverse_charge_invoice_from_the_order_to_the_electronic_invoice(
    billing: Billing, world: World, http: httpx.AsyncClient, populated_db: Database
) -> None:
    # The operator sets the profile of a French customer of a German seller.
    operator = Operator(populated_db._url)
    profile = operator.does(
        "org",
        "tax",
        world.ours_live.scope.organisation_id,
        "--treatment",
        "reverse_charge",
        "--country",
        "FR",
        "--tax-id",
        "FR 83 404 833 048",
        "--street",
        "1 rue de la Paix",
        "--postcode",
        "75002",
        "--city",
        "Paris",
        "--buyer-reference",
        "PO 4711",
    )
    assert "FR83404833048" in profile
    # The customer orders, and pays no tax.
    api = ApiClient(http, world.ours_live.key)
    body = {
        "mass": {"amount": "1.105697", "unit": "t"},
        "bundle_selection": [{"bundle_id": world.bundles_live["forest-mix"]}],
        "reference": "booking 77",
    }
    order = (await api.post("/v1/orders/by-mass", body)).json()
    assert (order["tax"], order["amount_due"]) == ("0.00", order["total_cost"])
    operator.does("tax", "vat-check", "record", "FR83404833048", "--outcome", "valid")
    # The invoice is mailed, with the note, both tax ids and the electronic invoice.
    await billing.work()
    [mail] = await billing.mails()
    text = " ".join(pdf_of(mail).split())
    for said in (
        "Reverse charge",
        "Retirement of carbon credits: ",
        "DE136695976",
        "FR83404833048",
        "PO 4711",
        "booking 77",
    ):
        assert said in text
    [attached] = mail.iter_attachments()
    reader = pypdf.PdfReader(io.BytesIO(attached.get_content()))
    [xml] = reader.attachments["factur-x.xml"]
    assert broken_rules(xml) == []
    for fact in (b"<ram:CategoryCode>AE<", b">FR83404833048<", b"<ram:BuyerReference>PO 4711<", b">75002<"):
        assert fact in xml
    assert f"<ram:DuePayableAmount>{order['amount_due']}<".encode() in xml
    # Money for the total settles it.
    reference = reader.metadata.title.removeprefix("Invoice ") if reader.metadata and reader.metadata.title else ""
    file = SheetFile("march.csv", STATEMENT.format(total=order["amount_due"], reference=reference).encode())
    async with billing.database.transaction() as tx:
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock()))
    paid = (await api.get(f"/v1/orders/{order['id']}")).json()
    assert (paid["status"], paid["payment_state"]) == ("paid", "paid")
    await billing.check_invariants()


async def test_a_customer_pays_the_standard_rate_at_checkout(
    billing: Billing, world: World, http: httpx.AsyncClient
) -> None:
    link = await make_link(billing.services, world.ours_test.scope)
    shopper = Shopper(http)
    address = await shopper.begin(link, amount="1.5")
    page = await shopper.open(address)
    assert "Without tax" in page.text
    [asked] = form_of(page).values()["total"]
    assert "Thank you" in (await shopper.send(page)).text
    api = ApiClient(http, world.ours_test.key)
    [order] = (await api.get(f"/v1/orders?offset_link_id={link.id}")).json()["data"]
    cost, tax = Decimal(order["total_cost"]), Decimal(order["tax"])
    assert tax == round(cost * Decimal("0.19"), 2)
    assert Decimal(order["amount_due"]) == cost + tax == Decimal(asked) / 100
    assert await billing.fetchval("SELECT sum(amount_minor) FROM charges WHERE status = 'captured'") == int(asked)
    await billing.check_invariants()


async def test_an_order_by_value_never_costs_more_than_the_value_with_tax(
    billing: Billing, world: World, http: httpx.AsyncClient
) -> None:
    api = ApiClient(http, world.ours_live.key)
    body = {"value": "250.00", "bundle_selection": [{"bundle_id": world.bundles_live["forest-mix"]}]}
    quote = (await api.post("/v1/orders/by-value/quote", body)).json()
    order = (await api.post("/v1/orders/by-value", body)).json()
    assert [quote[name] for name in ("total_cost", "tax", "amount_due")] == [
        order[name] for name in ("total_cost", "tax", "amount_due")
    ]
    # 210.08 and 19 % are 250.00.
    assert (order["requested_value"], order["total_cost"], order["tax"]) == ("250.00", "210.08", "39.92")
    assert order["amount_due"] == "250.00"
    await billing.work()
    [mail] = await billing.mails()
    text = " ".join(pdf_of(mail).split())
    for said in ("Total without tax 210.08", "Tax 19 %, on 210.08 39.92", "EUR 250.00"):
        assert said in text
    await billing.check_invariants()

"""Who buys at checkout: asked, checked, charged with the tax that applies, and stored for the tax document."""

import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.channels.checkout.scene import Rows, age, work
from tests.channels.checkout.shopper import STOLEN_CARD, Shopper, form_of, make_link, signed
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.money.invoices.test_vat_checks import Vies
from tests.support.api_client import ApiClient, codes, fields
from tests.support.receivers import receiving
from tests.support.scene import Scene
from tests.support.tls import Authority
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.paying.buyers import AskedDetails, details_to_ask, read_buyer
from tonne.money.invoices.documents.record import InvoiceRecord
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode
from tonne.platform.values.errors import TonneError
from tonne.selling.orders.buyer import BuyerDetails

COMPANY = {
    "is_business": "1",
    "buyer_company": "Boulangerie du Port SARL",
    "buyer_street": "12 rue de la Paix",
    "buyer_postcode": "75002",
    "buyer_city": "Paris",
    "buyer_country": "FR",
    "buyer_vat_id": "fr 40 303 265 045",
    "buyer_reference": "PO 17",
}
STATED: dict[str, Any] = {
    "is_business": True,
    "name": None,
    "company": "Boulangerie du Port SARL",
    "street": "12 rue de la Paix",
    "postcode": "75002",
    "city": "Paris",
    "country": "FR",
    "vat_id": "FR40303265045",
    "reference": "PO 17",
}
PERSON = {
    "is_business": "",
    "buyer_name": "Ann Weber",
    "buyer_street": "Deichstraße 1",
    "buyer_postcode": "20459",
    "buyer_city": "Hamburg",
    "buyer_country": "DE",
}
BUYERS = "SELECT * FROM order_buyers"
ORDERS = "SELECT tax_treatment, tax_minor, total_cost_minor FROM orders"


@pytest.fixture
async def stripe() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as pages:
        yield pages


@pytest.fixture
async def vies(tmp_path: Any) -> AsyncIterator[tuple[Vies, Authority]]:
    authority = Authority(tmp_path)
    async with receiving(authority.context()) as receiver:
        yield Vies(receiver), authority


@pytest.fixture
def settings(settings: Settings, stripe: FakeStripePages, vies: tuple[Vies, Authority]) -> Settings:
    register, authority = vies
    return msgspec.structs.replace(
        settings,
        **SELLER,
        tax_treatment="standard",
        tax_rate="19",
        seller_country="DE",
        seller_vat_id="DE811569869",
        simplified_invoice_up_to="EUR 20",
        stripe_secret_key=LIVE_KEY,
        stripe_api_base=stripe.url,
        vies_url=register.url,
        webhook_allow_private="127.0.0.0/8",
        webhook_ca_file=str(authority.ca_file),
    )


@pytest.fixture(autouse=True)
async def _closing(services: Services) -> AsyncIterator[None]:
    yield
    for gateway in services.card_gateways.values():
        await gateway.close()


@pytest.fixture
async def live_link(services: Services, world: World) -> OffsetLink:
    return await make_link(services, world.ours_live.scope)


async def fill_in(shopper: Shopper, page: Any, **entered: str) -> Any:
    """Submit the payment form; returns the response, or the page after it."""
    form = form_of(page)
    answer = await shopper.http.post(form.action, data=form.values(**entered))
    return await shopper.open(answer.headers["location"]) if answer.status_code == 303 else answer


async def pay(services: Services, shopper: Shopper, stripe: FakeStripePages, page: Any) -> None:
    """On the page of the gateway, to which the form of this page leads."""
    assert page.status_code == 200
    session = [each for each in stripe.sessions.values() if each["status"] == "open"][-1]
    stripe.pay(session["id"])
    await shopper.open(session["success_url"].removeprefix("http://tonne.test"))
    await work(services)


def test_who_is_asked_and_what_is_demanded() -> None:
    settings = Settings(simplified_invoice_up_to="EUR 100, USD 120")
    asked = {
        (due, currency, treatment, mode): details_to_ask(due, currency, treatment, mode, settings)
        for due, currency, treatment, mode in (
            (100_00, "EUR", TaxTreatment.STANDARD, Mode.LIVE),
            (100_01, "EUR", TaxTreatment.STANDARD, Mode.LIVE),
            (120_00, "USD", TaxTreatment.EXEMPT, Mode.LIVE),
            (1, "GBP", TaxTreatment.EXEMPT, Mode.LIVE),
            (100_01, "EUR", TaxTreatment.STANDARD, Mode.TEST),
            (100_01, "EUR", TaxTreatment.NONE, Mode.LIVE),
        )
    }
    assert list(asked.values()) == [
        AskedDetails(of_person=False, is_demanded=True),
        AskedDetails(of_person=True, is_demanded=True),
        AskedDetails(of_person=False, is_demanded=True),
        # There is no amount for this currency.
        AskedDetails(of_person=True, is_demanded=True),
        AskedDetails(of_person=True, is_demanded=False),
        AskedDetails(),
    ]


def test_all_faults_of_the_details_are_found_at_once() -> None:
    def faulty(entered: BuyerDetails, asked: AskedDetails) -> list[str | None]:
        found: list[TonneError] = []
        read_buyer(entered, asked, found)
        return [fault.field for error in found for fault in error.faults]

    everything = AskedDetails(of_person=True, is_demanded=True)
    address = ["buyer_street", "buyer_postcode", "buyer_city", "buyer_country"]
    assert faulty(BuyerDetails(is_business=True), everything) == ["buyer_company", *address]
    assert faulty(BuyerDetails(), everything) == ["buyer_name", *address]
    assert faulty(BuyerDetails(), AskedDetails(is_demanded=True)) == [], "a simplified invoice"
    assert faulty(BuyerDetails(is_business=True), AskedDetails()) == [], "test mode"
    hong_kong = BuyerDetails(is_business=True, company="A", street="B", city="C", country="HKG")
    assert faulty(hong_kong, everything) == [], "a country without postcodes"
    wrong = BuyerDetails(is_business=True, company="x" * 201, city="\x00", country="XX", vat_id="DE1")
    assert faulty(wrong, AskedDetails()) == ["buyer_company", "buyer_city", "buyer_country"]
    german = BuyerDetails(is_business=True, country="DE", vat_id="FR40303265045")
    assert faulty(german, AskedDetails()) == ["buyer_vat_id"], "of another country"


async def test_a_business_abroad_sees_the_amount_without_tax_before_it_pays(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    [with_tax] = form_of(page).values()["total"]
    wrong = await fill_in(shopper, page, **COMPANY | {"buyer_vat_id": "FR40303265044"}, card_number="4242424242424242")
    assert (wrong.status_code, 'id="buyer_vat_id-fault"' in wrong.text) == (422, True)
    assert 'value="Boulangerie du Port SARL"' in wrong.text, "kept"
    changed = await fill_in(shopper, page, **COMPANY, card_number="4242424242424242")
    assert "The price has changed" in changed.text
    assert 'id="reverse-charge"' in changed.text
    [without] = form_of(changed).values()["total"]
    assert await rows(ORDERS) == []
    paid = await fill_in(
        shopper, changed, **COMPANY | {"buyer_vat_id": "FR40303265045"}, card_number="4242424242424242"
    )
    assert "Thank you" in paid.text
    [order] = await rows(ORDERS)
    assert (order["tax_treatment"], order["tax_minor"]) == ("reverse_charge", 0)
    assert order["total_cost_minor"] == int(without) < int(with_tax)
    [buyer] = await rows(BUYERS)
    assert {name: buyer[name] for name in STATED} == STATED


async def test_after_a_decline_the_details_can_be_corrected_but_not_the_tax(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    page = await shopper.open(await shopper.begin(link))
    german = COMPANY | {"buyer_country": "DE", "buyer_vat_id": ""}
    declined = await fill_in(shopper, page, **german, card_number=STOLEN_CARD)
    assert 'value="12 rue de la Paix"' in declined.text
    assert '<option value="DE" selected>' in declined.text
    refused = await fill_in(shopper, declined, **COMPANY, card_number="4242424242424242")
    assert "The tax of your order is fixed." in refused.text
    corrected = german | {"buyer_street": "Deichstraße 1"}
    assert "Thank you" in (await fill_in(shopper, declined, **corrected, card_number="4242424242424242")).text
    [buyer] = await rows(BUYERS)
    assert (buyer["street"], buyer["country"]) == ("Deichstraße 1", "DE")


async def test_in_live_mode_the_invoices_details_are_demanded_before_the_payment(
    shopper: Shopper, stripe: FakeStripePages, live_link: OffsetLink, rows: Rows
) -> None:
    small = await shopper.open(await shopper.begin(live_link, amount="1"))
    assert "buyer_name" not in small.text, "a simplified invoice"
    assert not stripe.sessions
    assert (await fill_in(shopper, small)).status_code == 200
    assert await rows(BUYERS) == []

    large = await shopper.open(await shopper.begin(live_link, amount="2"))
    unnamed = await fill_in(shopper, large)
    asked = re.findall(r'id="buyer_(\w+)-fault"', unnamed.text)
    assert (unnamed.status_code, asked) == (422, ["name", "street", "postcode", "city", "country"])
    company = await fill_in(shopper, large, is_business="1")
    assert re.findall(r'id="buyer_(\w+)-fault"', company.text)[0] == "company"
    assert len(stripe.sessions) == 1, "nothing was opened"
    assert (await fill_in(shopper, large, **PERSON)).status_code == 200
    [buyer] = await rows(BUYERS)
    assert (buyer["name"], buyer["is_business"], buyer["company"]) == ("Ann Weber", False, None)
    # The button that opens the gateway's page again has no fields.
    address = form_of(large).action.removesuffix("/pay")
    again = await fill_in(shopper, await shopper.open(address))
    assert again.status_code == 200
    assert await rows(BUYERS) == [buyer]


async def test_in_live_mode_the_register_confirms_the_vat_id_or_the_page_says_why_tax_is_charged(
    services: Services,
    shopper: Shopper,
    stripe: FakeStripePages,
    live_link: OffsetLink,
    rows: Rows,
    *,
    vies: tuple[Vies, Authority],
) -> None:
    register, _ = vies
    register.status = 503
    page = await shopper.open(await shopper.begin(live_link))
    [with_tax] = form_of(page).values()["total"]
    told = await fill_in(shopper, page, **COMPANY)
    assert "did not confirm this VAT ID" in told.text
    assert form_of(told).values()["total"] == [with_tax]
    assert not stripe.sessions
    # It is valid now, and nothing was ordered.
    register.status = 200
    changed = await fill_in(shopper, told, **COMPANY)
    assert 'id="reverse-charge"' in changed.text
    assert await rows(ORDERS) == []
    leaving = await fill_in(shopper, changed, **COMPANY)
    assert [order["tax_treatment"] for order in await rows(ORDERS)] == ["reverse_charge"]
    assert len(register.asked) == 2, "the answer is kept"
    await pay(services, shopper, stripe, leaving)
    [document] = await rows("SELECT reference, kind, record FROM tax_documents")
    assert (document["reference"], document["kind"]) == ("TN-LIVE-000001", "invoice")
    record = msgspec.json.decode(document["record"], type=InvoiceRecord)
    [tax], proof = record.taxes, record.buyer.vat_check
    assert proof is not None
    assert (tax.code, tax.tax, proof.consultation_number) == ("DE-AE", "0.00", "WAPIAAAAXyz123")
    assert "Reverse charge" in (tax.note or "")
    assert (record.buyer.name, record.buyer.tax_id) == (STATED["company"], STATED["vat_id"])
    scene = Scene(services)
    await scene.post_entries()
    await scene.check_invariants()

    register.known = {"valid": False}
    other = COMPANY | {"buyer_vat_id": "FR83404833048"}
    told = await fill_in(shopper, await shopper.open(await shopper.begin(live_link)), **other)
    assert "did not confirm this VAT ID" in told.text
    # With tax, as the page says.
    await fill_in(shopper, told, **other)
    assert sorted(order["tax_treatment"] for order in await rows(ORDERS)) == ["reverse_charge", "standard"]
    assert len(register.asked) == 3, "an invalid one is not asked about again today"


async def test_a_client_fills_in_the_details(
    services: Services, api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    buyer = {name: value for name, value in STATED.items() if value is not None} | {"vat_id": "40303265045"}
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1.5", "buyer": buyer}
    made = (await api.post("/v1/checkouts", body)).json()
    assert (made["buyer"], made["tax"]) == (STATED, "0.00")
    page = await shopper.open(made["url"].removeprefix("http://tonne.test"))
    assert "has changed" not in page.text
    assert "Thank you" in (await fill_in(shopper, page, **COMPANY, card_number="4242424242424242")).text
    [stored] = await rows(BUYERS)
    assert stored["vat_id"] == "FR40303265045"

    wrong = await api.post("/v1/checkouts", body | {"buyer": buyer | {"vat_id": "DE1", "city": "x\x01"}})
    assert (codes(wrong), fields(wrong)) == (["buyer_invalid"] * 2, ["buyer.city", "buyer.vat_id"])
    await api.post("/v1/checkouts", body)
    await age(
        services,
        "UPDATE checkouts SET expires_at = now() - interval '1 s', next_close_at = now() - interval '1 s' "
        "WHERE order_id IS NULL",
    )
    await work(services)
    assert await rows("SELECT buyer FROM checkouts WHERE order_id IS NULL") == [{"buyer": None}], "nothing was ordered"


async def test_a_signed_link_fills_in_the_details_and_leaves_out_what_is_wrong(
    shopper: Shopper, link: OffsetLink
) -> None:
    query: Any = {name: value for name, value in COMPANY.items() if name != "is_business"} | {"buyer_country": "XX"}
    page = await shopper.open(await shopper.begin(link, query=signed(link, **query)))
    assert 'value="1" checked' in page.text
    assert 'value="Boulangerie du Port SARL"' in page.text
    assert " selected>" not in page.text.partition('id="buyer_country"')[2].partition("</select>")[0]

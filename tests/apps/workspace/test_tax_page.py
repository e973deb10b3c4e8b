"""The address of an organisation, which Buy asks for and live invoices with tax wait for."""

from collections.abc import Callable

import msgspec
import pytest

from tests.money.invoices.billing import pdf_text
from tests.support.people import Person, add_user
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.accounts.tax.tax_profile import TaxProfile, find_tax_profile, set_tax_profile
from tonne.selling.accounts.tax.vat_checks import VatAnswer, VatOutcome, record_vat_check
from tonne.selling.users.model import Role


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, tax_treatment="standard", tax_rate="19")


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/live/{world.ours_live.scope.organisation_id}"


@pytest.fixture
async def fin(services: Services, world: World, person: Callable[[], Person]) -> Person:
    await add_user(services, "fin@ours.test", world.ours_live.scope.organisation_id, Role.FINANCE)
    fin = person()
    await fin.sign_in("fin@ours.test")
    return fin


async def profile_of(services: Services, world: World) -> TaxProfile:
    return await services.database.run(find_tax_profile, world.ours_live.scope.organisation_id)


async def test_buy_asks_for_the_address_before_the_first_live_order(
    services: Services, world: World, fin: Person, base: str
) -> None:
    answer = await fin.get(f"{base}/buy")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{base}/tax?then=buy")
    assert (await fin.get(f"{base.replace('live', 'test')}/buy")).status_code == 200
    page = await fin.get(f"{base}/tax?then=buy")
    assert "Before you buy" in page.text
    refused = await fin.submit(f"{base}/tax", street="Kai 1", postcode="", city="", country="DE", then="buy")
    assert "Enter the postcode." in refused.text
    assert "Enter the city." in refused.text
    assert 'value="Kai 1"' in refused.text
    assert (await profile_of(services, world)).street is None
    saved = await fin.submit(f"{base}/tax", **ADDRESS, then="buy")
    assert (saved.status_code, saved.headers["location"]) == (303, f"{base}/buy")
    assert await profile_of(services, world) == TaxProfile(**ADDRESS)
    assert (await fin.get(f"{base}/buy")).status_code == 200
    # A form that was open before cannot place an order either.
    async with services.database.transaction() as tx:
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, {"city": None}, by=TESTER.now())
    placed = await fin.submit(f"{base}/buy/order", account=world.ours_live.scope.account_id)
    assert placed.headers["location"] == f"{base}/tax?then=buy"


async def test_a_format_of_electronic_invoices_asks_for_what_it_needs(
    services: Services, world: World, fin: Person, base: str
) -> None:
    form = {**ADDRESS, "buyer_reference": "", "einvoice": "xrechnung", "endpoint": "9930:DE1"}
    said = (await fin.submit(f"{base}/tax", **form | {"endpoint": ""})).text
    assert "The electronic invoice needs the reference." in said
    assert "The electronic invoice needs the electronic address." in said
    wrong = {"endpoint": "123", "buyer_reference": "04011000-1234512345-06"}
    assert "such as 9930:DE811569869" in (await fin.submit(f"{base}/tax", **form | wrong)).text
    mail = {"endpoint": "EM:ap@ours.test", "einvoice": "peppol"}
    assert "Peppol takes no e-mail address" in (await fin.submit(f"{base}/tax", **form | mail)).text
    assert "Choose a format." in (await fin.submit(f"{base}/tax", **form | {"einvoice": "zip"})).text
    assert await profile_of(services, world) == TaxProfile()
    saved = await fin.submit(
        f"{base}/tax", **form | mail | {"einvoice": "", "buyer_reference": "04011000-1234512345-06"}
    )
    assert saved.status_code == 303
    assert "Your reference is a Leitweg-ID: choose XRechnung." in (await fin.get(f"{base}/tax")).text
    await fin.submit(f"{base}/tax", **form | {"buyer_reference": "04011000-1234512345-06"})
    profile = await profile_of(services, world)
    assert (profile.einvoice, profile.endpoint) == ("xrechnung", "9930:DE1")


async def test_the_country_that_the_tax_depends_on_stays(
    services: Services, world: World, fin: Person, base: str
) -> None:
    french = {"treatment": TaxTreatment.REVERSE_CHARGE, "country": "FR", "tax_id": "FR83404833048"}
    async with services.database.transaction() as tx:
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, french, by=TESTER.now())
    assert "changes it, because tax depends on it" in (await fin.get(f"{base}/tax")).text
    saved = await fin.submit(f"{base}/tax", **ADDRESS)
    assert saved.headers["location"] == f"{base}/tax?done=address"
    profile = await profile_of(services, world)
    assert (profile.country, profile.city, profile.treatment) == ("FR", "Hamburg", TaxTreatment.REVERSE_CHARGE)


async def test_orders_that_wait_for_it_need_attention(services: Services, world: World, fin: Person, base: str) -> None:
    said = "Orders wait for their invoice, which needs details of your organisation."
    assert said not in (await fin.get(f"{base}/overview")).text
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO billing_groups (id, organisation_id, mode, currency, billing, threshold_minor, order_count, "
            "exact_cost, hold_reason) "
            "VALUES ('bgr_1', $1, 'live', 'EUR', 'monthly', 0, 1, 5000000, 'buyer_details_missing')",
            world.ours_live.scope.organisation_id,
        )
    page = (await fin.get(f"{base}/overview")).text
    assert said in page
    assert f'{base}/tax"' in page


async def test_the_page_shows_how_the_organisation_is_taxed_and_takes_its_reference(
    services: Services, world: World, fin: Person, base: str
) -> None:
    organisation_id = world.ours_live.scope.organisation_id
    french = {"treatment": TaxTreatment.REVERSE_CHARGE, "country": "FR", "tax_id": "FR83404833048"}
    async with services.database.transaction() as tx:
        await set_tax_profile(tx, organisation_id, french, by=TESTER.now())
    page = (await fin.get(f"{base}/tax")).text
    assert "Not checked" in page
    assert "Reverse charge: you owe the tax" in page
    async with services.database.transaction() as tx:
        answer = VatAnswer(VatOutcome.VALID, "MARLOWE SARL")
        await record_vat_check(tx, "FR83404833048", None, answer, by=TESTER.now())
    saved = await fin.submit(f"{base}/tax", **ADDRESS, buyer_reference="PO 4711")
    assert saved.status_code == 303
    page = (await fin.get(f"{base}/tax")).text
    assert '<span class="badge">Valid</span>' in page
    assert "Reference PO 4711" in page
    # Before a purchase, the page asks for the address only.
    assert "buyer_reference" not in (await fin.get(f"{base}/tax?then=buy")).text
    await fin.submit(f"{base}/tax", **ADDRESS, then="buy")
    assert (await profile_of(services, world)).buyer_reference == "PO 4711"


async def test_the_page_has_a_preview_of_an_invoice(fin: Person, base: str) -> None:
    assert (await fin.submit(f"{base}/tax", **ADDRESS)).status_code == 303
    assert f"{base}/tax/preview.pdf" in (await fin.get(f"{base}/tax")).text
    answer = await fin.get(f"{base}/tax/preview.pdf")
    text = " ".join(pdf_text(answer.content).split())
    for part in ("PREVIEW", "Preview: this is not an invoice.", "Hafenstraße 12", "Tax 19 %, on 14.00", "16.66"):
        assert part in text, part
    form = {"buyer_reference": "PO 4711", "einvoice": "peppol", "endpoint": "9930:DE136695976"}
    await fin.submit(f"{base}/tax", **ADDRESS, **form)
    page = (await fin.get(f"{base}/tax")).text
    assert "Peppol BIS Billing 3" in page
    assert "<dd>9930:DE136695976</dd>" in page
    assert "has set what this format demands of the seller" in page

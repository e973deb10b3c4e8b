"""Credits are retired in the name that the account had when the order was placed."""

import hashlib
import io

import msgspec
import pypdf
import pytest
from PIL import Image

from tests.channels.public_pages.certificates import show_page
from tests.supply.retirements.shop import TONNE, Shop
from tonne.selling.accounts.logos.store import Logo, set_logo
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind
from tonne.supply.certificates.record import CertificateRecord
from tonne.supply.retirements.confirmations.work_list import export_tasks

SHARES = "SELECT beneficiary FROM shares WHERE order_id = $1"


async def test_money_3_an_order_keeps_the_beneficiary_it_was_placed_with(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    account = await live.account("Ada Ltd")
    # 1 March: placed. 10 April: the account is renamed. 12 April: the invoice is paid.
    order = await live.place(account, 2_300_000, "wind")
    live.clock.turn_to(4, 10)
    await live.rename(account, "Berta Ltd")
    live.clock.turn_to(4, 12)
    await live.pay(order)
    later = await live.buy(account, TONNE, "wind")
    await live.work()
    assert {row["beneficiary"] for row in await live.fetch(SHARES, order.id)} == {"Ada Ltd"}
    assert (await live.certificate(order))["beneficiary"] == "Ada Ltd"
    assert (await live.certificate(later))["beneficiary"] == "Berta Ltd"
    own = {cut.beneficiary for cut in await live.cuts() if not cut.shared}
    assert own == {"Ada Ltd", "Berta Ltd"}, "parcels have the name of their order, too"
    await live.check_invariants()


async def test_two_beneficiaries_of_one_account_in_one_batch(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    account = await live.account("Ada")
    for name in ("Ada", "Berta", "Ada"):
        await live.rename(account, name)
        await live.buy(account, 300_000, "wind")
    await live.work()
    assert [(cut.beneficiary, cut.allocated_grams) for cut in await live.cuts()] == [
        ("Ada", 600_000),
        ("Berta", 300_000),
    ]
    await live.check_invariants()


PERSON = BeneficiaryKind.PERSON


@pytest.mark.parametrize("is_public", [False, True])
async def test_people_1_the_name_of_a_person_is_on_the_certificate_and_at_no_registry(
    live: Shop, is_public: bool
) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    hotel = await live.account("Hotel Miramar")
    maria = Beneficiary("Maria Keller", PERSON, is_public=is_public)
    order = await live.buy(hotel, 2_300_000, "wind", beneficiary=maria)
    own = await live.buy(hotel, 300_000, "wind")
    await live.work()
    live.clock.advance(days=40)
    await live.work()
    tasks = await live.work_list()
    assert b"Maria" not in export_tasks(tasks)
    named = {task.named for task in tasks}
    assert named == {
        "customers of Hotel Miramar",
        "Tonne, on behalf of customers of Hotel Miramar",
        "Tonne, on behalf of Hotel Miramar",
    }
    await live.confirm(*tasks)
    await live.work()
    stored = await live.fetch("SELECT beneficiary FROM parcels UNION SELECT beneficiary FROM shares")
    assert {row["beneficiary"] for row in stored} == {"customers of Hotel Miramar", "Hotel Miramar", "Tonne"}
    certificate, shown = await live.certificate(order), await live.shown(order)
    assert (certificate["beneficiary"], shown["beneficiary"]) == ("Maria Keller", {"name": "Maria Keller"})
    assert {line["registry_name"] for line in certificate["lines"]} == {"customers of Hotel Miramar"}
    assert (shown["public_certificate_url"] is not None) is is_public
    assert (await live.certificate(own))["lines"][0]["registry_name"] is None
    await live.check_invariants()


async def test_money_8_each_order_may_name_another_organisation(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    account = await live.account("Platform AG")
    order = await live.buy(account, TONNE, "wind", beneficiary=Beneficiary("Fjord Bakery AS"))
    await live.work()
    assert [task.named for task in await live.work_list()] == ["Fjord Bakery AS"]
    await live.confirm(*await live.work_list())
    await live.work()
    certificate = await live.certificate(order)
    assert (certificate["beneficiary"], certificate["lines"][0]["registry_name"]) == ("Fjord Bakery AS", None)


async def test_a_certificate_keeps_the_logo_that_the_account_had(live: Shop) -> None:
    """Only in the account's own name: a person does not get the logo of the company that gave the credits."""
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    account = await live.account("Ada Ltd")
    await show_page(live.services, account)
    pixels = io.BytesIO()
    Image.new("RGB", (90, 30), (200, 80, 30)).save(pixels, "PNG")
    async with live.database.transaction() as tx:
        await set_logo(tx, account, Logo("image/png", pixels.getvalue()))
    own = await live.buy(account, TONNE, "wind")
    person = await live.buy(account, TONNE, "wind", beneficiary=Beneficiary("Maria", BeneficiaryKind.PERSON))
    other = await live.buy(account, TONNE, "wind", beneficiary=Beneficiary("Berta Ltd", BeneficiaryKind.ORGANISATION))
    await live.work()
    async with live.database.transaction() as tx:
        await set_logo(tx, account, None)
    certificates = [msgspec.convert(await live.certificate(each), CertificateRecord) for each in (own, person, other)]
    assert [each.logo for each in certificates] == [hashlib.sha256(pixels.getvalue()).hexdigest(), None, None]
    assert {each.language for each in certificates} == {own.language}
    pdf = await live.services.render_certificate.render(certificates[0])
    assert len(pypdf.PdfReader(io.BytesIO(pdf)).pages[0].images) == 1
    await live.check_invariants()

"""What once needed a shell: approvals, mismatched payments, payouts, credit notes, tax profiles, erasing a person."""

import json
import re
from collections.abc import Callable

import msgspec
import pytest

from tests.apps.backoffice.statement_desk import LIVE, import_lines
from tests.apps.backoffice.test_money import DAY, TEST, billed, confirm
from tests.channels.checkout.scene import work
from tests.channels.checkout.shopper import Shopper, make_link
from tests.money.cards.card_scene import total
from tests.money.invoices.bank import ADA_IBAN, EVE_IBAN, Line
from tests.money.invoices.billing import ADA, Billing, pdf_text
from tests.money.refunds.refund_scene import RefundScene
from tests.money.refunds.test_mismatched import mismatched
from tests.support.clock import ManualClock
from tests.support.people import TOKEN, Person, operator
from tests.support.world import SELLER, World
from tonne.apps.backoffice.money.approvals_page import KINDS
from tonne.apps.wiring.app import Services
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.settle_invoice import write_off_invoice
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.accounts.tax.tax_profile import TaxProfile, find_tax_profile
from tonne.selling.users.approvals import ApprovalKind

MakePerson = Callable[[], Person]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER, refund_approval_above="EUR 1", return_approval_above=10)


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    books = Billing(services, clock)
    await books.renew_rates()
    await books.add_admins(world.ours_live.scope.organisation_id, ADA)
    return books


@pytest.fixture
def scene(services: Services, world: World, clock: ManualClock) -> RefundScene:
    return RefundScene(services, world.ours_test, clock)


def test_the_page_of_approvals_knows_every_kind() -> None:
    assert KINDS.keys() == {*ApprovalKind}


async def test_refunds_that_wait_name_who_asked_and_who_has_approved(
    services: Services, scene: RefundScene, olga: Person, person: MakePerson
) -> None:
    refund = await scene.refund(await scene.paid(), 1100, actor=Actor(ActorKind.CLI, "ada@ops-1"))
    page = (await olga.get(f"{TEST}/approvals")).text
    assert f'href="{TEST}/refunds/{refund.id}"' in page
    assert "ada@ops-1 (command line)" in page
    assert "€11.00" in page
    assert "One more person" not in page
    await confirm(olga, f"{TEST}/refunds/{refund.id}/approve")
    mine = (await olga.get(f"{TEST}/approvals")).text
    assert "Approved by Olga Berg" in mine
    assert "Another person must" in mine
    omar = person()
    await operator(services, omar, "omar@tonne.test", "Omar Diaz")
    assert "One more person" in (await omar.get(f"{TEST}/approvals")).text
    await confirm(omar, f"{TEST}/refunds/{refund.id}/approve")
    assert "Nothing waits." in (await olga.get(f"{TEST}/approvals")).text


async def test_returns_show_both_accounts_and_write_offs_their_invoice(
    books: Billing, world: World, olga: Person
) -> None:
    await import_lines(olga, books, Line(DAY, 5000, "a mistake", iban=EVE_IBAN))
    [transfer] = await books.fetch("SELECT id FROM bank_transfers")
    fields = {"reason": "A mistake", "iban": ADA_IBAN, "name": "Ada"}
    await confirm(olga, f"{LIVE}/transfers/{transfer['id']}/return", **fields)
    orders = await billed(books, world)
    await books.execute("UPDATE orders SET status = 'complete' WHERE id = $1", orders[0].id)
    async with books.database.transaction() as tx:
        invoice = await find_by_number_any_account(tx, "TN-LIVE-000001", None)
        by = Actor(ActorKind.KEY, "key_1").at(books.clock())
        await write_off_invoice(tx, invoice, reason="Insolvent", releases_credit=False, settings=books.settings, by=by)
    page = (await olga.get(f"{LIVE}/approvals")).text
    row = page.partition("Return<")[2].partition("</tr>")[0]
    assert row.index(EVE_IBAN) < row.index(ADA_IBAN)
    assert "Another account" in row
    assert "Another person must" in page.partition("Return<")[2].partition("</tr>")[0], "Olga planned it"
    assert f'href="{LIVE}/invoices/TN-LIVE-000001"' in page
    assert "Insolvent" in page


async def test_a_mismatched_payment_is_accepted_or_sent_back(scene: RefundScene, olga: Person) -> None:
    (kept, kept_charge), (sent, sent_charge) = await mismatched(scene, 1), await mismatched(scene, -1)
    page = (await olga.get(f"{TEST}/payments")).text
    assert kept_charge in page
    assert sent_charge in page
    assert (await olga.submit(f"{TEST}/payments/{kept_charge}/accept")).status_code == 422, "no reason"
    shown = await confirm(olga, f"{TEST}/payments/{kept_charge}/accept", reason="Agreed by phone")
    assert "0.01 EUR above the amount go back" in shown
    shown = await confirm(olga, f"{TEST}/payments/{sent_charge}/return", reason="A mistake")
    assert f"Order {sent.id} is cancelled." in shown
    await scene.send()
    assert (await scene.money(kept))[:2] == ("paid", "paid")
    assert (await scene.money(sent))[:2] == ("cancelled", "unpaid")
    assert sorted(await scene.taken()) == [0, total(kept)]
    actions = [each["actor"].partition("_")[0] for each in await scene.audited("charge.accepted")]
    assert actions == ["user:usr"]
    again = await olga.submit(f"{TEST}/payments/{kept_charge}/accept", reason="Twice")
    assert again.status_code == 422


async def test_payouts_are_imported_and_a_wrong_file_changes_nothing(scene: RefundScene, olga: Person) -> None:
    async def upload(content: str) -> tuple[int, str]:
        found = TOKEN.search((await olga.get(f"{LIVE}/payments")).text)
        assert found is not None
        files = {"payouts": ("payouts.csv", content.encode(), "text/csv")}
        answer = await olga.http.post(f"{LIVE}/payments", data={"form_token": found[1]}, files=files)
        return answer.status_code, answer.headers.get("location", answer.text)

    head = "payout_id,paid_on,currency,amount,fee\n"
    wrong = await upload(f"{head}po_1,2026-11-01,EUR,x,0.50\n")
    assert (wrong[0], "is not an amount" in wrong[1]) == (422, True)
    row = f"{head}po_1,2026-11-01,EUR,97.50,2.50\n"
    assert (await upload(row))[1].endswith("?done=payouts_imported")
    assert (await upload(row))[1].endswith("?done=payouts_known")
    assert "po_1" in (await olga.get(f"{LIVE}/payments")).text
    assert await scene.fetchval("SELECT count(*) FROM gateway_payouts WHERE mode = 'live'") == 1


async def test_a_credit_note_reduces_an_open_invoice(books: Billing, world: World, olga: Person) -> None:
    await billed(books, world)
    path = f"{LIVE}/invoices/TN-LIVE-000001"
    for amount in ("", "0", "1.001", "100"):
        refused = await olga.submit(f"{path}/credit", credit_amount=amount, credit_reason="Discount", confirmed="yes")
        assert refused.status_code == 422, amount
    shown = await confirm(olga, f"{path}/credit", credit_amount="3,95", credit_reason="Discount")
    assert "3.95 EUR" in shown
    assert await books.fetchval("SELECT credited_minor FROM invoices") == 395
    page = (await olga.get(path)).text
    assert "CN-LIVE-000001" in page


async def test_the_tax_profile_of_a_customer(services: Services, world: World, olga: Person) -> None:
    organisation_id = world.ours_live.scope.organisation_id
    path = f"/operator/live/customers/{organisation_id}/tax"
    fields = {"treatment": "standard", "rate": "8,1", "country": "FR", "tax_id": "FR40303265045", "city": "Paris"}
    wrong = await olga.submit(path, **fields | {"tax_id": "FR40303265044"})
    assert (wrong.status_code, "is not a valid VAT number" in wrong.text) == (422, True)
    assert 'value="Paris"' in wrong.text, "kept"
    assert (await olga.submit(path, **fields | {"rate": "x"})).status_code == 422
    assert (await olga.submit(path, **fields)).status_code == 303
    profile = await services.database.run(find_tax_profile, organisation_id)
    assert (profile.treatment, str(profile.rate), profile.city) == (TaxTreatment.STANDARD, "0.08100", "Paris")
    assert 'value="8.1"' in (await olga.get(path)).text
    assert (await olga.submit(path, **fields | {"treatment": "", "rate": "8.1"})).status_code == 303
    profile = await services.database.run(find_tax_profile, organisation_id)
    assert (profile.treatment, profile.rate) == (None, None)


async def test_a_preview_shows_the_invoice_of_other_settings_and_saves_nothing(
    services: Services, world: World, olga: Person
) -> None:
    organisation_id = world.ours_live.scope.organisation_id
    path = f"/operator/live/customers/{organisation_id}/tax"
    assert f'formaction="{path}/preview"' in (await olga.get(path)).text
    fields = {"treatment": "reverse_charge", "rate": "", "country": "FR", "tax_id": "FR40303265045"}
    address = {"street": "12 rue du Port", "postcode": "75001", "city": "Paris", "buyer_reference": "PO 4711"}
    answer = await olga.submit(f"{path}/preview", **fields, **address)
    assert answer.headers["content-type"] == "application/pdf"
    text = pdf_text(answer.content)
    for part in ("PREVIEW", "12 rue du Port", "PO 4711", "FR40303265045", "Reverse charge"):
        assert part in text, part
    wrong = await olga.submit(f"{path}/preview", **fields | {"tax_id": "FR40303265044"})
    assert wrong.headers["content-type"].startswith("text/html")
    assert "is not a valid VAT number" in wrong.text
    assert await services.database.run(find_tax_profile, organisation_id) == TaxProfile()


async def test_a_person_is_found_exported_and_erased(
    services: Services, world: World, scene: RefundScene, olga: Person
) -> None:
    link = await make_link(services, world.ours_test.scope)
    shopper = Shopper(olga.http)
    await shopper.pay(await shopper.begin(link, email="ada@example.com"))
    find = "/operator/live/persons"
    assert (await olga.submit(find, who="")).status_code == 422
    waiting = await olga.submit(find, who="ada@example.com")
    assert "Cannot be erased yet" in waiting.text
    refused = await olga.submit(f"{find}/erase", who="ada@example.com", confirmed="yes")
    assert (refused.status_code, "cannot be erased yet" in refused.text) == (422, True)
    await work(services)
    await scene.execute("UPDATE checkouts SET next_mail_at = NULL")
    found = await olga.submit(find, who="Ada@example.com")
    assert "Orders of the person" in found.text
    file = await olga.submit(f"{find}/export", who="ada@example.com")
    assert {each["type"] for each in json.loads(file.content)} >= {"order", "checkout", "event"}
    unticked = await olga.submit(f"{find}/erase", who="ada@example.com")
    assert unticked.status_code == 422
    assert "Erase the person" in unticked.text, re.sub(r"<[^>]+>|\s+", " ", unticked.text)
    assert (await olga.submit(f"{find}/erase", who="ada@example.com", confirmed="yes")).status_code == 303
    assert await scene.fetchval("SELECT email FROM orders WHERE offset_link_id IS NOT NULL") == "erased"
    assert "Nothing is held about this person." in (await olga.submit(find, who="ada@example.com")).text
    actions = await scene.fetch("SELECT action FROM audit_log WHERE action LIKE 'person.%' ORDER BY id")
    assert [each["action"] for each in actions] == ["person.exported", "person.erased"]

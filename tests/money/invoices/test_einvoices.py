"""Organisations that want an electronic invoice in UBL: what it waits for, and where it goes."""

import os
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec import structs

from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_held_back import CHECK
from tests.money.invoices.test_ubl import UBL_SELLER
from tests.money.invoices.ubl_rules import broken_ubl_rules
from tests.support.command import Operator
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.lookup.order_view import describe_order
from tonne.apps.wiring.app import Services, build_app
from tonne.money.invoices.documents.einvoice_fields import RecordRefused
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.store import insert_invoices
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import SettingsError
from tonne.platform.values.context import new_id
from tonne.platform.values.einvoice import EInvoiceFormat, can_receive, parse_endpoint
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

OF_SELLER = {
    "tax_treatment": "standard",
    "tax_rate": "19",
    "seller_country": "DE",
    "seller_vat_id": "DE136695976",
    "seller_street": "Hafenstraße 12",
    "seller_postcode": "20457",
    "seller_city": "Hamburg",
    "seller_email": "billing@klima.example",
}
OF_EINVOICE = {
    "seller_endpoint": UBL_SELLER.endpoint,
    "seller_contact_name": UBL_SELLER.contact_name,
    "seller_phone": UBL_SELLER.phone,
}
OF_BUYER = {"buyer_reference": "04011000-1234512345-06", "endpoint": "0204:04011000-1234512345-06"}


def billing_with(billing: Billing, **settings: object) -> Billing:
    """As after a restart with other settings."""
    changed = structs.replace(billing.settings, **OF_SELLER | settings)
    return Billing(Services(billing.database, changed, billing.clock), billing.clock)


async def want(billing: Billing, world: World, **changes: object) -> None:
    async with billing.database.transaction() as tx:
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, changes, by=TESTER.at(billing.clock()))


async def test_a_live_invoice_waits_for_what_its_format_needs(billing: Billing, world: World) -> None:
    await want(billing, world, **ADDRESS, einvoice=EInvoiceFormat.XRECHNUNG)
    missing = billing_with(billing)
    order = await missing.place_order(world.ours_live.scope)
    await missing.work()
    async with billing.database.transaction() as tx:
        names = "TONNE_SELLER_ENDPOINT, TONNE_SELLER_CONTACT_NAME, TONNE_SELLER_PHONE"
        described = await describe_order(tx, order, missing.settings, billing.clock())
        assert f"{names} are not set" in described.invoice_state
        [place] = (await find_waiting(tx, missing.settings, billing.clock()))[CHECK]
        assert place.endswith(f"{names} not set")
    complete = billing_with(billing, **OF_EINVOICE)
    billing.clock.now += HELD_BACK_RETRY
    await complete.work()
    async with billing.database.transaction() as tx:
        described = await describe_order(tx, order, complete.settings, billing.clock())
        assert "the buyer's electronic address, reference are missing" in described.invoice_state
    assert await billing.fetchval("SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'live'") == 0
    await want(billing, world, **OF_BUYER)
    billing.clock.now += HELD_BACK_RETRY
    await complete.work()
    assert (await complete.invoice(order)).formats == [*FileFormat]
    await complete.check_invariants()


@pytest.mark.parametrize("wanted", EInvoiceFormat)
async def test_mail_download_and_command_have_the_same_ubl(
    billing: Billing, world: World, operator: Operator, tmp_path: Path, wanted: EInvoiceFormat
) -> None:
    """That of the invoice, and that of its credit note."""
    billing = billing_with(billing, **OF_EINVOICE)
    # Peppol takes the reference of the order.
    reference = None if wanted is EInvoiceFormat.PEPPOL else OF_BUYER["buyer_reference"]
    await want(billing, world, **ADDRESS, **OF_BUYER | {"buyer_reference": reference}, einvoice=wanted)
    order = await billing.place_order(world.ours_live.scope, reference="PO 4711")
    await billing.work()
    # What the organisation wants afterwards is for later documents.
    await want(billing, world, einvoice=None)
    await billing.cancel(order)
    await billing.work()
    mails = {mail["Subject"].split(":")[0]: mail for mail in await billing.mails()}
    number, path = (await billing.invoice(order)).reference, tmp_path / "invoice.xml"
    app = build_app(Services(billing.database, billing.settings, billing.clock))
    headers = {"Authorization": f"Bearer {world.ours_live.key}"}
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tonne.test", headers=headers)
    [note] = (await client.get(f"/v1/orders/{order.id}/credit-notes")).json()["data"]
    for subject, commands, url in (
        (f"Invoice {number}", ("pdf", number), f"orders/{order.id}/invoice"),
        (
            f"Invoice {number} has been cancelled",
            ("credit-pdf", number.replace("TN", "CN")),
            f"credit-notes/{note['id']}",
        ),
    ):
        [_, ubl] = mails[subject].iter_attachments()
        assert (ubl.get_filename(), ubl.get_content_type()) == (f"{commands[1]}-ubl.xml", "application/xml")
        content = ubl.get_payload(decode=True)
        assert isinstance(content, bytes)
        assert broken_ubl_rules(content) == []
        operator.does("invoice", *commands, "--format", "ubl", "-o", str(path))
        assert path.read_bytes() == content
        answer = await client.get(f"/v1/{url}?format=ubl")
        assert (answer.headers["content-type"], answer.content) == ("application/xml", content)
    assert (await client.get(f"/v1/orders/{order.id}/invoice?format=zip")).status_code == 400


async def test_without_a_format_there_is_no_ubl(billing: Billing, world: World, operator: Operator) -> None:
    await billing.add_admins(world.ours_live.scope.organisation_id, ADA)
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    [mail] = await billing.mails()
    assert len([*mail.iter_attachments()]) == 1
    reference = (await billing.invoice(order)).reference
    said = operator.is_refused("invoice", "pdf", reference, "--format", "ubl", "-o", "never.xml")
    assert "no electronic invoice in this format" in said


async def test_a_test_document_does_not_wait_and_has_no_incomplete_ubl(billing: Billing, world: World) -> None:
    billing = billing_with(billing)
    await want(billing, world, **ADDRESS, einvoice=EInvoiceFormat.PEPPOL)
    order = await billing.place_order(world.ours_test.scope)
    await billing.work()
    assert (await billing.invoice(order)).formats == [FileFormat.PDF, FileFormat.CII]


async def test_a_record_that_contradicts_itself_takes_no_number(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    invoice = await billing.invoice(order)
    wrong = msgspec.json.encode(structs.replace(invoice.read_record(), total="1.00"))
    again = structs.replace(invoice, id=new_id("inv"), number=2, reference="TN-LIVE-000002", record=wrong)
    with pytest.raises(RecordRefused, match=r"are not the total 1\.00"):
        async with billing.database.transaction() as tx:
            await insert_invoices(tx, [again], billing.clock())


ENDPOINTS = {
    " 9930: DE811569869": "9930:DE811569869",
    "0088:7300010000001": "0088:7300010000001",
    "0088:7300010000002": "wrong check digits",
    "em:ap@marlowe.example": "EM:ap@marlowe.example",
    "EM:ap": "not an e-mail address",
    "9999:1234": "not a scheme",
    "DE811569869": "is a scheme and an id",
    "0192:991825827": "0192:991825827",
    "0208:0202239951": "0208:0202239951",
    "0184:DK13585628": "0184:DK13585628",
    "0007:5567321707": "0007:5567321707",
    "0151:51824753556": "0151:51824753556",
}


def test_electronic_addresses() -> None:
    for entered, expected in ENDPOINTS.items():
        try:
            found = parse_endpoint(entered)
        except ValueError as error:
            found = str(error)
        assert expected in found, entered
    assert not can_receive("EM:ap@marlowe.example", EInvoiceFormat.PEPPOL)
    assert can_receive("EM:ap@marlowe.example", EInvoiceFormat.XRECHNUNG)


def sent_to(folder: Path) -> dict[str, str | None]:
    """Settings of a seller whose electronic invoices go there."""
    return OF_SELLER | OF_EINVOICE | {"einvoice_network": "folder", "einvoice_folder": str(folder)}


def folder_of(billing: Billing, folder: Path) -> Billing:
    return billing_with(billing, **sent_to(folder))


async def sent(billing: Billing, world: World) -> str:
    """The number of an invoice that is due for the network."""
    await want(billing, world, **ADDRESS, **OF_BUYER, einvoice=EInvoiceFormat.XRECHNUNG)
    order = await billing.place_order(world.ours_live.scope)
    await billing.place_order(world.ours_test.scope)
    await billing.work()
    return (await billing.invoice(order)).reference


async def states(billing: Billing) -> list[str]:
    return [row["state"] for row in await billing.fetch("SELECT state FROM einvoice_deliveries")]


async def test_a_folder_gets_the_file_and_a_manifest_instead_of_the_mail(
    billing: Billing, world: World, operator: Operator, tmp_path: Path
) -> None:
    billing = folder_of(billing, tmp_path)
    number = await sent(billing, world)
    assert await states(billing) == ["due"], "recorded before it is sent, and only live"
    refused = operator.is_refused("einvoice", "delivered", number)
    assert "was sent" in refused
    await billing.services.send_einvoices.run_once()
    assert sorted(os.listdir(tmp_path)) == [f"{number}.json", f"{number}.xml"]  # noqa: PTH208 - a test
    manifest = msgspec.json.decode((tmp_path / f"{number}.json").read_bytes())
    assert (manifest["receiver"], manifest["format"]) == (OF_BUYER["endpoint"], "xrechnung")
    assert broken_ubl_rules((tmp_path / f"{number}.xml").read_bytes()) == []
    [mail] = [each for each in await billing.mails() if number in each["Subject"]]
    assert len([*mail.iter_attachments()]) == 1
    assert await states(billing) == ["unknown"]
    assert not await billing.services.send_einvoices.run_once()
    operator.does("einvoice", "refused", number, "--reason", "Unknown receiver")
    assert "Unknown receiver" in operator.does("einvoice", "list")
    async with billing.database.transaction() as tx:
        found = await find_waiting(tx, billing.settings, billing.clock())
    assert found["electronic invoices were accepted"][0].endswith(": Unknown receiver")
    operator.does("einvoice", "delivered", number)
    assert await states(billing) == ["accepted"]
    assert operator.does("einvoice", "list") == "No electronic invoices."


async def test_a_lost_answer_is_looked_up_before_it_is_sent_again(
    billing: Billing, world: World, tmp_path: Path
) -> None:
    billing = folder_of(billing, tmp_path)
    number = await sent(billing, world)
    job = billing.services.send_einvoices
    lost = "UPDATE einvoice_deliveries SET state = 'sending', next_attempt_at = $1"
    await billing.execute(lost, billing.clock())
    await job.run_once()
    (tmp_path / f"{number}.xml").write_text("kept")
    await billing.execute(lost, billing.clock())
    await job.run_once()
    assert (tmp_path / f"{number}.xml").read_text() == "kept"
    assert await states(billing) == ["unknown"]


async def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TONNE_EINVOICE_FOLDER"):
        load_settings({"TONNE_EINVOICE_NETWORK": "folder", "TONNE_EINVOICE_FOLDER": str(tmp_path / "none")})
    with pytest.raises(SettingsError, match="TONNE_SELLER_ENDPOINT"):
        load_settings({"TONNE_SELLER_ENDPOINT": "DE811569869"})
    representative = {
        "TONNE_TAX_REPRESENTATIVE_NAME": "Steuer & Partner",
        "TONNE_TAX_REPRESENTATIVE_ADDRESS": "Hamburg",
        "TONNE_TAX_REPRESENTATIVE_VAT_ID": "DE136695976",
    }
    assert load_settings(representative).tax_representative_name == "Steuer & Partner"
    for name, value in dict.fromkeys(representative, "").items() | {"TONNE_TAX_REPRESENTATIVE_VAT_ID": "12"}.items():
        with pytest.raises(SettingsError, match="TONNE_TAX_REPRESENTATIVE_VAT_ID"):
            load_settings(representative | {name: value})

"""Live invoices wait until the settings about the seller are given."""

import json
from datetime import timedelta

import httpx
import msgspec
import pytest
from msgspec import structs

from tests.money.invoices.billing import Billing, pdf_of
from tests.support.command import output_of, tonne
from tests.support.world import ADDRESS, SELLER, TESTER, World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.lookup.order_view import CLIENT, describe_order
from tonne.apps.wiring.app import Services, build_app
from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY, IssueInvoices
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.store import find_by_id

CHECK = "live invoices are not held back by missing settings"


def with_seller(billing: Billing, **changes: object) -> None:
    """As after a restart with other settings."""
    billing.settings = msgspec.structs.replace(billing.settings, **SELLER | changes)
    billing.issue = IssueInvoices(billing.database, billing.clock, billing.settings)


@pytest.fixture
async def unset(billing: Billing) -> Billing:
    with_seller(billing, seller_name="Tonne", seller_address="", seller_tax_id="", bank_iban="")
    return billing


@pytest.mark.parametrize("name", SELLER)
def test_each_setting_is_needed(settings: Settings, name: str) -> None:
    assert missing_settings(settings) == []
    default = getattr(Settings(), name)
    missing = missing_settings(msgspec.structs.replace(settings, **{name: default}))
    assert missing == [f"TONNE_{name.upper()}"]


async def test_people_a3_a_live_invoice_waits_for_the_details_of_the_seller(unset: Billing, world: World) -> None:
    order = await unset.place_order(world.ours_live.scope)
    for _ in range(3):
        await unset.work()
        unset.clock.now += HELD_BACK_RETRY
    assert await unset.status(order) == "placed"
    assert await unset.fetch("SELECT FROM invoices") == []
    assert await unset.mails() == []
    assert await unset.fetchval("SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'live'") == 0
    with_seller(unset)
    await unset.work()
    assert (await unset.invoice(order)).reference == "TN-LIVE-000001"
    [mail] = await unset.mails()
    text = pdf_of(mail)
    assert "Harbour Street 7" in text
    assert "DE89 3704" in text
    # An explicit "none" prints nothing.
    assert "Tax ID" not in text
    await unset.check_invariants()


async def test_people_a3_test_invoices_do_not_wait(unset: Billing, world: World) -> None:
    order = await unset.place_order(world.ours_test.scope)
    await unset.work()
    assert (await unset.invoice(order)).reference == "TN-TEST-000001"


async def test_people_a3_what_waits_is_named_to_the_operator_and_the_client(
    unset: Billing, world: World, populated_db: Database
) -> None:
    order = await unset.place_order(world.ours_live.scope)
    await unset.work()
    names = "TONNE_SELLER_NAME, TONNE_SELLER_ADDRESS, TONNE_SELLER_TAX_ID, TONNE_BANK_IBAN"
    async with unset.database.transaction() as tx:
        [place] = (await find_waiting(tx, unset.settings, unset.clock()))[CHECK]
    assert order.id in place
    assert place.endswith(f"{names} not set")
    url = unset.database._url
    listed = tonne("invoice", "list", database_url=url)
    assert (listed.returncode, listed.stdout) == (0, "No invoices.\n")
    assert listed.stderr == (
        f"1 live order waits for its invoice: {order.id}. Set {names} and restart Tonne: they are then issued and "
        "mailed.\n"
    )
    assert f"waits, because {names} are not set" in output_of("order", "show", order.id, database_url=url)
    app = build_app(Services(populated_db, unset.settings, unset.clock))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {world.ours_live.key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test", headers=headers) as client:
        answer = await client.get(f"/v1/orders/{order.id}/invoice")
    assert answer.status_code == 404
    assert answer.json()["error"]["error_code"] == "invoice_not_available"
    assert "waits until the seller has set its name" in answer.json()["error"]["message"]
    with_seller(unset)
    unset.clock.now += HELD_BACK_RETRY
    await unset.work()
    async with unset.database.transaction() as tx:
        assert CHECK not in await find_waiting(tx, unset.settings, unset.clock())
    assert "TN-LIVE-000001, open" in output_of("order", "show", order.id, database_url=url)


async def test_a_waiting_order_can_be_cancelled(unset: Billing, world: World) -> None:
    order = await unset.place_order(world.ours_live.scope)
    await unset.work()
    done = output_of("order", "cancel", order.id, "--reason", "Too late", database_url=unset.database._url)
    assert done == f"Order {order.id} is cancelled."
    with_seller(unset)
    unset.clock.now += HELD_BACK_RETRY
    await unset.work()
    assert await unset.fetch("SELECT FROM invoices") == []


async def test_a_free_live_order_does_not_wait(unset: Billing, world: World) -> None:
    order = await unset.place_order(world.ours_live.scope)
    await unset.execute("UPDATE orders SET total_cost_minor = 0, offset_cost_minor = 0, commission_minor = 0")
    await unset.work()
    assert await unset.status(structs.replace(order)) == "paid"


BUYER_CHECK = "live invoices are not held back by the address of the buyer"
TAXED = {"tax_treatment": "standard", "tax_rate": "19", "seller_country": "DE", "seller_vat_id": "DE136695976"}


def taxed(billing: Billing) -> Billing:
    settings = msgspec.structs.replace(billing.settings, **TAXED)
    return Billing(Services(billing.database, settings, billing.clock), billing.clock)


async def test_a_live_invoice_with_tax_waits_for_the_address_of_the_buyer(
    billing: Billing, world: World, populated_db: Database
) -> None:
    billing, ours = taxed(billing), world.ours_live.scope
    settings, clock = billing.settings, billing.clock
    test_order = await billing.place_order(world.ours_test.scope)
    order = await billing.place_order(ours)
    for _ in range(2):
        await billing.work()
        clock.now += HELD_BACK_RETRY
    assert (await billing.invoice(test_order)).reference == "TN-TEST-000001"
    assert await billing.fetchval("SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'live'") == 0
    # The client hears of it once.
    assert (await billing.event_types(order)).count("order.payment_updated") == 1
    async with populated_db.transaction() as tx:
        document = await find_by_id(tx, ours, order.id)
        assert document is not None
        assert json.loads(document)["hold_reason"] == "buyer_details_missing"
        described = await describe_order(tx, order, settings, clock())
        assert "the buyer's street, postcode, city, country are missing" in described.invoice_state
        assert described.next_by == CLIENT
        waiting = await find_waiting(tx, settings, clock())
        assert [order.id in place for place in waiting[BUYER_CHECK]] == [True]
        assert CHECK not in waiting
        await set_tax_profile(tx, ours.organisation_id, ADDRESS, by=TESTER.at(clock()))
    await billing.work()
    invoice = await billing.invoice(order)
    assert invoice.read_record().buyer.address_lines == ["Hafenstraße 12", "20457 Hamburg", "Germany"]
    async with populated_db.transaction() as tx:
        assert BUYER_CHECK not in await find_waiting(tx, settings, clock())
        document = await find_by_id(tx, ours, order.id)
        assert document is not None
        assert "hold_reason" not in json.loads(document)
    await billing.check_invariants()


async def test_a_consolidated_invoice_waits_for_the_address_of_the_buyer(
    billing: Billing, world: World, populated_db: Database
) -> None:
    billing, ours = taxed(billing), world.ours_live.scope
    settings, clock = billing.settings, billing.clock
    await billing.set_billing(ours, billing=BillingMode.MONTHLY)
    order = await billing.place_order(ours)
    await billing.issue.run_once()
    clock.now += timedelta(days=32)
    await billing.work()
    assert await billing.fetchval("SELECT count(*) FROM invoices") == 0
    async with populated_db.transaction() as tx:
        [place] = (await find_waiting(tx, settings, clock()))[BUYER_CHECK]
        assert "1 orders of EUR are to be billed together" in place
        await set_tax_profile(tx, ours.organisation_id, ADDRESS, by=TESTER.at(clock()))
    clock.now += HELD_BACK_RETRY
    await billing.work()
    assert (await billing.invoice(order)).order_count == 1
    async with populated_db.transaction() as tx:
        assert BUYER_CHECK not in await find_waiting(tx, settings, clock())

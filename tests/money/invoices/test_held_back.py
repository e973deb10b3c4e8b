"""Live invoices wait until the settings about the seller are given."""

import httpx
import msgspec
import pytest
from msgspec import structs

from tests.money.invoices.billing import Billing, pdf_of
from tests.support.command import output_of, tonne
from tests.support.world import SELLER, World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.wiring.app import Services, build_app
from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY, IssueInvoices
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings

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
    assert await unset.fetchval("SELECT last_number FROM invoice_series WHERE mode = 'live'") == 0
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

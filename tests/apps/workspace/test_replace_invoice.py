"""An organisation corrects the reference or the address of an invoice in two clicks."""

import re
from collections.abc import Callable

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_replaced_invoices import SELLER_WITH_TAX, set_profile
from tests.support.clock import ManualClock
from tests.support.people import Person, add_user, operator
from tests.support.world import ADDRESS, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER_WITH_TAX)


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    books = Billing(services, clock)
    await books.renew_rates()
    await books.add_admins(world.ours_live.scope.organisation_id, ADA)
    await set_profile(books, world, **ADDRESS)
    await books.place_order(world.ours_live.scope)
    await books.work()
    return books


@pytest.fixture
def base(books: Billing, world: World) -> str:
    assert books.services is not None
    return f"/dashboard/live/{world.ours_live.scope.organisation_id}"


async def member(services: Services, world: World, person: MakePerson, role: Role) -> Person:
    await add_user(services, f"{role}@ours.test", world.ours_live.scope.organisation_id, role)
    someone = person()
    await someone.sign_in(f"{role}@ours.test")
    return someone


async def test_finance_corrects_an_invoice_from_the_list_of_documents(
    books: Billing, services: Services, world: World, person: MakePerson, base: str
) -> None:
    fin = await member(services, world, person, Role.FINANCE)
    path = f"{base}/invoices/TN-LIVE-000001/replace"
    assert f'href="{path}"' in (await fin.get(f"{base}/documents")).text
    page = (await fin.get(path)).text
    assert "Hafenstraße 12" in page.partition("What it should state")[0]
    assert 'value="Hafenstraße 12"' in page
    assert 'name="name"' not in page
    form = {"street": "Kai 2", "postcode": "20457", "city": "Hamburg", "reference": "PO 4711"}
    assert "Enter the city." in (await fin.submit(path, **form | {"city": ""})).text
    done = await fin.submit(path, **form, name="Another company")
    assert done.headers["location"] == f"{base}/invoices/TN-LIVE-000001?done=invoice_replaced"
    page = (await fin.get(f"{base}/invoices/TN-LIVE-000002")).text
    assert "<h1>TN-LIVE-000002</h1>" in page
    assert f'It replaces <a href="{base}/documents/TN-LIVE-000001/pdf">' in page
    assert "TN-LIVE-000002 replaces TN-LIVE-000001" in " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert "Credited" not in page
    listed = re.sub(r"<[^>]+>|\s+", " ", (await fin.get(f"{base}/documents")).text)
    assert "TN-LIVE-000002 Invoice in place of TN-LIVE-000001" in " ".join(listed.split())
    assert "Invoice, replaced by TN-LIVE-000002 Replaced" in " ".join(listed.split())
    assert "Credit note for TN-LIVE-000001 Issued" in " ".join(listed.split())
    again = await fin.submit(path, **form)
    assert "TN-LIVE-000002 states that already" in again.text
    await books.check_invariants()
    actions = [
        row["actor"] for row in await books.fetch("SELECT actor FROM audit_log WHERE action = 'invoice.replaced'")
    ]
    assert [each.partition("_")[0] for each in actions] == ["user:usr"]


async def test_others_see_no_link_and_cannot_send_the_form(
    services: Services, world: World, person: MakePerson, base: str
) -> None:
    viewer = await member(services, world, person, Role.READ_ONLY)
    path = f"{base}/invoices/TN-LIVE-000001/replace"
    assert "/replace" not in (await viewer.get(f"{base}/documents")).text
    assert "/replace" not in (await viewer.get(f"{base}/invoices/TN-LIVE-000001")).text
    assert (await viewer.get(path)).status_code == 403
    assert (await viewer.submit(path, reference="PO 1")).status_code == 403
    await add_user(services, "eve@theirs.test", world.theirs_test.scope.organisation_id, Role.OWNER)
    eve = person()
    await eve.sign_in("eve@theirs.test")
    theirs = base.replace(world.ours_live.scope.organisation_id, world.theirs_test.scope.organisation_id)
    assert (await eve.get(f"{theirs}/invoices/TN-LIVE-000001/replace")).status_code == 404
    assert (await eve.submit(f"{theirs}/invoices/TN-LIVE-000001/replace", reference="PO 1")).status_code == 404


async def test_the_operator_also_states_another_name(books: Billing, services: Services, person: MakePerson) -> None:
    olga = person()
    await operator(services, olga)
    base = "/operator/live/money/invoices/TN-LIVE-000001"
    assert f'href="{base}/replace"' in (await olga.get(base)).text
    assert f'href="{base}/replace"' in (await olga.get("/operator/live/documents")).text
    assert 'name="name"' in (await olga.get(f"{base}/replace")).text
    form = {"name": "Ours SE", "street": "Kai 2", "postcode": "20457", "city": "Hamburg", "reference": ""}
    assert (await olga.submit(f"{base}/replace", **form)).headers["location"] == f"{base}?done=invoice_replaced"
    page = (await olga.get("/operator/live/money/invoices/TN-LIVE-000002")).text
    assert "It replaces TN-LIVE-000001" in page
    assert "Ours SE" in (await olga.get("/operator/live/documents")).text
    await books.check_invariants()

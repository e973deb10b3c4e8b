"""API, dashboard and command line return the same bytes of an invoice and of its credit note, in each format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.money.invoices.billing import Billing
from tests.money.invoices.test_einvoices import OF_BUYER, OF_EINVOICE, OF_SELLER
from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.command import Operator
from tests.support.people import Person, add_user
from tests.support.world import ADDRESS, SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.users.model import Role

STARTS = {FileFormat.PDF: b"%PDF", FileFormat.CII: b"<?xml", FileFormat.UBL: b"<?xml"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    stated: dict[str, Any] = {**SELLER, **OF_SELLER, **OF_EINVOICE}
    return msgspec.structs.replace(settings, **stated)


@pytest.fixture
async def billing(services: Services, world: World, clock: ManualClock) -> Billing:
    billing = Billing(services, clock)
    await billing.renew_rates()
    wishes: dict[str, Any] = {**ADDRESS, **OF_BUYER, "einvoice": EInvoiceFormat.XRECHNUNG}
    async with billing.database.transaction() as tx:
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, wishes, by=TESTER.at(clock()))
    return billing


@pytest.fixture
def operator(populated_db: Database) -> Operator:
    return Operator(populated_db._url)


async def test_every_way_to_a_document_returns_the_same_bytes(
    billing: Billing,
    world: World,
    person: Callable[[], Person],
    api: ApiClient,
    operator: Operator,
    *,
    tmp_path: Path,
) -> None:
    live = api.as_key(world.ours_live.key)
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await billing.cancel(order)
    await billing.work()
    organisation_id = world.ours_live.scope.organisation_id
    await add_user(billing.services, "rea@ours.test", organisation_id, Role.READ_ONLY, name="Rea Sun")
    rea = person()
    await rea.sign_in("rea@ours.test")
    number = (await billing.invoice(order)).reference
    [note] = (await live.get(f"/v1/orders/{order.id}/credit-notes")).json()["data"]
    for reference, url, command in (
        (number, f"/v1/orders/{order.id}/invoice", "pdf"),
        (note["number"], f"/v1/credit-notes/{note['id']}", "credit-pdf"),
    ):
        for each in FileFormat:
            path = tmp_path / f"{reference}.{each}"
            operator.does("invoice", command, reference, "--format", each, "-o", str(path))
            by_api = (await live.get(f"{url}?format={each}")).content
            by_page = (await rea.get(f"/dashboard/live/{organisation_id}/documents/{reference}/{each}")).content
            assert path.read_bytes() == by_api == by_page, (reference, each)
            assert by_api.startswith(STARTS[each])

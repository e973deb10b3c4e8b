"""Electronic invoices that a network delivers: what is listed, and the answers that an operator records."""

from pathlib import Path

import msgspec
import pytest

from tests.apps.backoffice.test_money import confirm
from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_einvoices import folder_of, sent, states
from tests.support.clock import ManualClock
from tests.support.people import Person
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings

PAGE = "/operator/live/documents/deliveries"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    books = Billing(services, clock)
    await books.renew_rates()
    await books.add_admins(world.ours_live.scope.organisation_id, ADA)
    return books


async def test_an_operator_records_what_became_of_electronic_invoices(
    olga: Person, books: Billing, world: World, tmp_path: Path
) -> None:
    assert "No electronic invoice waits for an answer." in (await olga.get(PAGE)).text
    billing = folder_of(books, tmp_path)
    number = await sent(billing, world)
    page = (await olga.get(PAGE)).text
    assert (number in page, ">Waits<" in page, "Record an answer" in page) == (True, True, False)
    await billing.services.send_einvoices.run_once()
    page = (await olga.get(PAGE)).text
    assert (">No answer yet<" in page, "Record an answer" in page) == (True, True)
    assert "Electronic invoices" in (await olga.get("/operator/live/documents")).text
    answer = f"{PAGE}/answer"
    without_reason = await olga.submit(answer, number=number, answer="refused")
    assert (without_reason.status_code, "Say why, as they did." in without_reason.text) == (422, True)
    assert (await olga.submit(answer, number="TN-LIVE-999999", answer="accepted")).status_code == 422
    shown = await confirm(olga, answer, number=number, answer="refused", reason="Unknown receiver")
    assert f"{number} counts as refused." in shown
    assert await states(billing) == ["refused"]
    assert "Unknown receiver" in (await olga.get(PAGE)).text
    await confirm(olga, answer, number=number, answer="accepted")
    assert await states(billing) == ["accepted"]
    assert (number in (await olga.get(PAGE)).text, number in (await olga.get(f"{PAGE}?all=yes")).text) == (False, True)
    assert number not in (await olga.get(f"{PAGE.replace('live', 'test')}?all=yes")).text

"""In a browser: an operator says what arrived of an invoice, and records the answer to an electronic one."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_money import operator_page
from tests.browser.visit import Visit
from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_einvoices import sent, sent_to
from tests.support.clock import ManualClock
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """The site's worker, too, hands invoices to the folder."""
    return msgspec.structs.replace(settings, **SELLER, **sent_to(tmp_path))


async def test_an_operator_deals_with_answers_and_short_payments(
    visit: Visit, services: Services, world: World
) -> None:
    books = Billing(services, ManualClock(datetime.now(UTC).replace(microsecond=0)))
    async with visit.worker_paused():
        await books.renew_rates()
        await books.add_admins(world.ours_live.scope.organisation_id, ADA)
        number = await sent(books, world)
        await books.services.send_einvoices.run_once()
    olga = await operator_page(visit, services)
    await olga.goto(f"{visit.site}/operator/live/documents")
    await olga.get_by_role("link", name="Electronic invoices and their delivery").click()
    await check_page(olga, "operator-deliveries")
    await olga.get_by_label("Answer").select_option("Refused")
    await olga.get_by_label("Reason").fill("Unknown receiver")
    await olga.get_by_role("button", name="Record the answer").click()
    await olga.get_by_role("button", name="Record the answer").click()
    await expect(olga.get_by_text("The answer is recorded.")).to_be_visible()
    await olga.goto(f"{visit.site}/operator/live/money/invoices/{number}")
    await check_page(olga, "operator-settle")
    await olga.get_by_label("How it was paid").fill("By cheque")
    await olga.get_by_label("Received in EUR").fill("10.00")
    await olga.get_by_label("What is missing").select_option("Bank fees")
    await olga.get_by_role("button", name="Mark as paid").click()
    await olga.get_by_role("button", name="Mark as paid").click()
    await expect(olga.get_by_role("heading", name="Marked as paid by hand")).to_be_visible()
    await check_page(olga, "operator-clear-settled")

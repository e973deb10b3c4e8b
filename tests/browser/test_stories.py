"""Whole days in a browser: a developer integrates and repairs a receiver; an operator works off backorders."""

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import on_one_loop
from tests.browser.test_supply_desk import enter
from tests.browser.visit import Visit, reload_until
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, add_user, link_in_last_mail
from tests.support.receivers import Receiver, receiving, reply
from tests.support.tls import Authority
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now

NEW = "dora@ours.test"
BACKORDERS = 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def settings(settings: Settings, authority: Authority) -> Settings:
    """Receivers on this machine are allowed. After a failure, the next attempt takes its time: people act first."""
    return msgspec.structs.replace(
        settings,
        webhook_allow_private="127.0.0.0/8",
        webhook_ca_file=str(authority.ca_file),
        webhook_time_scale=600.0,
    )


@on_one_loop
async def receiver(authority: Authority) -> AsyncIterator[Receiver]:
    async with receiving(authority.context()) as receiver:
        yield receiver


async def sign_in(visit: Visit, path: str, email: str) -> Page:
    page = await visit(path)
    await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    return page


async def open_menu(page: Page, name: str) -> None:
    await page.get_by_role("navigation", name="Dashboard").get_by_role("link", name=name, exact=True).click()
    await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


async def test_a_developer_is_invited_integrates_and_repairs_a_receiver(
    visit: Visit, services: Services, world: World, api: ApiClient, receiver: Receiver
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    await add_user(services, "ann@ours.test", organisation_id)
    ann = await sign_in(visit, f"/dashboard/live/{organisation_id}/people", "ann@ours.test")
    await ann.get_by_label("E-mail address").fill(NEW)
    await ann.get_by_label("Developer").check()
    await ann.get_by_role("button", name="Send the invitation").click()
    await expect(ann.get_by_role("status")).to_be_visible()

    # First sign-in.
    page = await visit(await link_in_last_mail(services))
    await page.get_by_label("Your name").fill("Dora Lind")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Password again").fill(PASSWORD)
    await page.get_by_role("button", name="Join").click()
    await page.get_by_role("navigation", name="Mode").get_by_role("link", name="Test").click()

    # A key and a webhook of test mode.
    await open_menu(page, "API keys")
    await page.get_by_role("link", name="Create a key").click()
    await page.get_by_label("Name", exact=True).fill("Web shop")
    await page.get_by_role("button", name="Create the key").click()
    shop = api.as_key(await page.locator("#secret").inner_text())
    await open_menu(page, "Webhooks")
    await page.get_by_label("Address").fill(receiver.url)
    await page.get_by_role("button", name="Add the webhook").click()
    await expect(page.get_by_text("shown only this once")).to_be_visible()
    await page.get_by_role("link", name="Continue to the webhook").click()
    await page.get_by_role("button", name="Send a test event").click()
    await expect(page.get_by_text("The test event was accepted")).to_be_visible()

    # The first webhook arrives, then the receiver breaks.
    first = await shop.order()
    await receiver.arrived(lambda: first["id"] in str(receiver.events))
    receiver.rule = lambda _: reply(500, b"column customer_id does not exist")
    before = len(receiver.deliveries)
    broken = await shop.order()
    await receiver.count(before + 1)

    # The developer finds out why, repairs it and replays.
    await open_menu(page, "Webhooks")
    await page.get_by_role("link", name=receiver.url).click()
    await reload_until(page, page.get_by_text("Failing"))
    await page.get_by_role("row").nth(1).get_by_role("link").click()
    await expect(page.get_by_text("column customer_id does not exist")).to_be_visible()
    receiver.rule = lambda _: reply(200, b"")
    await page.get_by_role("link", name=receiver.url).click()
    await page.get_by_role("button", name="Retry now").click()
    await receiver.arrived(lambda: broken["id"] in str(receiver.deliveries[-1].events))
    await open_menu(page, "Events")
    await page.get_by_role("link", name="order.received").last.click()
    await page.get_by_role("link", name="Send again from here").click()
    count = len(receiver.deliveries)
    await page.get_by_role("button", name="Send again").click()
    await expect(page.get_by_role("status")).to_have_text("The events are being sent again.")
    # The last event of the other order may arrive before.
    await receiver.arrived(lambda: any(first["id"] in str(each.events) for each in receiver.deliveries[count:]))
    await expect(page.get_by_text("Failing")).to_have_count(0)


async def test_an_operator_takes_twenty_backorders_to_certificates(
    visit: Visit, services: Services, world: World
) -> None:
    clock = ManualClock(utc_now() - timedelta(hours=2))
    shop = Shop(services, world, clock, Mode.LIVE)
    await shop.sell("wind", {"VCS1": 1})
    async with visit.worker_paused():
        for number in range(BACKORDERS):
            await shop.buy(await shop.account(f"Customer {number}"), TONNE, "wind")
        await shop.work()
        await shop.execute(_LONG_AGO)
    page, base = await enter(visit, services), f"{visit.site}/operator/live"

    # Today says what is missing.
    await page.goto(f"{base}/today")
    await expect(page.get_by_role("row", name="Project VCS1").get_by_text("Sold out")).to_be_visible()
    await page.get_by_role("main").get_by_role("link", name="Supply", exact=True).click()
    await expect(page.get_by_role("heading", name="Orders that wait for supply")).to_be_visible()
    [header, lot] = next(iter(shop.lot_file("VCS1", 2024, BACKORDERS).values()))
    file = {"name": "lots.csv", "mimeType": "text/csv", "buffer": f"{header}\n{lot}".encode()}
    await page.get_by_label("CSV file").set_input_files(file)  # type: ignore[arg-type]
    await page.get_by_role("button", name="Show what would change").click()
    await page.get_by_role("button", name="Import", exact=True).click()
    await expect(page.get_by_role("link", name="Show the supply")).to_be_visible()

    # The worker allocates; the operator retires at the registry, and confirms line by line.

    async def are_allocated() -> bool:
        count = await shop.fetchval("SELECT count(*) FROM parcels WHERE mode = 'live'")
        return bool(count == BACKORDERS)

    await shop.until(are_allocated)
    await page.goto(f"{base}/retirements")
    await page.get_by_role("link", name="Project VCS1", exact=True).click()
    lines = page.get_by_label("Address of this retirement")
    await expect(lines).to_have_count(BACKORDERS)
    for number in range(BACKORDERS):
        await lines.nth(number).fill(f"https://registry.verra.org/retirements/{number}")
    await page.get_by_role("button", name=f"Check all {BACKORDERS}").click()
    await page.get_by_role("button", name="Confirm the retirement").click()
    await expect(page.get_by_role("heading", name="Retirements confirmed")).to_be_visible()

    # The worker issues the certificates.
    async def are_complete() -> bool:
        rows = await shop.fetch("SELECT status, count(*) FROM orders WHERE mode = 'live' GROUP BY status")
        return [tuple(row) for row in rows] == [("complete", BACKORDERS)]

    await shop.until(are_complete)
    assert await shop.fetchval("SELECT count(*) FROM certificates WHERE mode = 'live'") == BACKORDERS


_LONG_AGO = "UPDATE orders SET status_changed_at = now() - interval '2 hours' WHERE status = 'paid'"

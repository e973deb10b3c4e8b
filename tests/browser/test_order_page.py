"""The pages that links in mails lead to: an order, its confirmation, and the card of an account."""

import email
import email.policy
import re

from playwright.async_api import expect

from tests.browser.checks import assert_no_overflow, check_page
from tests.browser.visit import Visit
from tests.support.clock import START
from tests.support.orders import place
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.stored_cards import describe_card, store_card
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.accounts.store import add_admin

PATH = re.compile(r"https?://[^/\s]+(/(?:o|card)/\S+)")


async def order_by_card(services: Services, world: World, number: str) -> None:
    scope = world.ours_test.scope
    card = await describe_card(services.card_gateways, Mode.TEST, None, number)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", scope.account_id)
        await add_admin(tx, scope.organisation_id, "ada@ours.test", START)
        await store_card(tx, scope, card, by=TESTER.now())
    await place(services, scope, utc_now())
    services.notifier.notify()


async def links_of_the_last_mail(services: Services, visit: Visit) -> list[str]:
    """Waits until the worker has enqueued a mail."""
    page = await visit("/verify")
    raw: bytes | None = None
    for _ in range(200):
        async with services.database.connection() as connection:
            raw = await connection.fetchval("SELECT message FROM mails ORDER BY created_at DESC LIMIT 1")
        if raw is not None:
            break
        await page.wait_for_timeout(50)
    assert raw is not None
    body = email.message_from_bytes(raw, policy=email.policy.default).get_body(("plain",))
    assert body is not None
    return PATH.findall(body.get_content())


async def test_a_payment_is_confirmed_in_the_browser(visit: Visit, services: Services, world: World) -> None:
    await order_by_card(services, world, "4000002760003184")
    order_path, _ = await links_of_the_last_mail(services, visit)
    page = await visit(order_path)
    await expect(page.get_by_role("heading", name="Please confirm this payment")).to_be_visible()
    await check_page(page, "order-confirm")
    await page.get_by_role("button", name="Confirm the payment").click()
    await expect(page.get_by_role("heading", name="Simulated bank")).to_be_visible()
    await check_page(page, "simulated-bank")
    await page.get_by_role("button", name="Fail").click()
    await expect(page.get_by_role("alert")).to_contain_text("The bank did not confirm the payment.")
    await check_page(page, "order-not-confirmed")
    await page.get_by_role("button", name="Confirm the payment").click()
    await page.get_by_role("button", name="Complete").click()
    # The page follows the order without a reload.
    await expect(page.get_by_role("heading", name="Your credits are retired")).to_be_visible()
    await check_page(page, "order-complete")


async def test_another_card_is_entered_in_the_browser(visit: Visit, services: Services, world: World) -> None:
    await order_by_card(services, world, "4000000000009995")
    [card_path] = await links_of_the_last_mail(services, visit)
    page = await visit(card_path)
    await expect(page.get_by_text("was declined. The card has insufficient funds.")).to_be_visible()
    await check_page(page, "card-declined")
    await page.get_by_label("Card number").fill("4111 1111 1111 1111")
    await page.get_by_role("button", name="Store this card").click()
    await expect(page.get_by_role("alert")).to_contain_text("Use a test card")
    await expect(page.get_by_label("Card number")).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Card number").fill("4242 4242 4242 4242")
    await page.get_by_role("button", name="Store this card").click()
    await expect(page.get_by_role("status")).to_contain_text("The card is stored.")
    await check_page(page, "card-stored")


async def test_the_page_works_on_a_phone_without_javascript(visit: Visit, services: Services, world: World) -> None:
    await order_by_card(services, world, "4000002760003184")
    order_path, card_path = await links_of_the_last_mail(services, visit)
    for path in (order_path, card_path):
        page = await visit(path, javascript=False, width=360)
        await assert_no_overflow(page)
    page = await visit(order_path, javascript=False, width=360)
    await page.get_by_role("button", name="Confirm the payment").click()
    await page.get_by_role("button", name="Complete").click()
    await expect(page.get_by_role("heading", name=re.compile("Thank you|Your credits are retired"))).to_be_visible()

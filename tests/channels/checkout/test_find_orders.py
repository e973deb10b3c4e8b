"""A buyer who lost the mail gets the links of all orders again, and strangers learn nothing."""

import re

import httpx

from tests.channels.checkout.scene import Rows
from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.channels.checkout.test_held_mails import buy
from tests.support.people import last_mail, last_mails
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.order_pages.find_orders import ANSWERS_PER_HOUR, REQUESTS, insert_request
from tonne.selling.accounts.customer_mail import allow_address

ANN = "ann@example.com"


async def ask(browser: httpx.AsyncClient, email: str, language: str = "en") -> httpx.Response:
    page = await browser.get("/find-orders", params={"lang": language})
    return await browser.post("/find-orders", data=form_of(page).values(email=email))


async def test_a_buyer_gets_the_links_of_all_orders(
    services: Services, browser: httpx.AsyncClient, world: World
) -> None:
    shopper, scope = Shopper(browser), world.ours_test.scope
    async with services.database.transaction() as tx:
        await allow_address(tx, scope.organisation_id, ANN, services.clock())
    for _ in range(2):
        await buy(services, shopper, await make_link(services, scope), ANN)
    async with services.database.transaction() as tx:
        await tx.execute("DELETE FROM mails")
    asked = await ask(browser, " Ann@Example.com ", "de")
    assert asked.status_code == 200
    assert await services.mail_order_links.run_once()
    recipient, text = await last_mail(services)
    assert (recipient, len(await last_mails(services))) == (ANN, 1)
    assert "Sie haben nach den Seiten Ihrer Bestellungen gefragt" in text
    links = re.findall(r"https?://\S+(/o/\S+)", text)
    assert len(links) == 2
    for link in links:
        assert "/certificate.pdf" in (await browser.get(link)).text


async def test_strangers_cannot_learn_who_has_bought(
    services: Services, browser: httpx.AsyncClient, world: World, rows: Rows
) -> None:
    await buy(services, Shopper(browser), await make_link(services, world.ours_test.scope), ANN)
    before = await rows("SELECT id FROM mails")
    known = (await ask(browser, ANN)).text.replace(ANN, "")
    unknown = (await ask(browser, "nobody@example.com")).text.replace("nobody@example.com", "")
    strip = re.compile(r'(nonce|name="form_token" value)="[^"]*"')
    assert strip.sub("", known) == strip.sub("", unknown)
    # The same work for both: only the job looks them up.
    assert len(await rows("SELECT id FROM order_requests WHERE answered_at IS NULL")) == 2
    assert await rows("SELECT id FROM mails") == before
    assert await services.mail_order_links.run_once()
    assert len(await rows("SELECT id FROM mails")) == len(before) + 1
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE order_requests SET answered_at = answered_at - interval '61 minutes'")
    assert not await services.mail_order_links.run_once()
    assert await rows("SELECT id FROM order_requests") == []


async def test_an_address_gets_few_mails_and_a_network_few_answers(
    services: Services, browser: httpx.AsyncClient, world: World, rows: Rows
) -> None:
    await buy(services, Shopper(browser), await make_link(services, world.ours_test.scope), ANN)
    before = len(await rows("SELECT id FROM mails"))
    async with services.database.connection() as connection:
        for _ in range(50):
            await insert_request(connection, ANN, "en", services.clock())
    while await services.mail_order_links.run_once():
        pass
    assert len(await rows("SELECT id FROM mails")) == before + ANSWERS_PER_HOUR
    answers = [(await ask(browser, ANN)).status_code for _ in range(REQUESTS + 1)]
    assert answers == [200] * REQUESTS + [429]
    assert (await ask(browser, "ann")).status_code == 422

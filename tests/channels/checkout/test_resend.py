"""Mails about an order are sent again, to a corrected address."""

import json

import httpx

from tests.channels.checkout.shopper import Shopper, make_link
from tests.channels.checkout.test_held_mails import buy
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services


async def test_people_e_a_mistyped_address_is_corrected_and_the_mails_go_there(
    services: Services, browser: httpx.AsyncClient, world: World
) -> None:
    operator = Operator(services.database._url, secret_key=services.settings.secret_key)
    link = await make_link(services, world.ours_test.scope)
    await buy(services, Shopper(browser), link, "maira@example.com")
    [order] = [json.loads(line) for line in operator.does("order", "list", "maira@example.com", "--json").splitlines()]
    assert order["status"] == "complete"
    said = operator.does("order", "resend", order["id"], "--to", "maria@example.com").splitlines()
    assert said == [
        "Will be mailed: receipt to maria@example.com.",
        "Will be mailed: certificate to maria@example.com.",
    ]
    while await services.mail_orders.run_once() or await services.mail_certificates.run_once():
        pass
    assert operator.facts("order", "show", order["id"])["customer"] == "maria@example.com"
    shown = json.loads(operator.does("order", "show", order["id"], "--json"))
    mails = [
        each["text"] for each in shown["timeline"] if each["kind"] == "mail" and "maria@example.com" in each["text"]
    ]
    assert len(mails) == 2, mails
    [entry] = [each for each in shown["timeline"] if "order.mails_resent" in each["text"]]
    assert "(former address) → (new address)" in entry["text"], "entries cannot be erased: they name no address"
    assert entry["actor"].startswith("cli:")
    assert json.loads(operator.does("order", "list", "maria@example.com", "--json"))["id"] == order["id"]
    assert "no mail" in operator.is_refused("order", "resend", order["id"], "--only", "invoice")
    assert "tonne order list" in operator.is_refused("order", "resend", "ord_nope")

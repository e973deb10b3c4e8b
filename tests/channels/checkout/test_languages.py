"""The language of an order: what the customer saw, or the default of its account, fixed when it is placed."""

from tests.channels.checkout.scene import Rows
from tests.channels.checkout.shopper import Shopper, make_link
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.values.context import Actor, ActorKind
from tonne.platform.values.language import LanguageCode
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.orders.load import load_order

LANGUAGES_OF_ORDERS = "SELECT language FROM orders ORDER BY created_at, id"


async def set_language(services: Services, world: World, language: LanguageCode) -> None:
    scope = world.ours_test.scope
    async with services.database.transaction() as tx:
        change = AccountChange(language=language)
        await change_account(tx, scope, change, by=Actor(ActorKind.SYSTEM, "test").at(services.clock()))
    services.directory.forget_terms(scope)


async def test_an_order_keeps_the_language_that_its_customer_saw(
    services: Services, world: World, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    shopper.http.headers["Accept-Language"] = "de-AT,de;q=0.9"
    address = await shopper.begin(link)
    paid = await shopper.pay(address)
    assert '<html lang="de"' in paid.text
    shopper.http.headers["Accept-Language"] = "fr"
    await shopper.open(address)
    assert await rows(LANGUAGES_OF_ORDERS) == [{"language": "de"}]
    [found] = await rows("SELECT id FROM orders")
    async with services.database.connection() as connection:
        order = await load_order(connection, world.ours_test.scope, found["id"])
    assert order is not None
    assert order.language == "de"


async def test_a_visitor_whose_language_we_do_not_have_gets_the_merchants(
    services: Services, world: World, shopper: Shopper, rows: Rows
) -> None:
    await set_language(services, world, LanguageCode.IT)
    shopper.http.headers["Accept-Language"] = "ar"
    italian = await make_link(services, world.ours_test.scope)
    spanish = await make_link(services, world.ours_test.scope, language="es")
    for link, language in ((italian, "it"), (spanish, "es")):
        assert f'<html lang="{language}"' in (await shopper.open(f"/offset/{link.id}")).text
    assert '<html lang="es"' in (await shopper.pay(await shopper.begin(spanish))).text
    assert await rows(LANGUAGES_OF_ORDERS) == [{"language": "es"}]


async def test_an_order_by_api_has_the_language_of_its_account(
    services: Services, world: World, api: ApiClient, rows: Rows
) -> None:
    assert (await api.get("/v1/account")).json()["language"] == "en"
    await set_language(services, world, LanguageCode.NL)
    assert (await api.get("/v1/account")).json()["language"] == "nl"
    answer = await api.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}})
    assert answer.status_code == 201
    assert await rows(LANGUAGES_OF_ORDERS) == [{"language": "nl"}]
    await set_language(services, world, LanguageCode.EN)
    assert await rows(LANGUAGES_OF_ORDERS) == [{"language": "nl"}]

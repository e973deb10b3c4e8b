"""Sharing a certificate after the payment: only its public page, and only if it has one."""

from tests.channels.checkout.scene import work
from tests.channels.checkout.shopper import Shopper, make_link
from tests.channels.public_pages.scene import set_up
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary

PRIVATE = "Your certificate is private"


async def test_only_a_public_certificate_can_be_shared(
    services: Services, world: World, shopper: Shopper, api: ApiClient
) -> None:
    link = await make_link(services, world.ours_test.scope)
    address = await shopper.begin(link)
    await shopper.pay(address)
    await work(services)
    page = await shopper.open(address)
    assert (PRIVATE in page.text, "data-share=" in page.text) == (True, False), "the account publishes nothing"

    await set_up(api)
    page = await shopper.open(address)
    assert (PRIVATE in page.text, 'data-share="http://tonne.test/certificates/TEST-' in page.text) == (False, True)
    assert "mailto:?subject=My%20certificate&amp;body=Carbon%20credits" in page.text

    asking = await make_link(services, world.ours_test.scope, beneficiary=LinkBeneficiary.CUSTOMER)
    address = await shopper.begin(asking, name_on_certificate="Maria Keller")
    await shopper.pay(address)
    await work(services)
    page = await shopper.open(address)
    assert (PRIVATE in page.text, "data-share=" in page.text) == (True, False), "a private name"

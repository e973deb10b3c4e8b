"""Certificates for tests, with ordinary and with hostile text."""

from typing import Any

import msgspec

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient
from tests.support.clock import MARCH, START, ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.public_pages.model import PageSection, SustainabilityPage
from tonne.channels.public_pages.store import save_page, take_slug
from tonne.platform.values.context import Mode, Scope
from tonne.supply.certificates.record import CertificateLine, CertificateRecord, SharedUnit, encode_record
from tonne.supply.certificates.store import find_by_number_any_account

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e&amp;\'"'
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3


async def complete_order(api: ApiClient, services: Services, tonnes: str = "1.5") -> str:
    """Complete an order of this client; returns the number of its certificate."""
    order = await api.order(mass={"amount": tonnes, "unit": "t"})
    for job in (
        services.issue_invoices,
        services.follow_up_invoices,
        services.follow_up_invoices,
        services.allocate_orders,
        services.retire_units,
        services.allocate_orders,
    ):
        await job.run_once()
    done = (await api.get(f"/v1/orders/{order['id']}")).json()
    assert done["status"] == "complete"
    return str(done["public_certificate_url"].rpartition("/")[2])


async def complete_live_order(services: Services, world: World) -> str:
    """Complete an order of our live account from a pre-retired lot."""
    shop = Shop(services, world, ManualClock(MARCH), Mode.LIVE)
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 10, retired=True)
    order = await shop.buy(world.ours_live.scope, 2 * TONNE, "wind")
    await shop.work()
    return str((await shop.certificate(order))["number"])


async def show_page(
    services: Services,
    scope: Scope,
    *,
    enabled: bool = True,
    sections: tuple[PageSection, ...] = (PageSection.CERTIFICATES,),
) -> None:
    page = SustainabilityPage(scope, "our-forest", enabled, "Our forest", "", sections, None, START)
    async with services.database.transaction() as tx:
        await take_slug(tx, scope, page.slug, START)
        await save_page(tx, scope, page, START)


async def record_of(services: Services, number: str) -> CertificateRecord:
    async with services.database.connection() as connection:
        found = await find_by_number_any_account(connection, number)
    assert found is not None
    return found.record


async def rewrite(services: Services, number: str, **changes: Any) -> None:
    """Replace the record of a certificate."""
    record = msgspec.structs.replace(await record_of(services, number), **changes)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE certificates SET record = $2 WHERE number = $1", number, encode_record(record))


async def make_hostile(services: Services, number: str, text: str = HOSTILE) -> None:
    line = CertificateLine(
        registry=text,
        project_id=text,
        project_name=text,
        country=text,
        project_type=text,
        methodology=text,
        vintage=text,
        serial_range=text,
        quantity="0.000001",
        retired_on="2026-03-01",
        retirement_url="javascript:alert(1)",
        shared=SharedUnit("1", "0.000001"),
    )
    lines = [line, msgspec.structs.replace(line, retirement_url='https://registry.example/"><script>')]
    await rewrite(services, number, beneficiary=text, issuer=text, lines=lines, total_quantity="1234567.891234")


def other_number(number: str) -> str:
    """A valid number that was never issued."""
    return number[:-1] + ("0" if number[-1] != "0" else "1")

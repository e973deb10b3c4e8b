"""Private persons of another country of the EU pay the tax of their country, which the report for the OSS lists."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.channels.checkout.scene import Rows
from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.channels.checkout.test_buyers import COMPANY, PERSON, fill_in, pay
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.scene import Scene
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.waiting import OLDEST_RATES, WAITING
from tonne.money.accounting.reports.oss_report import oss_csv
from tonne.money.invoices.documents.record import InvoiceRecord
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.accounts.tax.tax_rates import SHIPPED_ON

FRENCH = PERSON | {"buyer_country": "FR", "buyer_postcode": "75002", "buyer_city": "Paris"}
DOCUMENTS = "SELECT reference, kind, tax_lines::text AS taxes, record FROM tax_documents ORDER BY created_at, number"
OLD_RATES, OTHER_CARD = WAITING[0], WAITING[1]


@pytest.fixture
async def stripe() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as pages:
        yield pages


@pytest.fixture
def settings(settings: Settings, stripe: FakeStripePages) -> Settings:
    return msgspec.structs.replace(
        settings,
        **SELLER,
        tax_treatment="standard",
        tax_rate="19",
        tax_by_country="consumers",
        seller_country="DE",
        seller_vat_id="DE811569869",
        vat_register="by_hand",
        simplified_invoice_up_to="EUR 100",
        stripe_secret_key=LIVE_KEY,
        stripe_api_base=stripe.url,
    )


@pytest.fixture(autouse=True)
async def _closing(services: Services) -> AsyncIterator[None]:
    yield
    for gateway in services.card_gateways.values():
        await gateway.close()


@pytest.fixture
async def live_link(services: Services, world: World) -> OffsetLink:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE exchange_rates SET as_of = $1", utc_now())
    return await make_link(services, world.ours_live.scope)


async def warnings(services: Services, check: Any, days: int = 0) -> list[str]:
    async with services.database.connection() as connection:
        found = await connection.fetch(
            check.sql, *check.parameters(services.settings, utc_now() + timedelta(days=days))
        )
    return [row["where"] for row in found]


async def test_consumers_of_two_countries_and_a_business(
    services: Services, shopper: Shopper, stripe: FakeStripePages, live_link: OffsetLink, rows: Rows
) -> None:
    # 12 EUR in France. Only the country is asked first, then what an invoice states.
    page = await shopper.open(await shopper.begin(live_link, amount="1"))
    assert 'class="buyer asks-country"' in page.text
    [german] = form_of(page).values()["total"]
    unknown = await fill_in(shopper, page)
    assert (unknown.status_code, 'id="buyer_country-fault"' in unknown.text) == (422, True)
    changed = await fill_in(shopper, page, buyer_country="FR")
    assert (changed.status_code, 'id="buyer_name-fault"' in changed.text) == (422, True)
    assert 'class="buyer asks-person"' in changed.text
    [french] = form_of(changed).values()["total"]
    assert int(french) / int(german) == pytest.approx(1.20 / 1.19, abs=0.001)
    assert not stripe.sessions
    stripe.card_country = "FR"
    leaving = await fill_in(shopper, changed, **FRENCH)
    await pay(services, shopper, stripe, leaving)
    assert await warnings(services, OTHER_CARD) == []
    await services.database.run(lambda connection: connection.execute("UPDATE charges SET card_country = 'BE'"))
    [found] = await warnings(services, OTHER_CARD)
    assert found.endswith("FR was given, the card is from BE")

    # 12 and 120 EUR in Germany.
    await pay(
        services,
        shopper,
        stripe,
        await fill_in(shopper, await shopper.open(await shopper.begin(live_link, amount="1")), buyer_country="DE"),
    )
    large = await shopper.open(await shopper.begin(live_link, amount="9"))
    assert 'class="buyer asks-person"' in large.text
    await pay(services, shopper, stripe, await fill_in(shopper, large, **PERSON))
    # A German business is not taxed by the country of its people.
    small = await shopper.open(await shopper.begin(live_link, amount="1"))
    business = COMPANY | {"buyer_country": "DE", "buyer_vat_id": "", "buyer_postcode": "20457"}
    await pay(services, shopper, stripe, await fill_in(shopper, small, **business))

    documents = await rows(DOCUMENTS)
    records = [msgspec.json.decode(each["record"], type=InvoiceRecord) for each in documents]
    assert [(each["kind"], record.taxes[0].code) for each, record in zip(documents, records, strict=True)] == [
        ("invoice", "FR-S-20-OSS"),
        ("simplified_invoice", "DE-S-19"),
        ("invoice", "DE-S-19"),
        ("invoice", "DE-S-19"),
    ]
    first = records[0]
    assert (first.buyer.name, first.taxes[0].rate) == ("Ann Weber", "20")
    assert await rows("SELECT taxed_in, country FROM order_buyers ORDER BY taxed_in NULLS LAST LIMIT 1") == [
        {"taxed_in": "FR", "country": "FR"}
    ]
    scene = Scene(services)
    await scene.post_entries()
    await scene.check_invariants()
    now = utc_now()
    quarter = now.date().replace(month=(now.month - 1) // 3 * 3 + 3, day=28) + timedelta(days=4)
    async with services.database.snapshot() as tx:
        end = quarter.replace(day=1)
        text = "".join([each async for each in oss_csv(tx, Mode.LIVE, end, {})])
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["country"], row["rate_percent"], row["tax_eur"]) == ("FR", "20", first.taxes[0].tax)


async def test_rates_that_nobody_has_seen_to_are_reported(services: Services) -> None:
    age = (utc_now().date() - SHIPPED_ON).days
    assert await warnings(services, OLD_RATES, OLDEST_RATES.days - age) == []
    assert await warnings(services, OLD_RATES, OLDEST_RATES.days - age + 1) == [f"imported on {SHIPPED_ON}"]


def test_only_a_seller_of_the_eu_with_tax_can_tax_by_country() -> None:
    with pytest.raises(SettingsError, match="TONNE_TAX_BY_COUNTRY needs"):
        load_settings({"TONNE_TAX_BY_COUNTRY": "consumers"})

"""What small orders may be fulfilled and unpaid: per card, and per organisation."""

import msgspec

from tests.money.invoices.card_billing import CardBilling
from tests.support.world import add_account
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order

# 0.48 EUR each: eleven of them are above 5.00 EUR.
LARGEST = 38_000
UNPAID, PAID = "unpaid", "paid"


async def state(scene: CardBilling, order: Order) -> tuple[str, str, str | None]:
    [row] = await scene.fetch("SELECT status, payment_state, hold_reason FROM orders WHERE id = $1", order.id)
    return row["status"], row["payment_state"], row["hold_reason"] if row["status"] == "placed" else None


async def test_exposure_is_bounded_per_card_and_per_organisation(settings: Settings, card_billing: CardBilling) -> None:
    scene = card_billing
    scene.settings = msgspec.structs.replace(settings, card_collect_at="EUR 0.50")
    scene.issue = type(scene.issue)(scene.database, scene.clock, scene.settings)
    await scene.order()
    scopes = [scene.scope]
    for _ in range(10):
        async with scene.database.transaction() as tx:
            organisation_id, method = scene.scope.organisation_id, PaymentMethod.CARD
            scope = await add_account(tx, organisation_id, Mode.TEST, method=method, now=scene.clock())
        scene.tenant = msgspec.structs.replace(scene.tenant, scope=scope)
        await scene.order()
        scopes.append(scope)
    await scene.run()
    scene.clock.advance(seconds=1)
    placed = []
    for scope in scopes:
        scene.clock.advance(milliseconds=1)
        placed.append(await scene.place_order(scope, mass_grams=LARGEST))
    second = await scene.place_order(scopes[0], mass_grams=2_500)
    await scene.run_jobs(scene.issue)
    assert [(await state(scene, order))[0] for order in placed] == [PAID] * 10 + ["placed"]
    assert await state(scene, placed[10]) == ("placed", UNPAID, "collection_pending"), "above that of the organisation"
    assert await state(scene, second) == ("placed", UNPAID, "collection_pending"), "above that of the card"
    for _ in range(3):
        scene.clock.advance(seconds=6)
        await scene.run()
    assert (await state(scene, second))[1] == PAID
    scene.clock.advance(minutes=6)
    await scene.run()
    scene.clock.advance(seconds=6)
    await scene.run()
    assert (await state(scene, placed[10]))[1] == PAID
    await scene.check_invariants()


async def test_two_accounts_with_the_same_card_share_its_limit(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.order()
    first = scene.scope
    async with scene.database.transaction() as tx:
        organisation_id, method = first.organisation_id, PaymentMethod.CARD
        scope = await add_account(tx, organisation_id, Mode.TEST, method=method, now=scene.clock())
    scene.tenant = msgspec.structs.replace(scene.tenant, scope=scope)
    await scene.order()
    await scene.execute("UPDATE account_cards SET fingerprint = 'one card'")
    await scene.run()
    scene.clock.advance(seconds=1)
    orders = [await scene.place_order(each, mass_grams=LARGEST) for _ in range(6) for each in (first, scope)]
    await scene.run_jobs(scene.issue)
    states = [await state(scene, order) for order in orders]
    assert states.count((PAID, UNPAID, None)) == 10
    assert states.count(("placed", UNPAID, "collection_pending")) == 2


async def test_accounts_of_several_currencies_use_shares_of_one_limit(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.order()
    euros = scene.scope
    async with scene.database.transaction() as tx:
        organisation_id, method = euros.organisation_id, PaymentMethod.CARD
        scope = await add_account(tx, organisation_id, Mode.TEST, method=method, currency="HUF", now=scene.clock())
    scene.tenant = msgspec.structs.replace(scene.tenant, scope=scope)
    await scene.execute(
        "INSERT INTO exchange_rates (mode, base, quote, rate, source, as_of) "
        "SELECT mode, 'EUR', 'HUF', 400, source, as_of FROM exchange_rates WHERE mode = 'test' LIMIT 1 "
        "ON CONFLICT DO NOTHING"
    )
    await scene.order()
    await scene.execute("UPDATE account_cards SET fingerprint = 'one card'")
    await scene.run()
    scene.clock.advance(seconds=1)
    # 100 of 1,750 forints, and 0.48 of 5.00 euros.
    orders = [await scene.place_order(scope, mass_grams=20_000), await scene.place_order(euros, mass_grams=LARGEST)]
    await scene.run_jobs(scene.issue)
    assert [await state(scene, order) for order in orders] == [(PAID, UNPAID, None)] * 2
    # The forints leave 4.71 euros: nine more orders are 4.32.
    more = [await scene.place_order(euros, mass_grams=LARGEST) for _ in range(10)]
    await scene.run_jobs(scene.issue)
    assert [(await state(scene, order))[0] for order in more].count("placed") == 2

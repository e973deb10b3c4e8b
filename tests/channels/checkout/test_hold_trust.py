"""How much a customer may hold depends on how far they are trusted: nobody keeps the supply from others for free."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.rounds import IS_LONG
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.paying.unpaid_holds import find_unpaid_holds_any_account
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, replace, utc_now
from tonne.selling.catalogue.prices.pricing import PricedLine
from tonne.selling.orders.errors import NotEnoughInStock
from tonne.supply.stock.holds.hold_store import Holder, Trust
from tonne.supply.stock.holds.holds import HOLD_LIFE, ReleaseHolds, Unheld, hold_supply


@pytest.fixture
async def shop(services: Services, world: World) -> Shop:
    shop = Shop(services, world, ManualClock(utc_now()), Mode.LIVE)
    await shop.sell("wind", {"A": 1})
    return shop


class Customers:
    """Hold supply in one transaction. Each call is another checkout; everybody has a network of their own."""

    def __init__(self, shop: Shop, tx: Connection, name: str = "chk") -> None:
        self._shop, self._tx, self._name = shop, tx, name
        self._count = 0
        # The published defaults, whatever the tests of other packages set.
        self._settings = Settings()

    async def hold(
        self,
        grams: int,
        trust: Trust = Trust.ANONYMOUS,
        *,
        network: str | None = None,
        email: str | None = None,
        paid: int = 0,
        organisation: str | None = None,
    ) -> Unheld | None:
        self._count += 1
        scope = self._shop.world.ours_live.scope
        if organisation is not None:
            scope = replace(scope, organisation_id=organisation)
        holder = Holder(
            scope=scope,
            checkout_id=f"{self._name} {self._count}",
            trust=trust,
            client_hash=_hash(network or f"{self._name} {self._count}"),
            email_hash=_hash(email or f"{self._name} {self._count}"),
            paid_grams=paid,
        )
        line = PricedLine(self._shop.bundle_id("wind"), "The wind", None, grams, 1, 1, 1, False)
        now = self._shop.clock()
        return await hold_supply(self._tx, holder, [line], settings=self._settings, now=now)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


async def test_an_anonymous_customer_holds_little_by_amount_network_and_address(shop: Shop) -> None:
    await shop.supply("A", 2020, 1000)
    async with shop.services.database.transaction() as tx:
        customers = Customers(shop, tx)
        assert await customers.hold(11 * TONNE) is Unheld.AMOUNT
        assert await customers.hold(10 * TONNE, network="n", email="e") is None
        assert await customers.hold(1, network="n") is Unheld.AMOUNT, "a gram reserves a whole unit"
        assert await customers.hold(1, email="e") is Unheld.AMOUNT
        assert await customers.hold(1) is None
        # A large part of what anonymous customers may hold is for those with at most a tonne.
        held = [await customers.hold(10 * TONNE) for _ in range(15)]
        assert held == [None] * 13 + [Unheld.SHARE] * 2
        assert Counter([await customers.hold(TONNE) for _ in range(70)]) == {None: 59, Unheld.SHARE: 11}
        # That is a fifth of the supply. The others do not notice.
        assert await customers.hold(300 * TONNE, Trust.TRUSTED) is None
        assert await customers.hold(5 * TONNE, Trust.KNOWN, paid=4 * TONNE + 1) is None


async def test_a_known_address_holds_what_it_has_paid_for(shop: Shop) -> None:
    await shop.supply("A", 2020, 1000)
    async with shop.services.database.transaction() as tx:
        customers = Customers(shop, tx)
        assert await customers.hold(40 * TONNE, Trust.KNOWN, email="e", paid=50 * TONNE) is None
        assert await customers.hold(11 * TONNE, Trust.KNOWN, email="e", paid=50 * TONNE) is Unheld.AMOUNT
        assert await customers.hold(10 * TONNE, Trust.KNOWN, email="e", paid=50 * TONNE) is None
        # Somebody who has paid for a little holds as much as anybody else.
        assert await customers.hold(10 * TONNE, Trust.KNOWN, email="f", paid=1) is None
        rows = await tx.fetch("SELECT trust, reserved_grams / 1000000 AS t FROM supply_holds ORDER BY checkout_id")
        assert [tuple(row) for row in rows] == [("known", 40), ("known", 10), ("anonymous", 10)]


async def test_large_holds_leave_a_part_for_small_ones_and_for_other_organisations(shop: Shop) -> None:
    await shop.supply("A", 2020, 100)
    async with shop.services.database.transaction() as tx:
        customers = Customers(shop, tx)
        assert await customers.hold(38 * TONNE, Trust.TRUSTED) is Unheld.SHARE
        assert await customers.hold(37 * TONNE, Trust.TRUSTED) is None
        assert await customers.hold(37 * TONNE, Trust.TRUSTED, organisation="org_2") is None
        assert await customers.hold(2 * TONNE, Trust.TRUSTED, organisation="org_3") is Unheld.SHARE
        assert [await customers.hold(TONNE) for _ in range(20)] == [None] * 20
        assert await customers.hold(6 * TONNE, Trust.TRUSTED, organisation="org_3") is Unheld.SHARE
        assert await customers.hold(7 * TONNE, Trust.TRUSTED, organisation="org_3") is Unheld.SUPPLY
        with pytest.raises(NotEnoughInStock, match=r"^Not enough of The wind\. Nothing was charged\."):
            await customers.hold(101 * TONNE, Trust.TRUSTED)


async def test_bundles_that_share_a_project_share_what_can_be_held(shop: Shop) -> None:
    await shop.supply("A", 2020, 10)
    async with shop.services.database.transaction() as tx:
        customers = Customers(shop, tx)
        assert [await customers.hold(TONNE) for _ in range(3)] == [None, None, Unheld.SHARE]
        await tx.execute("UPDATE supply_holds SET bundle_id = 'another'")
        assert await customers.hold(TONNE) is Unheld.SHARE


ATTACKERS, VICTIMS, SUPPLY_T = 200, 20, 5000
MINUTES, STEP = (24 * 60, 1) if IS_LONG else (30, 6)


async def test_a_crowd_of_anonymous_addresses_attacks_for_a_day(shop: Shop) -> None:
    """All that 200 addresses can do: the largest holds first, then units for a gram each, and addresses of people who
    have paid before. They renew them as soon as they expire, and look for free ones every minute.

    Honest customers pay within three minutes; the seller replaces what is sold.
    """
    await shop.supply("A", 2020, SUPPLY_T)
    release = ReleaseHolds(shop.services.database, shop.clock, find_unpaid_holds_any_account)
    results: Counter[tuple[str, str]] = Counter()
    random = Random(29)  # noqa: S311 - repeatable
    for minute in range(0, MINUTES, STEP):
        async with shop.services.database.transaction() as tx:
            attackers = Customers(shop, tx, f"attackers {minute}")
            await attack(attackers, random, ATTACKERS if minute % (HOLD_LIFE // timedelta(minutes=1)) == 0 else 10)
            customers = Customers(shop, tx, f"honest {minute}")
            for kind, trust, grams, paid in honest(random):
                try:
                    results[kind, await customers.hold(grams, trust, paid=paid) or "held"] += 1
                except NotEnoughInStock:
                    results[kind, "refused"] += 1
            paid_at = shop.clock() + timedelta(minutes=3)
            await tx.execute(
                "UPDATE supply_holds SET expires_at = $1 WHERE checkout_id LIKE $2", paid_at, f"honest {minute} %"
            )
        shop.clock.advance(minutes=STEP)
        await release.run_once()
    # A large amount of somebody unknown is paid after a notice.
    good = results.total() - sum(
        count
        for (kind, result), count in results.items()
        if result not in {"held", "amount" if kind == "large" else ""}
    )
    assert results.total() == MINUTES // STEP * 4
    assert good >= 0.99 * results.total(), results
    # Nor does anybody wait who pays without a hold: most of the supply is free.
    held = await shop.fetchval("SELECT sum(reserved_grams) FROM supply_holds")
    assert held < SUPPLY_T * TONNE // 2


async def attack(attackers: Customers, random: Random, count: int) -> None:
    """By this many of the addresses."""
    for grams in (10 * TONNE, 1, 1):
        for i in random.sample(range(ATTACKERS), count):
            await attackers.hold(grams, network=f"attacker {i}")
    for i in range(VICTIMS if count == ATTACKERS else 0):
        await attackers.hold(20 * TONNE, Trust.KNOWN, email=f"victim {i}", paid=20 * TONNE)


def honest(random: Random) -> Iterator[tuple[str, Trust, int, int]]:
    """Who wants to pay: a word, the trust, the grams, and what was paid before."""
    yield "small", Trust.ANONYMOUS, random.randint(1, TONNE), 0
    yield "known", Trust.KNOWN, random.randint(1, 20 * TONNE), 20 * TONNE
    yield "trusted", Trust.TRUSTED, random.randint(1, 100 * TONNE), 0
    yield "large", Trust.ANONYMOUS, random.randint(11 * TONNE, 500 * TONNE), 0

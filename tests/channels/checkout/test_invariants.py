"""The invariants of checkouts: each one detects a violation."""

import pytest

from tests.channels.checkout.shopper import STOLEN_CARD, Shopper
from tonne.apps.cli.operations.doctor import examine
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.invariants import INVARIANTS
from tonne.channels.checkout.links.model import OffsetLink

KNOWN = "every order of an offset link has a checkout"
SHOWN = "a checkout's total and quantity are those of its order"
ENDS = "expired checkouts are closed"
COUNTED = "the counts of offset links match the paid orders"

# Three checkouts: one paid, one with a declined card, one without an order.
BREACHES = [
    (KNOWN, "DELETE FROM checkouts"),
    (KNOWN, "UPDATE checkouts SET email = 'other@example.com'"),
    (SHOWN, "UPDATE checkouts SET total_cost_minor = total_cost_minor - 1"),
    (SHOWN, "UPDATE checkouts SET currency = 'JPY'"),
    (SHOWN, "UPDATE checkouts SET quantity_grams = quantity_grams + 1"),
    (ENDS, "UPDATE checkouts SET expires_at = now() - interval '2 hours' WHERE status = 'open'"),
    (ENDS, "UPDATE checkouts SET expires_at = now() - interval '2 hours' WHERE status = 'ordered'"),
    (COUNTED, "UPDATE offset_link_deltas SET paid_minor = paid_minor + 1 WHERE paid = 1"),
    (COUNTED, "UPDATE offset_link_deltas SET day = day - 1 WHERE paid = 1"),
]


def test_every_invariant_is_broken_once() -> None:
    assert {name for name, _ in BREACHES} == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize(("name", "statement"), BREACHES)
async def test_a_violation_is_found_and_located(
    services: Services, shopper: Shopper, link: OffsetLink, name: str, statement: str
) -> None:
    await shopper.pay(await shopper.begin(link))
    await shopper.pay(await shopper.begin(link), STOLEN_CARD)
    await shopper.begin(link)
    async with services.database.transaction() as tx:
        assert await examine(tx) == {}
    async with services.database.transaction() as tx:
        await tx.execute(statement)
    async with services.database.transaction() as tx:
        breaches = await examine(tx)
    assert set(breaches) == {name}
    assert all("acc_" in place for places in breaches.values() for place in places)

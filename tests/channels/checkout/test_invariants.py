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
RELEASED = "holds that have ended are released"
NAMED = "a hold names the order of its checkout"
COUNTED = "the counts of offset links match the paid orders"

_HOLD = """
INSERT INTO supply_holds (account_id, checkout_id, bundle_id, project_id, organisation_id, mode, kind, trust,
                          order_id, client_hash, quantity_grams, reserved_grams, charges_before, expires_at)
SELECT account_id, id, 'bun_1', (SELECT min(project_id) FROM lots WHERE lots.mode = checkouts.mode), organisation_id,
       mode, 'checkout', 'anonymous', {order_id}, sha256(''), 1, 1, 1, {expires_at}
FROM checkouts
"""

# Three checkouts: one paid, one with a declined card, one without an order.
BREACHES = [
    (KNOWN, "DELETE FROM checkouts"),
    (KNOWN, "UPDATE checkouts SET email = 'other@example.com'"),
    (SHOWN, "UPDATE checkouts SET total_cost_minor = total_cost_minor - 1"),
    (SHOWN, "UPDATE checkouts SET currency = 'JPY'"),
    (SHOWN, "UPDATE checkouts SET quantity_grams = quantity_grams + 1"),
    (ENDS, "UPDATE checkouts SET expires_at = now() - interval '2 hours' WHERE status = 'open'"),
    (ENDS, "UPDATE checkouts SET expires_at = now() - interval '2 hours' WHERE status = 'ordered'"),
    (RELEASED, _HOLD.format(order_id="order_id", expires_at="now() - interval '2 hours'")),
    (
        NAMED,
        _HOLD.format(order_id="CASE WHEN order_id IS NULL THEN 'ord_1' END", expires_at="now() + interval '1 hour'"),
    ),
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

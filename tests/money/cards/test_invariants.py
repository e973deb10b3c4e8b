"""The invariants of charges, broken on purpose: each breach is reported, and nothing else."""

import asyncpg
import pytest

from tests.money.cards.card_scene import GOOD, CardScene
from tonne.money.cards.invariants import INVARIANTS

TWICE = "no order is charged twice"
UNRECORDED = "every charge captured at the simulated gateway is recorded"
UNKNOWN_TO_GATEWAY = "every recorded charge exists at the simulated gateway"
PAID = "an order paid by card has one captured charge of its total"
CAPTURED = "no charge is captured for an unpaid order"
OWED = "what is left of an unneeded payment is being refunded"
OTHER_MODE = "no charge is captured in the other mode than its order's"
SUMS = "the orders of a charge sum to it"
DUE = "every pending charge is due"
DOCUMENTED = "every captured payment has a document"

_SECOND = """
INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, customer, method,
                     amount_minor, currency, status, reference, captured_minor, captured_currency, created_at)
SELECT account_id, id || '2', order_id, organisation_id, mode, 2, 'stripe', source, customer, method, amount_minor,
       currency, 'captured', 'pi_2', amount_minor, currency, created_at FROM charges WHERE status = 'captured'
"""
_SECOND_ORDER = """
INSERT INTO charge_orders (account_id, charge_id, order_id, amount_minor)
SELECT account_id, id, order_id, amount_minor FROM charges WHERE reference = 'pi_2'
"""
_STRAY = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status)
VALUES ('chg_stray', 'cus', '4242424242424242', 100, 'EUR', 'captured')
"""

# Three orders: one paid, one with a pending charge, one refunded. Each row: the invariant, what breaks it, and which
# other invariants that breaks.
BREACHES: list[tuple[str, list[str], set[str]]] = [
    (TWICE, ["DROP INDEX charges_one_per_order", _SECOND, _SECOND_ORDER], set()),
    (SUMS, ["UPDATE charge_orders SET amount_minor = amount_minor + 1"], set()),
    (SUMS, ["DELETE FROM charge_orders"], set()),
    (UNRECORDED, [_STRAY], set()),
    (
        UNRECORDED,
        ["UPDATE charges SET status = 'failed', reference = NULL WHERE status = 'captured'"],
        {PAID},
    ),
    (
        UNKNOWN_TO_GATEWAY,
        ["UPDATE simulated_charges SET amount_minor = amount_minor + 1 WHERE refunded_minor = 0"],
        set(),
    ),
    (UNKNOWN_TO_GATEWAY, ["UPDATE simulated_charges SET currency = 'JPY'"], set()),
    (UNKNOWN_TO_GATEWAY, ["DELETE FROM simulated_charges"], set()),
    (
        UNKNOWN_TO_GATEWAY,
        ["UPDATE simulated_charges SET refunded_minor = refunded_minor - 1 WHERE refunded_minor > 0"],
        set(),
    ),
    (PAID, ["UPDATE charges SET amount_minor = 1 WHERE status = 'captured'"], {SUMS}),
    (PAID, ["UPDATE charges SET currency = 'JPY' WHERE status = 'captured'"], set()),
    (PAID, ["DELETE FROM charge_orders", "DELETE FROM charges WHERE status = 'captured'"], {SUMS, UNRECORDED}),
    (
        CAPTURED,
        ["UPDATE orders SET status = 'failed' WHERE status = 'paid'"],
        {"an order's last event matches its status", "an order's JSON matches its columns", OWED},
    ),
    (
        OTHER_MODE,
        ["UPDATE charges SET status = 'mismatched', code = 'mode_mismatch' WHERE status = 'captured'"],
        {PAID},
    ),
    (DOCUMENTED, ["DELETE FROM due_documents"], set()),
    (DUE, ["UPDATE charges SET next_attempt_at = NULL WHERE status = 'pending'"], set()),
]


@pytest.fixture
async def scene(scene: CardScene) -> CardScene:
    cancelled = await scene.order(GOOD)
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    await scene.cancel(cancelled)
    await scene.worker.settle(answers)
    await scene.refunds.run_once()
    await scene.order(GOOD)
    await scene.work()
    await scene.order(GOOD)
    await scene.worker.claim()
    return scene


def test_every_invariant_is_broken_at_least_once() -> None:
    assert {name for name, _, _ in BREACHES} == {PAID, DOCUMENTED, *(invariant.name for invariant in INVARIANTS)}


@pytest.mark.parametrize(("name", "statements", "also"), BREACHES)
async def test_a_breach_is_reported_with_its_place(
    scene: CardScene, name: str, statements: list[str], also: set[str]
) -> None:
    assert await scene.breaches() == {}
    await scene.execute("; ".join(statements))
    breaches = await scene.breaches()
    assert set(breaches) == {name} | also
    places = [place for found in breaches.values() for place in found]
    assert all("chg_" in place or "ord_" in place for place in places)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET source = 'hosted_page'",
        "UPDATE charges SET source = 'none'",
        "UPDATE charges SET customer = NULL",
        "UPDATE charges SET method = NULL",
        "UPDATE charges SET session_id = 'cs_1'",
        "UPDATE charges SET source = 'hosted_page', customer = NULL",
        "UPDATE charges SET source = 'none', customer = NULL, method = NULL, session_id = 'cs_1'",
    ],
)
async def test_a_charge_has_one_source(scene: CardScene, statement: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await scene.execute(statement)

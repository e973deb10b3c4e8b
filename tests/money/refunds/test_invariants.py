"""The invariants of refunds and disputes, broken on purpose, and what the doctor warns of."""

import pytest

from tests.money.refunds.documents_scene import DocumentsScene
from tests.money.refunds.refund_scene import RefundScene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.refunds.invariants import INVARIANTS
from tonne.money.refunds.waiting import WAITING

_LATE = "UPDATE refunds SET created_at = created_at - interval '2 days'"

# Each row: the invariant, and what breaks it.
BREACHES = [
    ("what was approved has an approval", "UPDATE refunds SET approved_by = 'user:usr_1' WHERE state = 'due'"),
    ("no more is refunded than was captured", "UPDATE refunds SET amount_minor = 99999999 WHERE state = 'due'"),
    (
        "an order's refunds by bank do not exceed what was paid",
        "UPDATE refunds SET amount_minor = 99999999, method = 'bank', charge_id = NULL WHERE state = 'due'",
    ),
    ("an order's refunded amount is the sum of its refunds", "UPDATE orders SET refunded_minor = 1"),
    ("every refund is credited on the document of its order", "DELETE FROM credit_note_orders"),
    (
        "every dispute that was lost is credited, or its tax was decided to stay",
        "DELETE FROM credit_note_orders part USING disputes WHERE part.order_id = disputes.order_id",
    ),
    (
        "no more goes back for a reduction than it took off",
        (
            "INSERT INTO order_reductions SELECT account_id, id, order_id, organisation_id, mode, 2, 1, 0, 0, false, "
            "false, id, requested_by, created_at FROM refunds"
        ),
    ),
    (
        "an order's payment state agrees with its disputes and refunds",
        "UPDATE orders SET payment_state = 'paid' WHERE payment_state = 'disputed'",
    ),
    ("an order knows whether its payment is disputed", "UPDATE orders SET has_open_dispute = NOT has_open_dispute"),
    (
        "a charge is refunded when nothing is left of it",
        "UPDATE charges SET status = 'refunded' WHERE status = 'captured'",
    ),
    (
        "what is left of an unneeded payment is being refunded",
        "UPDATE charges SET is_surplus = true WHERE status = 'captured'",
    ),
    ("every refund by card that is not over is due", "UPDATE refunds SET next_attempt_at = NULL"),
    (
        "every failed refund of ours is repeated",
        "UPDATE refunds SET state = 'failed', settled_at = now() WHERE state = 'due'",
    ),
    ("every refund of the simulated gateway is recorded", "DELETE FROM refunds WHERE state = 'succeeded'"),
]


@pytest.fixture
async def scene(services: Services, world: World) -> DocumentsScene:
    """Four orders: partly refunded, with a due refund, disputed, and lost in a dispute."""
    scene = DocumentsScene(services, world.ours_test)
    await scene.refund(await scene.documented(), 500)
    await scene.send()
    await scene.refund(await scene.paid(), 500)
    await scene.dispute(await scene.paid(), DisputeState.OPENED)
    lost = await scene.documented()
    await scene.dispute(lost, DisputeState.OPENED)
    await scene.dispute(lost, DisputeState.LOST)
    return scene


def test_every_invariant_is_broken_once() -> None:
    assert [name for name, _ in BREACHES] == [invariant.name for invariant in INVARIANTS]


@pytest.mark.parametrize(("name", "statement"), BREACHES)
async def test_a_breach_is_reported(scene: RefundScene, name: str, statement: str) -> None:
    assert await scene.breaches() == {}
    await scene.execute(statement)
    breaches = await scene.breaches()
    assert name in breaches
    assert all(any(word in place for word in ("ord_", "chg_", "rfd_")) for place in breaches[name])


async def test_a_decision_to_credit_the_tax_of_a_lost_dispute_has_a_credit_note(
    services: Services, world: World
) -> None:
    scene = DocumentsScene(services, world.ours_test)
    order = await scene.documented()
    await scene.allocate()
    await scene.dispute(order, DisputeState.OPENED)
    await scene.dispute(order, DisputeState.LOST)
    assert await scene.breaches() == {}, "nothing is decided yet, and no tax is in it"
    await scene.execute("UPDATE disputes SET tax_decision = 'credited'")
    assert list(await scene.breaches()) == ["every dispute that was lost is credited, or its tax was decided to stay"]
    await scene.execute("UPDATE disputes SET tax_decision = 'kept'")
    assert await scene.breaches() == {}


# What waits, what makes it wait, and whether it is reported before.
WAITS = [
    ("live refunds by card succeed at the first attempt and within a day", _LATE),
    ("live refunds by card succeed at the first attempt and within a day", "UPDATE refunds SET attempt = 2"),
    ("no live refund waits for an approval", "UPDATE refunds SET state = 'approval' WHERE state = 'due'"),
    (
        "no live refund by bank waits for a person",
        "UPDATE refunds SET method = 'bank', charge_id = NULL WHERE state = 'due'",
    ),
    ("no live payment is disputed", "UPDATE disputes SET evidence_due = now()"),
    (
        "the tax of every live dispute that was lost is decided",
        (
            "UPDATE invoice_orders SET cancelled = false, tax_minor = 1, total_minor = total_minor + 1; "
            "UPDATE orders SET status = 'complete' WHERE status = 'cancelled'"
        ),
    ),
    (
        "every live payment arrived with the requested amount",
        "UPDATE charges SET status = 'mismatched' WHERE status = 'captured'",
    ),
]


@pytest.mark.parametrize(("name", "statement"), WAITS)
async def test_the_doctor_warns_of_live_money_that_waits(scene: RefundScene, name: str, statement: str) -> None:
    [check] = [each for each in WAITING if each.name == name]
    assert await _found(scene, check.sql) == [], "test mode does not wait for anybody"
    for table in ("refunds", "disputes", "charges"):
        await scene.execute(f"UPDATE {table} SET mode = 'live'")  # noqa: S608 - names of this test
    before = await _found(scene, check.sql)
    await scene.execute(statement)
    after = await _found(scene, check.sql)
    assert after
    assert name == "no live payment is disputed" or before == []


async def _found(scene: RefundScene, sql: str) -> list[str]:
    return [row["where"] for row in await scene.fetch(sql, scene.clock())]

"""A lot is invalidated although orders hold credits of it: they get others, or their certificates are withdrawn."""

from datetime import timedelta

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.db.invariant import find_violations
from tonne.selling.orders.model import Order
from tonne.selling.orders.totals.fold_totals import FoldTotals
from tonne.supply.retirements.invariants import INVARIANTS
from tonne.supply.retirements.resupply.resupply_orders import Decision, resolve_lot_cases
from tonne.supply.stock.errors import LotCaseDecided, LotCaseNotFound, LotNotFound, LotNotInUse
from tonne.supply.stock.lots.lot_case_store import CaseState, LotCase

REASON = "The registry cancelled the credits of this block."


async def resolve(shop: Shop, lot_id: str, decision: Decision, *orders: Order) -> list[LotCase]:
    ids = [order.id for order in orders] or None
    async with shop.database.transaction() as tx:
        return await resolve_lot_cases(tx, lot_id, ids, decision, by=TESTER.at(shop.clock.now))


async def test_free_grams_leave_supply_at_once(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    lot_id = await live.supply("A", 2020, 10)
    account = await live.account("Ada")
    await live.buy(account, 3 * TONNE, "wind")
    await live.work()
    done = await live.invalidate(lot_id, REASON)
    assert (done.lot.id, [case.state for case in done.cases]) == (lot_id, [CaseState.RESUPPLY])
    later = await live.buy(account, TONNE, "wind")
    await live.work()
    assert await live.statuses(later) == ["paid"]
    # Once more changes nothing.
    assert (await live.invalidate(lot_id, "again")).was_invalid
    await live.check_supply()


async def test_an_allocated_order_gets_other_credits_and_keeps_its_status(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 10)
    account = await live.account("Ada")
    order = await live.buy(account, 3_400_000, "wind")
    await live.work()
    assert [(task.serials, task.quantity_grams) for task in await live.work_list()] == [("live-A-1 101–103", 3 * TONNE)]
    await live.invalidate(wrong, REASON)
    # Nothing of the lot is left to retire. There is no other supply: the order waits visibly.
    assert await live.work_list() == []
    await live.work()
    assert await live.case_states(wrong) == {order.id: "resupply"}
    assert await live.statuses(order) == ["retiring"]
    await live.check_supply()
    # New lots arrive: the order is supplied within seconds.
    await live.supply("A", 2021, 10)
    await live.work()
    assert await live.case_states(wrong) == {order.id: "resupplied"}
    assert [task.serials for task in await live.work_list()] == ["live-A-2 101–103"]
    await live.check_supply()
    live.clock.advance(days=31)
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(order) == ["complete"]
    assert [line["vintage"] for line in (await live.certificate(order))["lines"]] == ["2021", "2021"]
    await live.check_supply()


async def test_another_project_of_the_bundle_supplies_if_the_same_cannot(live: Shop) -> None:
    await live.sell("mix", {"A": 1, "B": 1}, price="9.99")
    wrong = await live.supply("A", 2019, 10)
    await live.supply("B", 2020, 10)
    order = await live.buy(await live.account("Ada"), 4 * TONNE, "mix")
    await live.work()
    # What is folded already follows the order to its new projects.
    await live.run_jobs(FoldTotals(live.database))
    await live.invalidate(wrong, REASON)
    await live.work()
    assert "the totals of bundles and projects match the orders" not in await live.breaches()
    assert await live.fetchval("SELECT count(*) FROM bundle_totals WHERE grams > 0") == 1
    shown = await live.shown(order)
    assert [(each["project_name"], each["quantity"]) for each in shown["projects"]] == [("Project B", "4")]
    assert await live.statuses(order) == ["retiring"]
    await live.check_supply()


async def test_a_certificate_is_issued_again_after_the_new_retirement(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 2)
    order = await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    old = await live.certificate(order)
    await live.invalidate(wrong, REASON)
    # The operator decides.
    await live.work()
    assert await live.case_states(wrong) == {order.id: "undecided"}
    await live.supply("A", 2021, 10)
    assert [case.order_id for case in await resolve(live, wrong, Decision.RESUPPLY, order)] == [order.id]
    assert await resolve(live, wrong, Decision.RESUPPLY, order) == []
    await live.work()
    assert await live.case_states(wrong) == {order.id: "retiring"}
    # Until the new credits are retired, nothing is certified and nothing is counted.
    assert (await live.certificate_states(order)) == [(old["number"], "withdrawn")]
    assert await live.fetchval("SELECT count(*) FROM retired_totals WHERE account_id = $1", order.scope.account_id) == 0
    assert [each["status"] for each in (await live.shown(order))["projects"]] == ["allocated"]
    await live.check_supply()
    with pytest.raises(LotCaseDecided):
        await resolve(live, wrong, Decision.WITHDRAW, order)
    live.clock.advance(days=1)
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.case_states(wrong) == {order.id: "reissued"}
    new = await live.certificate(order)
    assert (new["replaces"]["number"], new["replaces"]["reason"]) == (old["number"], REASON)
    assert [line["serial_range"] for line in new["lines"]] == ["live-A-2 101–102"]
    assert [state for _, state in await live.certificate_states(order)] == ["valid", "replaced"]
    assert await live.statuses(order) == ["complete"]
    totals = "SELECT sum(grams) FROM retired_totals WHERE account_id = $1"
    assert await live.fetchval(totals, order.scope.account_id) == 2 * TONNE
    await live.check_supply()


async def test_pre_retired_supply_gives_a_new_certificate_at_once(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 2, retired=True)
    order = await live.buy(await live.account("Ada"), 1_500_000, "wind")
    await live.work()
    await live.invalidate(wrong, REASON)
    await live.supply("A", 2021, 10, retired=True)
    live.clock.advance(days=3)
    await resolve(live, wrong, Decision.RESUPPLY)
    await live.work()
    assert await live.case_states(wrong) == {order.id: "reissued"}
    lines = (await live.certificate(order))["lines"]
    assert {line["in_advance"]["assigned_on"] for line in lines} == {live.clock.now.date().isoformat()}
    await live.check_supply()


async def test_a_certificate_is_withdrawn_with_the_reason(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 2)
    order = await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    number = (await live.certificate(order))["number"]
    await live.invalidate(wrong, REASON)
    await resolve(live, wrong, Decision.WITHDRAW, order)
    assert await resolve(live, wrong, Decision.WITHDRAW, order) == []
    assert await live.certificate_states(order) == [(number, "withdrawn")]
    reason = await live.fetchval("SELECT state_reason FROM certificates WHERE number = $1", number)
    assert reason == REASON
    assert await live.fetchval("SELECT count(*) FROM retired_totals WHERE account_id = $1", order.scope.account_id) == 0
    await live.check_supply()
    # Later there is supply, and the operator decides otherwise.
    await live.supply("A", 2021, 2, retired=True)
    await resolve(live, wrong, Decision.RESUPPLY, order)
    await live.work()
    assert [state for _, state in await live.certificate_states(order)] == ["valid", "replaced"]
    await live.check_supply()


async def test_a_retired_unit_of_an_invalid_lot_takes_no_more_fractions(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 1)
    account = await live.account("Shop")
    first = await live.buy_at_checkout(account, 400_000, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    await live.invalidate(wrong, REASON)
    second = await live.buy_at_checkout(account, 100_000, "wind")
    await live.work()
    assert await live.statuses(first, second) == ["complete", "paid"]
    await live.supply("A", 2021, 1)
    await resolve(live, wrong, Decision.RESUPPLY)
    await live.work()
    # Both share a unit of the new lot now.
    (task,) = await live.work_list()
    assert task.quantity_grams == TONNE
    await live.confirm(task)
    await live.work()
    assert await live.statuses(first, second) == ["complete", "complete"]
    assert await live.case_states(wrong) == {first.id: "reissued"}
    await live.check_supply()


async def test_two_lots_of_one_certificate(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    lots = [await live.supply("A", 2018, 1), await live.supply("A", 2019, 1)]
    order = await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    for lot_id in lots:
        await live.invalidate(lot_id, REASON)
    await live.supply("A", 2021, 2, retired=True)
    await resolve(live, lots[0], Decision.RESUPPLY)
    await live.work()
    # The other half still has to be decided about.
    assert await live.case_states(lots[0]) == {order.id: "retiring"}
    await live.check_supply()
    await resolve(live, lots[1], Decision.RESUPPLY)
    live.clock.advance(minutes=11)
    await live.work()
    assert [await live.case_states(lot_id) for lot_id in lots] == [{order.id: "reissued"}] * 2
    assert [state for _, state in await live.certificate_states(order)] == ["valid", "replaced"]
    await live.check_supply()


async def test_a_partly_retired_order_without_a_certificate(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 1)
    await live.supply("A", 2020, 5)
    order = await live.buy(await live.account("Ada"), 3 * TONNE, "wind")
    await live.work()
    (first, second) = await live.work_list()
    await live.confirm(first)
    await live.work()
    await live.invalidate(wrong, REASON)
    # Its retired tonne does not count: it must not complete with it.
    await live.confirm(second)
    await live.work()
    assert await live.case_states(wrong) == {order.id: "resupplied"}
    assert await live.statuses(order) == ["retiring"]
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(order) == ["complete"]
    assert {line["vintage"] for line in (await live.certificate(order))["lines"]} == {"2020"}
    await live.check_supply()


async def test_what_cannot_be_invalidated_or_decided(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    unused = await live.supply("A", 2021, 1)
    with pytest.raises(LotNotInUse, match="tonne lot withdraw"):
        await live.invalidate(unused, REASON)
    with pytest.raises(LotNotFound):
        await live.invalidate("lot_nope", REASON)
    with pytest.raises(LotNotFound):
        await resolve(live, unused, Decision.WITHDRAW)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.invalidate(unused, REASON)
    with pytest.raises(LotCaseDecided, match="no certificate"):
        await resolve(live, unused, Decision.WITHDRAW, order)
    other = await live.buy(await live.account("Berta"), TONNE, "wind")
    with pytest.raises(LotCaseNotFound):
        await resolve(live, unused, Decision.RESUPPLY, other)


async def test_test_orders_get_new_supply_and_certificates(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    wrong = await trial.supply("A", 2020, 10)
    order = await trial.buy(await trial.account("Ada"), 2_500_000, "wind")
    await trial.work()
    assert await trial.statuses(order) == ["complete"]
    await trial.invalidate(wrong, REASON)
    await resolve(trial, wrong, Decision.RESUPPLY)
    await trial.work()
    assert await trial.case_states(wrong) == {order.id: "reissued"}
    await trial.check_supply()


async def test_every_step_is_in_the_audit_log(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 2)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    await live.invalidate(wrong, REASON)
    await live.supply("A", 2021, 2, retired=True)
    await resolve(live, wrong, Decision.RESUPPLY)
    await live.work()
    rows = await live.fetch("SELECT action FROM audit_log WHERE subject_id = ANY ($1) ORDER BY id", [wrong, order.id])
    actions = [row["action"] for row in rows if row["action"] != "lot.created"]
    assert sorted(actions) == [
        "certificate.reissued",
        "lot.invalidated",
        "order.credits_invalidated",
        "order.invalid_credits_decided",
        "order.resupplied",
    ]


async def test_a_complete_order_never_waits_for_a_unit_to_fill(live: Shop) -> None:
    """Its certificate is withdrawn: the unit of the fraction is on the work list at once, as at checkout."""
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 3)
    account = await live.account("Ada")
    order = await live.buy(account, 2_300_000, "wind")
    await live.work()
    live.clock.advance(days=31)
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    assert "certificate_state" not in await live.shown(order)
    await live.supply("A", 2021, 10)
    # An open unit of the account has room. It closes in a month, so the order must not join it.
    await live.buy(account, 200_000, "wind")
    await live.work()
    await live.invalidate(wrong, REASON)
    await resolve(live, wrong, Decision.RESUPPLY)
    await live.work()
    await live.check_supply()
    assert [task.quantity_grams for task in await live.work_list()] == [2 * TONNE, TONNE]
    shown = await live.shown(order)
    due = (live.clock.now + timedelta(days=7)).date().isoformat()
    assert (shown["status"], shown["certificate_state"], shown["certificate_expected_on"]) == (
        "complete",
        "being_replaced",
        due,
    )
    live.clock.advance(days=1)
    await live.confirm(*await live.work_list())
    await live.work()
    assert [state for _, state in await live.certificate_states(order)] == ["valid", "replaced"]
    assert not {"certificate_state", "certificate_expected_on"} & set(await live.shown(order))
    await live.check_supply()


async def test_a_second_invalid_lot_while_the_certificate_is_replaced_needs_no_decision(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    first = await live.supply("A", 2019, 2)
    order = await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    second = await live.supply("A", 2020, 2)
    await live.invalidate(first, REASON)
    await resolve(live, first, Decision.RESUPPLY)
    await live.work()
    await live.supply("A", 2021, 2)
    await live.invalidate(second, REASON)
    await live.check_supply()
    await live.work()
    assert await live.case_states(second) == {order.id: "retiring"}
    await live.confirm(*await live.work_list())
    await live.work()
    assert [await live.case_states(lot_id) for lot_id in (first, second)] == [{order.id: "reissued"}] * 2
    assert [line["vintage"] for line in (await live.certificate(order))["lines"]] == ["2021"]
    await live.check_supply()


async def test_the_doctor_names_a_complete_order_that_nobody_issues_a_certificate_for(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    wrong = await live.supply("A", 2019, 1)
    order = await live.buy_at_checkout(await live.account("Ada"), 400_000, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    await live.supply("A", 2021, 1)
    await live.invalidate(wrong, REASON)
    await resolve(live, wrong, Decision.RESUPPLY)
    await live.work()
    name = "a complete order without a valid certificate is being replaced, or its certificate was withdrawn for good"
    assert name not in await live.breaches()
    for broken in (
        """UPDATE parcels SET status = 'open', close_at = now(), in_service_name = false, closed_at = NULL,
        account_id = (SELECT account_id FROM orders WHERE id = $1) WHERE status = 'to_retire'""",
        "UPDATE orders SET certificate_due_on = NULL WHERE id = $1",
        "UPDATE lot_cases SET state = 'reissued', next_attempt_at = NULL, done_at = now() WHERE order_id = $1",
    ):
        async with live.database.transaction() as tx:
            await tx.execute("SAVEPOINT as_it_was")
            await tx.execute(broken, order.id)
            assert name in await find_violations(tx, INVARIANTS), broken
            await tx.execute("ROLLBACK TO SAVEPOINT as_it_was")

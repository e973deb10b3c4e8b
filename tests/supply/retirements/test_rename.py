"""The name of an order can be corrected until its first gram is retired, and later by a new certificate."""

import asyncio

import pytest

from tests.supply.retirements.shop import PAGES, TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Scope
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, Order
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.reissue_certificate import withdraw_certificate
from tonne.supply.retirements.confirmations.confirm_lines import import_confirmations
from tonne.supply.retirements.confirmations.work_list import export_tasks
from tonne.supply.retirements.rename_order import rename_order
from tonne.supply.stock.errors import BeneficiaryRetired, CertificateNotValid

NEW = Beneficiary("Ada GmbH")
MARIA = Beneficiary("Maria Keller", BeneficiaryKind.PERSON)


async def rename(shop: Shop, order: Order, to: Beneficiary = NEW) -> Order:
    async with shop.database.transaction() as tx:
        return await rename_order(
            tx,
            order.scope,
            order.id,
            to,
            reason="The name was misspelt.",
            settings=shop.settings,
            by=TESTER.at(shop.clock.now),
        )


async def open_shop(shop: Shop) -> Scope:
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 20)
    return await shop.account("Ada Ltd")


@pytest.mark.parametrize("is_paid", [False, True])
async def test_an_order_that_has_no_credits_yet_changes(live: Shop, is_paid: bool) -> None:
    ada = await open_shop(live)
    order = await (live.buy if is_paid else live.place)(ada, TONNE, "wind")
    await rename(live, order)
    assert (await live.shown(order))["beneficiary"] == {"name": "Ada GmbH"}
    if not is_paid:
        await live.pay(order)
    await live.work()
    assert [task.named for task in await live.work_list()] == ["Ada GmbH"]
    await live.check_invariants()


async def test_credits_that_are_allocated_get_the_new_name(live: Shop) -> None:
    ada = await open_shop(live)
    order = await live.buy(ada, 2_300_000, "wind")
    await live.work()
    events = await live.event_types(order)
    await rename(live, order)
    assert {cut.beneficiary for cut in await live.cuts()} == {"Ada GmbH"}
    assert {cut.status for cut in await live.cuts()} == {"to_retire", "open"}, "its own unit stays open"
    live.clock.advance(days=40)
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    certificate = await live.certificate(order)
    assert (certificate["beneficiary"], certificate["replaces"]) == ("Ada GmbH", None)
    assert {line["registry_name"] for line in certificate["lines"]} == {None}
    assert (await live.event_types(order))[: len(events)] == events
    await live.check_invariants()


async def test_a_shared_unit_goes_into_the_name_of_the_service(live: Shop) -> None:
    ada = await open_shop(live)
    order, other = await live.buy(ada, 1_300_000, "wind"), await live.buy(ada, 300_000, "wind")
    await live.work()
    await rename(live, order)
    named = sorted(task.named for task in await live.work_list())
    assert named == ["Ada GmbH", "Tonne, on behalf of Ada GmbH; Ada Ltd"]
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(order, other) == ["complete", "complete"]
    assert [(await live.certificate(each))["beneficiary"] for each in (order, other)] == ["Ada GmbH", "Ada Ltd"]
    await live.check_invariants()


async def test_a_name_is_refused_while_a_part_is_retired(live: Shop) -> None:
    ada = await open_shop(live)
    order = await live.buy(ada, 2_300_000, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    assert await live.statuses(order) == ["retiring"]
    with pytest.raises(BeneficiaryRetired):
        await rename(live, order)
    assert (await live.shown(order))["beneficiary"] == {"name": "Ada Ltd"}
    await live.check_invariants()


async def test_a_complete_order_gets_a_new_certificate(live: Shop) -> None:
    ada = await open_shop(live)
    order = await live.buy(ada, TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    old = await live.certificate(order)
    await rename(live, order)
    new = await live.certificate(order)
    assert (new["beneficiary"], new["replaces"]["number"]) == ("Ada GmbH", old["number"])
    assert new["lines"][0]["registry_name"] == "Ada Ltd"
    assert await rename(live, order) is not None, "the same name again"
    assert (await live.certificate(order))["number"] == new["number"], "changes nothing"
    await rename(live, order, MARIA)
    assert (await live.shown(order))["public_certificate_url"] is None
    assert await live.fetchval("SELECT bool_or(is_public) FROM certificates") is False, "old pages show her name, too"
    await live.check_invariants()
    actions = await live.fetch("SELECT action, before, after FROM audit_log WHERE subject_id = $1", order.id)
    assert sorted(row["action"] for row in actions) == ["certificate.reissued"] * 2 + ["order.renamed"] * 2
    assert "Maria" not in str([tuple(row) for row in actions])


async def test_orders_that_get_no_certificate_keep_their_name(live: Shop) -> None:
    ada = await open_shop(live)
    order = await live.place(ada, TONNE, "wind")
    await live.execute("UPDATE orders SET status = 'cancelled' WHERE id = $1", order.id)
    with pytest.raises(TransitionInvalid):
        await rename(live, order)
    done = await live.buy(ada, TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    async with live.database.transaction() as tx:
        locked = await lock_order(tx, done.scope, done.id)
        assert locked is not None
        await withdraw_certificate(tx, locked, reason="Cancelled.", by=TESTER.at(live.clock.now))
    with pytest.raises(CertificateNotValid):
        await rename(live, done)


@pytest.mark.parametrize("round_", range(6))
async def test_a_rename_that_races_a_retirement_comes_first_or_is_refused(live: Shop, round_: int) -> None:
    ada = await open_shop(live)
    order = await live.buy(ada, 2 * TONNE, "wind")
    await live.work()
    tasks = await live.work_list()
    racers = [rename(live, order), live.confirm(*tasks)]
    if round_ % 2:
        racers.reverse()
    results = await asyncio.gather(*racers, return_exceptions=True)
    refused = [each for each in results if isinstance(each, BaseException)]
    assert all(isinstance(each, BeneficiaryRetired) for each in refused), refused
    await live.work()
    certificate, shown = await live.certificate(order), await live.shown(order)
    expected = "Ada Ltd" if refused else "Ada GmbH"
    assert certificate["beneficiary"] == shown["beneficiary"]["name"] == expected
    assert [cut.beneficiary for cut in await live.cuts()] == [expected]
    assert certificate["lines"][0]["registry_name"] is None
    await live.check_invariants()


@pytest.mark.parametrize("round_", range(4))
async def test_a_rename_that_races_the_allocation_leaves_one_name(live: Shop, round_: int) -> None:
    ada = await open_shop(live)
    order = await live.buy(ada, 2_300_000, "wind")
    racers = [rename(live, order), live.work()]
    if round_ % 2:
        racers.reverse()
    await asyncio.gather(*racers)
    await live.work()
    assert {cut.beneficiary for cut in await live.cuts()} == {"Ada GmbH"}
    assert (await live.shown(order))["beneficiary"] == {"name": "Ada GmbH"}
    await live.check_invariants()


async def test_a_list_that_was_exported_before_the_rename_is_refused(live: Shop) -> None:
    ada = await open_shop(live)
    order = await live.buy(ada, 2 * TONNE, "wind")
    await live.work()
    [task] = await live.work_list()
    done = export_tasks([task]).decode("utf-8-sig").splitlines()
    cells = dict(zip(done[0].split(","), done[1].split(","), strict=True))
    page = f"{PAGES['Our Registry']}/{task.parcel_id}"
    facts = {"retired_on": live.clock.now.date().isoformat(), "retirement_url": page}
    file = SheetFile("done.csv", "\n".join((done[0], ",".join((cells | facts).values()))).encode())
    await rename(live, order)
    with pytest.raises(SheetInvalid, match="is now to be retired for “Ada GmbH”"):
        await import_file(live, file)
    # The registry has the old name: the order gets it back, is confirmed, and is corrected by a new certificate.
    await rename(live, order, Beneficiary("Ada Ltd"))
    await import_file(live, file)
    await live.work()
    await rename(live, order)
    certificate = await live.certificate(order)
    assert (certificate["beneficiary"], certificate["lines"][0]["registry_name"]) == ("Ada GmbH", "Ada Ltd")
    await live.check_invariants()


async def import_file(shop: Shop, file: SheetFile) -> None:
    async with shop.database.transaction() as tx:
        await import_confirmations(tx, shop.mode, file, by=TESTER.at(shop.clock.now))

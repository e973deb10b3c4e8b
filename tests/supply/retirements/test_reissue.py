"""A certificate is replaced by another one, or withdrawn. Its number always says what became of it."""

import msgspec
import pytest
from msgspec import structs

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.certificates import LINE, RECORD
from tests.support.pdf_pages import page_texts
from tests.support.world import TESTER
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.pdf import certificate_pdf
from tonne.supply.certificates.record import Replacement
from tonne.supply.certificates.reissue_certificate import reissue_certificate, withdraw_certificate
from tonne.supply.certificates.store import find_by_number_any_account, list_of_order
from tonne.supply.stock.errors import CertificateNotAvailable, CertificateNotValid

TOTALS = "SELECT month, sum(grams)::bigint AS grams FROM retired_totals GROUP BY month ORDER BY month"


async def complete(shop: Shop, *, retired: bool = False) -> Order:
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 10, retired=retired)
    order = await shop.buy(await shop.account("Ada Ltd"), 2 * TONNE, "wind")
    await shop.work()
    if not retired:
        await shop.confirm(*await shop.work_list())
        await shop.work()
    return order


async def reissue(shop: Shop, order: Order, name: str, reason: str = "The name was misspelt.") -> Order:
    async with shop.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        return await reissue_certificate(
            tx,
            structs.replace(locked, beneficiary=name),
            reason=reason,
            settings=shop.settings,
            by=TESTER.at(shop.clock.now),
        )


async def withdraw(shop: Shop, order: Order) -> str:
    async with shop.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        return await withdraw_certificate(
            tx, locked, reason="The credits were cancelled.", by=TESTER.at(shop.clock.now)
        )


async def test_a_new_certificate_replaces_the_old_one(live: Shop) -> None:
    order = await complete(live)
    old, shown = await live.certificate(order), await live.shown(order)
    live.clock.turn_to(5, 2)
    await reissue(live, order, "Ada GmbH")
    new = await live.certificate(order)
    assert new["supplied_on"] == old["supplied_on"] == (await live.shown(order))["supplied_on"]
    assert new["number"] != old["number"]
    assert (new["beneficiary"], new["issued_at"][:10]) == ("Ada GmbH", "2026-05-02")
    assert new["replaces"] == {"number": old["number"], "reason": "The name was misspelt."}
    [line] = new["lines"]
    assert line == {**old["lines"][0], "registry_name": "Ada Ltd"}, "the registry still has the old name"
    async with live.database.connection() as connection:
        found = await find_by_number_any_account(connection, old["number"])
        chain = [each.record.number for each in await list_of_order(connection, order.scope, order.id)]
    assert found is not None
    assert (found.state, found.replaced_by, found.state_reason) == ("replaced", new["number"], "The name was misspelt.")
    assert chain == [new["number"], old["number"]]
    now_shown = await live.shown(order)
    assert now_shown["public_certificate_url"].endswith(new["number"])
    assert (now_shown["certificate"], now_shown["projects"]) == (shown["certificate"], shown["projects"])
    assert await live.event_types(order) == [
        "order." + s for s in ("received", "placed", "paid", "retiring", "completed")
    ]


async def test_credits_retired_in_advance_keep_the_day_of_their_assignment(live: Shop) -> None:
    order = await complete(live, retired=True)
    [before] = (await live.certificate(order))["lines"]
    live.clock.turn_to(6, 3)
    await reissue(live, order, "Ada GmbH")
    [line] = (await live.certificate(order))["lines"]
    assert line["in_advance"] == {**before["in_advance"], "assigned_to": "Ada GmbH"}
    assert line["registry_name"] is None


async def test_totals_count_an_order_once(live: Shop) -> None:
    order = await complete(live)
    before = await live.fetch(TOTALS)
    live.clock.turn_to(7, 1)
    for number in range(3):
        await reissue(live, order, f"Ada {number}")
    assert await live.fetch(TOTALS) == before
    await live.execute("UPDATE orders SET beneficiary = 'Ada 2'")
    await live.check_invariants()


async def test_a_withdrawn_certificate_leaves_the_totals_and_can_be_replaced(live: Shop) -> None:
    order = await complete(live)
    before = await live.fetch(TOTALS)
    live.clock.turn_to(8, 1)
    number = await withdraw(live, order)
    assert await live.fetch(TOTALS) == []
    await live.check_invariants()
    async with live.database.connection() as connection:
        found = await find_by_number_any_account(connection, number)
    assert found is not None
    assert (found.state, found.state_reason) == ("withdrawn", "The credits were cancelled.")
    with pytest.raises(CertificateNotValid):
        await withdraw(live, order)
    await reissue(live, order, "Ada Ltd", "Other credits were retired instead.")
    assert await live.fetch(TOTALS) == before
    await live.check_invariants()


async def test_an_order_without_a_certificate_has_nothing_to_replace(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    order = await live.place(await live.account("Ada"), TONNE, "wind")
    with pytest.raises(CertificateNotAvailable):
        await reissue(live, order, "Berta")
    with pytest.raises(CertificateNotAvailable):
        await withdraw(live, order)


def test_the_pdf_says_what_it_replaces_and_what_the_registry_has() -> None:
    record = msgspec.structs.replace(
        RECORD,
        replaces=Replacement("3WNC-9RTV-M2QH-7XKD", "The name was misspelt."),
        lines=[msgspec.structs.replace(LINE, registry_name="customers of Hotel Miramar")],
    )
    text = " ".join(" ".join(page_texts(certificate_pdf(record))).split())
    assert "This certificate replaces No. 3WNC-9RTV-M2QH-7XKD. Reason: The name was misspelt." in text
    assert "Retired in the registry on behalf of customers of Hotel Miramar." in text
    plain = " ".join(page_texts(certificate_pdf(RECORD)))
    assert "eplaces" not in plain
    assert "in the registry on behalf" not in plain

"""Fractions share a unit: those of one account until it is full or a month has passed, then those of all accounts."""

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop


async def test_three_fractions_of_one_account_fill_a_tonne(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    ada = await live.account("Ada")
    # 1 March: 0.3 t open a unit, which waits for more.
    first = await live.buy(ada, 300_000, "wind")
    await live.work()
    assert [(cut.allocated_grams, cut.status, cut.beneficiary) for cut in await live.cuts()] == [
        (300_000, "open", "Ada")
    ]
    # 8 March: half a tonne goes into the same unit. It is not full yet, so the operator has nothing to retire.
    live.clock.turn_to(3, 8)
    second = await live.buy(ada, 500_000, "wind")
    await live.work()
    assert await live.work_list() == []
    assert await live.statuses(first, second) == ["retiring", "retiring"]
    # 15 March: 0.7 t. 0.2 of them fill the unit, and the rest opens the next one.
    live.clock.turn_to(3, 15)
    third = await live.buy(ada, 700_000, "wind")
    await live.work()
    assert [(cut.allocated_grams, cut.status) for cut in await live.cuts()] == [
        (1_000_000, "to_retire"),
        (500_000, "open"),
    ]
    (task,) = await live.work_list()
    assert (task.named, task.serials, task.quantity_grams) == ("Ada", "live-A-1 101", TONNE)
    await live.check_invariants()
    # 16 March: the operator retires it. Two orders have all they bought; the third still waits for its last half tonne.
    live.clock.turn_to(3, 16)
    await live.confirm(task)
    await live.work()
    assert await live.statuses(first, second, third) == ["complete", "complete", "retiring"]
    for order, share in ((first, "0.3"), (second, "0.5")):
        certificate = await live.certificate(order)
        (line,) = certificate["lines"]
        assert (certificate["beneficiary"], certificate["total_quantity"]) == ("Ada", share)
        assert line["shared"] == {"unit_quantity": "1", "share": share}
        assert (line["serial_range"], line["retired_on"]) == ("live-A-1 101", "2026-03-16")
        assert line["retirement_url"] == f"https://registry.verra.org/{task.parcel_id}"
    # 20 March: half a tonne more fills the second unit, and with its retirement the third order is complete.
    live.clock.turn_to(3, 20)
    fourth = await live.buy(ada, 500_000, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(third, fourth) == ["complete", "complete"]
    lines = (await live.certificate(third))["lines"]
    assert [(line["quantity"], line["retired_on"]) for line in lines] == [("0.2", "2026-03-16"), ("0.5", "2026-03-20")]
    await live.check_invariants()


async def test_three_orders_that_fill_a_tonne_complete_together(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 1)
    ada = await live.account("Ada")
    orders = [await live.buy(ada, grams, "wind") for grams in (333_333, 333_333, 333_334)]
    await live.work()
    assert await live.statuses(*orders) == ["retiring"] * 3
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(*orders) == ["complete"] * 3
    shares = [(await live.certificate(order))["lines"][0]["shared"]["share"] for order in orders]
    assert shares == ["0.333333", "0.333333", "0.333334"]
    await live.check_invariants()


async def test_the_open_fraction_after_thirty_days(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    ada, berta = await live.account("Ada"), await live.account("Berta")
    # 1 March: 0.4 t of Ada.
    first = await live.buy(ada, 400_000, "wind")
    await live.work()
    # 31 March, at nine sharp, a moment too early: nothing happens.
    live.clock.turn_to(3, 31)
    await live.work()
    assert [cut.status for cut in await live.cuts()] == ["open"]
    # A millisecond later the unit goes onto the work list, in the service's name and on Ada's behalf.
    live.clock.advance(milliseconds=1)
    await live.work()
    (cut,) = await live.cuts()
    assert (cut.status, cut.shared, cut.beneficiary, cut.allocated_grams) == ("to_retire", True, "Tonne", 400_000)
    (task,) = await live.work_list()
    assert task.named == "Tonne, on behalf of Ada"
    # 1 April: Berta's 0.1 t go into what is left of it, although it is on its way already.
    live.clock.turn_to(4, 1)
    second = await live.buy(berta, 100_000, "wind")
    await live.work()
    assert [cut.allocated_grams for cut in await live.cuts()] == [500_000]
    assert (await live.work_list())[0].named == "Tonne, on behalf of Ada; Berta"
    assert await live.statuses(first, second) == ["retiring", "retiring"]
    # 2 April: retired. Both are complete, each with its share, on its own behalf.
    live.clock.turn_to(4, 2)
    await live.confirm(task)
    await live.work()
    assert await live.statuses(first, second) == ["complete", "complete"]
    assert [(await live.certificate(order))["beneficiary"] for order in (first, second)] == ["Ada", "Berta"]
    # 3 April: what is left serves Ada's next 0.5 t at once; of 0.7 t more, nothing is left any more.
    live.clock.turn_to(4, 3)
    third = await live.buy(ada, 500_000, "wind")
    fourth = await live.buy(berta, 700_000, "wind")
    await live.work()
    assert await live.statuses(third, fourth) == ["complete", "retiring"]
    assert (await live.certificate(third))["lines"][0]["retired_on"] == "2026-04-02"
    assert [(cut.allocated_grams, cut.status) for cut in await live.cuts()] == [
        (1_000_000, "retired"),
        (700_000, "open"),
    ]
    await live.check_invariants()


async def test_two_beneficiaries_of_one_account_are_not_pooled_together(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    account = await live.account("Ada")
    await live.buy(account, 300_000, "wind")
    await live.work()
    await live.rename(account, "Berta")
    await live.buy(account, 300_000, "wind")
    await live.work()
    await live.rename(account, "Ada")
    await live.buy(account, 300_000, "wind")
    await live.work()
    assert [(cut.beneficiary, cut.allocated_grams) for cut in await live.cuts()] == [
        ("Ada", 600_000),
        ("Berta", 300_000),
    ]
    await live.check_invariants()


async def test_two_accounts_are_not_pooled_together_whatever_their_names(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    for _ in range(2):
        await live.buy(await live.account("Ada"), 300_000, "wind")
    await live.work()
    assert [(cut.beneficiary, cut.allocated_grams) for cut in await live.cuts()] == [("Ada", 300_000)] * 2
    await live.check_invariants()


async def test_a_registry_that_retires_by_the_kilogram(live: Shop) -> None:
    await live.sell("air", {"K": 1}, granularity=KILOGRAM)
    await live.supply("K", 2024, 5)
    ada = await live.account("Ada")
    # 1 March: 1.2345 t are 1,234 whole units and half a kilogram, which opens one more.
    first = await live.buy(ada, 1_234_500, "air")
    await live.work()
    assert [(cut.start_grams, cut.quantity_grams, cut.allocated_grams, cut.status) for cut in await live.cuts()] == [
        (0, 1_234_000, 1_234_000, "to_retire"),
        (1_234_000, 1_000, 500, "open"),
    ]
    # 2 March: 500 g fill it, and the next whole kilograms follow.
    live.clock.turn_to(3, 2)
    second = await live.buy(ada, 2_500, "air")
    await live.work()
    tasks = await live.work_list()
    assert [task.serials for task in tasks] == ["live-K-1 101–1337"]
    await live.confirm(*tasks)
    await live.work()
    assert await live.statuses(first, second) == ["complete", "complete"]
    lines = (await live.certificate(second))["lines"]
    assert [(line["quantity"], line["shared"]) for line in lines] == [
        ("0.0005", {"unit_quantity": "0.001", "share": "0.0005"}),
        ("0.002", None),
    ]
    await live.check_invariants()


async def test_in_test_mode_fractions_complete_at_once_and_share_units(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    orders = [
        await trial.buy(await trial.account(name), grams, "wind")
        for name, grams in (("Ada", 400_000), ("Berta", 400_000), ("Cleo", 1_400_000))
    ]
    await trial.work()
    assert await trial.statuses(*orders) == ["complete"] * 3
    assert [(cut.allocated_grams, cut.status, cut.shared) for cut in await trial.cuts()] == [
        (1_000_000, "retired", True),
        (1_000_000, "retired", False),
        (200_000, "retired", True),
    ]
    certificate = await trial.certificate(orders[2])
    assert (certificate["mode"], certificate["total_quantity"]) == ("test", "1.4")
    assert [line["quantity"] for line in certificate["lines"]] == ["0.2", "1", "0.2"]
    assert {line["retired_on"] for line in certificate["lines"]} == {"2026-03-01"}
    assert certificate["number"].startswith("TEST-")
    await trial.check_invariants()


async def test_a_confirmation_that_comes_while_a_worker_looks_at_the_order_is_not_lost(live: Shop) -> None:
    """The worker has seen an unretired gram and postpones the order: the wake-up must not be lost."""
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    (task,) = await live.work_list()
    await live.look_at_while(order, live.confirm(task))
    await live.work()
    assert await live.statuses(order) == ["complete"]
    await live.check_invariants()

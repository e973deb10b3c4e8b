"""A lot is invalidated after certificates went out; a fraction on the first day; 500 orders in one line."""

import csv
import io
import json
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import MARCH, ManualClock
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode, utc_now

REASON = "The registry cancelled these credits on 3 November."


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def shop(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


@pytest.fixture
def operator(services: Services) -> Operator:
    return Operator(services.database._url, services.settings.base_url)


def retire_all(operator: Operator, folder: Path, name: str, day: str) -> int:
    """Export the work list, fill it in, and import it, as an operator does. Returns the number of lines."""
    exported = folder / f"{name}.csv"
    operator.does("retirement", "export", "--mode", "live", "-o", str(exported))
    lines = list(csv.DictReader(io.StringIO(exported.read_text(encoding="utf-8-sig"))))
    done = folder / f"{name}-done.csv"
    with done.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        for line in lines:
            page = f"https://registry.verra.org/app/retirement/{line['parcel_id']}"
            writer.writerow({**line, "retired_on": day, "retirement_url": page})
    operator.does("retirement", "import", str(done), "--mode", "live")
    return len(lines)


async def test_issue_12_a_lot_is_invalidated_after_certificates_went_out(
    shop: Shop, operator: Operator, browser: httpx.AsyncClient, tmp_path: Path
) -> None:
    await shop.sell("wind", {"A": 1})
    wrong = await shop.supply("A", 2019, 10)
    # 1 March: three customers buy. 3 March: two of them have their certificates.
    acme, bakery, coast = [await shop.account(name) for name in ("Acme Ltd", "Bakery AS", "Coast Inc")]
    first, second = await shop.buy(acme, 2 * TONNE, "wind"), await shop.buy(bakery, 3 * TONNE, "wind")
    await shop.work()
    shop.clock.turn_to(3, 3)
    assert retire_all(operator, tmp_path, "march", "2026-03-03") == 2
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.statuses(first, second) == ["complete", "complete"]
    old = {order.id: (await shop.certificate(order))["number"] for order in (first, second)}
    third = await shop.buy(coast, TONNE, "wind")
    await shop.work()
    # Today: the registry has cancelled the credits. Nothing happens before the operator has seen what is affected.
    shown = json.loads(operator.does("lot", "show", wrong, "--json"))
    assert {each["order_id"]: each["certificate"] for each in shown["orders"]} == {**old, third.id: None}
    assert (shown["free_quantity"], shown["allocated_quantity"], shown["retired_quantity"]) == ("4", "1", "5")
    said = operator.does("lot", "invalidate", wrong, "--reason", REASON, "--yes")
    assert "3 orders affected, 2 certificates issued." in said
    assert all(number in said for number in old.values())
    assert "4 t that were free left supply" in said
    assert "2 orders with a certificate: decide with `tonne lot resolve" in said
    await shop.check_supply()
    # There is no other supply: the third order waits, visibly.
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.case_states(wrong) == {first.id: "undecided", second.id: "undecided", third.id: "resupply"}
    # New credits arrive. The third order is supplied without anybody's help.
    await shop.supply("A", 2021, 10)
    await shop.work()
    assert await shop.statuses(third) == ["retiring"]
    # The first customer gets other credits and a new certificate, the second one is refunded.
    operator.does("lot", "resolve", wrong, "--order", first.id, "--resupply")
    operator.does("lot", "resolve", wrong, "--order", second.id, "--withdraw")
    assert operator.does("lot", "resolve", wrong, "--all", "--withdraw") == "No changes: nothing is undecided."
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.case_states(wrong) == {first.id: "retiring", second.id: "withdrawn", third.id: "resupplied"}
    page = (await browser.get(f"/verify/{old[second.id]}")).text
    assert "ithdrawn" in page
    assert REASON in page
    await shop.check_supply()
    # The operator retires the new credits, and the new certificate says which one it replaces.
    retire_all(operator, tmp_path, "november", utc_now().date().isoformat())
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.statuses(first, third) == ["complete", "complete"]
    new = await shop.certificate(first)
    assert new["replaces"] == {"number": old[first.id], "reason": REASON}
    assert [line["vintage"] for line in new["lines"]] == ["2021"]
    page = (await browser.get(f"/verify/{old[first.id]}")).text
    assert new["number"] in page
    assert "eplaced" in page
    # The Sustainability pages count what is retired and valid.
    totals = await shop.fetch("SELECT account_id, sum(grams) AS grams FROM retired_totals GROUP BY account_id")
    counted = {row["account_id"]: row["grams"] for row in totals}
    assert counted == {acme.account_id: 2 * TONNE, coast.account_id: TONNE}
    assert (await shop.shown(first))["public_certificate_url"].endswith(new["number"])
    await shop.check_supply()


async def test_issue_12_a_fraction_on_the_first_day(shop: Shop, operator: Operator, tmp_path: Path) -> None:
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 10)
    hotel = await shop.account("Hotel Miramar")
    # 1 March: a guest pays for 0.4 t at the checkout. The whole unit is on the work list the same day.
    guest = await shop.buy_at_checkout(hotel, 400_000, "wind")
    await shop.work()
    (unit,) = [json.loads(line) for line in operator.does("unit", "list", "--json").splitlines()]
    assert (unit["status"], unit["fill_percent"], unit["orders_waiting"]) == ("to_retire", 40, 1)
    assert retire_all(operator, tmp_path, "first", "2026-03-01") == 1
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.statuses(guest) == ["complete"]
    # The next guest, months later, has the certificate at once.
    later = await shop.buy_at_checkout(hotel, 350_000, "wind")
    await shop.work()
    assert await shop.statuses(later) == ["complete"]
    (line,) = (await shop.certificate(later))["lines"]
    assert line["in_advance"]["retired_by"] == shop.settings.seller_name
    # An order by API waits for a full unit, and the operator sees until when; or does not wait.
    waiting = await shop.buy(await shop.account("Acme Ltd"), 800_000, "wind")
    await shop.work()
    units = [json.loads(line) for line in operator.does("unit", "list", "--json").splitlines()]
    (open_unit,) = [each for each in units if each["status"] == "open"]
    assert open_unit["order_ids"] == [waiting.id]
    assert open_unit["close_at"] is not None
    operator.does("unit", "close", open_unit["id"])
    assert operator.is_refused("unit", "close", open_unit["id"]).startswith(f"Unit {open_unit['id']} is not open")
    assert retire_all(operator, tmp_path, "second", utc_now().date().isoformat()) == 1
    shop.clock.now = utc_now() + timedelta(minutes=1)
    await shop.work()
    assert await shop.statuses(waiting) == ["complete"]
    await shop.check_supply()


async def test_issue_12_five_hundred_orders_are_one_retirement(shop: Shop, operator: Operator, tmp_path: Path) -> None:
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 600)
    acme, other = await shop.account("Acme Ltd"), await shop.account("Bakery AS")
    for number in range(500):
        await shop.buy(acme, TONNE, "wind")
        if number == 249:
            await shop.buy(other, TONNE, "wind")
    await shop.work()
    tasks = {task.named: task for task in await shop.work_list()}
    assert tasks["Acme Ltd"].serials == "live-A-1 101–350; live-A-1 352–601"
    assert len(tasks["Acme Ltd"].parcel_ids) == 500
    assert retire_all(operator, tmp_path, "all", "2026-03-01") == 2
    shop.clock.now = utc_now()
    await shop.work()
    assert await shop.fetchval("SELECT count(*) FROM certificates WHERE account_id = $1", acme.account_id) == 500
    assert await shop.work_list() == []
    await shop.check_supply()

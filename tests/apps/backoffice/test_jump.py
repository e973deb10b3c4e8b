"""Jumping to a page, an order, a certificate or a customer, in both areas."""

import re
from collections.abc import Callable

from tests.channels.public_pages.certificates import complete_live_order
from tests.support.clock import ManualClock
from tests.support.orders import place
from tests.support.people import Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services

TARGET = re.compile(r'<li><a href="([^"]+)">')


async def jump(person: Person, base: str, term: str) -> list[str]:
    answer = await person.http.get(f"{base}/jump", params={"q": term})
    assert answer.status_code == 200
    listed = answer.text.partition('id="jumps"')[2].partition("</section>")[0]
    return TARGET.findall(listed)


async def test_members_find_what_belongs_to_their_organisation_and_operators_find_everything(
    services: Services, world: World, person: Callable[[], Person], clock: ManualClock
) -> None:
    ours, theirs = world.ours_live.scope, world.theirs_test.scope
    number = await complete_live_order(services, world)
    order = await place(services, ours, clock())
    foreign = await place(services, theirs, clock())
    await add_user(services, "ann@ours.test", ours.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    base = f"/dashboard/live/{ours.organisation_id}"
    assert f"{base}/people" in await jump(ann, base, "")
    assert await jump(ann, base, " peop") == [f"{base}/people"]
    assert await jump(ann, base, order.id) == [f"{base}/orders/{order.id}"]
    assert f"{base}/certificates?q={number}" in await jump(ann, base, number.lower().replace("-", " "))
    assert f"{base}/accounts/{ours.account_id}" in await jump(ann, base, ours.account_id)
    assert await jump(ann, base, foreign.id) == []
    test_base = f"/dashboard/test/{ours.organisation_id}"
    assert await jump(ann, test_base, order.id) == []
    assert await jump(ann, test_base, number) == []

    boss = person()
    await operator(services, boss)
    assert await jump(boss, "/operator/live", "today") == ["/operator/live/today"]
    assert await jump(boss, "/operator/live", order.id) == [f"/operator/live/orders/{order.id}"]
    assert await jump(boss, "/operator/test", foreign.id) == [f"/operator/test/orders/{foreign.id}"]
    assert await jump(boss, "/operator/live", foreign.id) == []
    assert f"/verify/{number}" in await jump(boss, "/operator/live", number)
    assert f"/operator/live/customers/{theirs.organisation_id}" in await jump(boss, "/operator/live", "their")

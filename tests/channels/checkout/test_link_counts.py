"""Visits and payments of offset links are counted per day, without anything about the visitors."""

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest

from tests.channels.checkout.shopper import STOLEN_CARD, Shopper, make_link
from tests.support.api_client import ApiClient
from tests.support.orders import place
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.link_counts import counts as link_counts_module
from tonne.channels.checkout.link_counts.count_store import (
    FoldLinkCounts,
    LinkTotals,
    fold_counts,
    list_account_days,
    list_link_days,
)
from tonne.channels.checkout.link_counts.counts import LinkCounts
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.values.context import utc_now
from tonne.selling.orders import move_order
from tonne.selling.orders.move_order import mark_paid

TODAY = utc_now().date()
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Version/18.1 Safari/604.1"
PROGRAMS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "WhatsApp/2.23.20.0",
    "Mozilla/5.0 (Windows NT 6.1) SkypeUriPreview Preview/0.5",
    "curl/8.5.0",
)


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


async def counted(scene: Scene, link: OffsetLink) -> dict[date, LinkTotals]:
    await scene.services.link_counts.write()
    async with scene.database.connection() as connection:
        return await list_link_days(connection, link.scope, link.id, TODAY - timedelta(days=400), TODAY)


async def test_visits_and_payments_are_counted_per_link(
    scene: Scene, shopper: Shopper, link: OffsetLink, world: World, rows: Any
) -> None:
    other = await make_link(scene.services, world.ours_test.scope)
    shopper.http.headers["user-agent"] = SAFARI
    await shopper.pay(await shopper.begin(link))
    await shopper.pay(await shopper.begin(link), STOLEN_CARD)
    await shopper.open(f"/offset/{link.id}")
    await shopper.open(f"/offset/{link.id}/price", amount="1")
    assert (await shopper.choose(link, amount="nothing")).status_code == 422
    await shopper.open(f"/offset/{other.id}")
    [order] = await rows("SELECT quantity_grams, total_cost_minor + tax_minor AS due FROM orders WHERE status = 'paid'")
    expected = {TODAY: LinkTotals(4, 2, 1, order["quantity_grams"], order["due"])}
    assert await counted(scene, link) == expected
    await scene.run_jobs(FoldLinkCounts(scene.database))
    assert await scene.fetchval("SELECT count(*) FROM offset_link_deltas") == 0
    await shopper.open(f"/offset/{other.id}")
    assert await counted(scene, link) == expected, "folded or not"
    assert await counted(scene, other) == {TODAY: LinkTotals(opened=2)}
    async with scene.database.connection() as connection:
        both = await list_account_days(connection, link.scope, TODAY, TODAY)
        assert both == {TODAY: expected[TODAY].plus(LinkTotals(opened=2))}
        theirs = world.theirs_test.scope
        assert await list_account_days(connection, theirs, TODAY, TODAY) == {}
        assert await list_link_days(connection, theirs, link.id, TODAY, TODAY) == {}
    await scene.check_invariants()


async def test_programs_and_pages_loaded_in_advance_do_not_count(
    scene: Scene, shopper: Shopper, link: OffsetLink
) -> None:
    path = f"/offset/{link.id}"
    for agent in PROGRAMS:
        assert (await shopper.http.get(path, headers={"user-agent": agent})).status_code == 200
    shopper.http.headers["user-agent"] = SAFARI
    assert (await shopper.http.head(path)).status_code == 200
    for name, value in (
        ("sec-purpose", "prefetch;prerender"),
        ("purpose", "prefetch"),
        ("x-purpose", "preview"),
        ("x-moz", "prefetch"),
        ("sec-fetch-site", "same-origin"),
    ):
        assert (await shopper.http.get(path, headers={name: value})).status_code == 200
    assert await counted(scene, link) == {}
    phone = "Mozilla/5.0 (Linux; Android 11; CUBOT X50) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36"
    await shopper.http.get(path, headers={"user-agent": phone, "sec-fetch-site": "cross-site"})
    assert await counted(scene, link) == {TODAY: LinkTotals(opened=1)}
    stored = await scene.fetchval("SELECT string_agg(offset_link_deltas::text, ' ') FROM offset_link_deltas")
    assert "CUBOT" not in stored


async def test_the_page_of_a_checkout_from_the_api_is_the_first_page(
    scene: Scene, shopper: Shopper, link: OffsetLink, api: ApiClient
) -> None:
    body = {"offset_link_id": link.id, "quantity": "1", "email": "ann@example.com"}
    made = (await api.post("/v1/checkouts", body)).json()
    assert await counted(scene, link) == {}
    shopper.http.headers["user-agent"] = SAFARI
    path = made["url"].partition("/checkout/")[2]
    await shopper.pay(f"/checkout/{path}", STOLEN_CARD)
    await shopper.open(f"/checkout/{path}")
    assert await counted(scene, link) == {TODAY: LinkTotals(opened=1, begun=1)}, "not again after a decline"


async def test_a_process_that_counts_no_payments_cannot_mark_orders_as_paid(
    scene: Scene, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a new command would lose payments without a trace."""
    order = await place(scene.services, world.ours_test.scope, utc_now())
    monkeypatch.setattr(move_order, "_listeners", [])
    with pytest.raises(LookupError, match="nobody listens for paid orders"):
        async with scene.database.transaction() as tx:
            await mark_paid(tx, order, utc_now())


async def test_paid_orders_that_are_not_counted_break_an_invariant(
    scene: Scene, shopper: Shopper, link: OffsetLink
) -> None:
    await shopper.pay(await shopper.begin(link))
    assert {day: totals.paid for day, totals in (await counted(scene, link)).items()} == {TODAY: 1}
    await scene.check_invariants()
    await scene.execute("TRUNCATE offset_link_deltas, offset_link_days")
    assert (await scene.breaches()).keys() == {"the counts of offset links match the paid orders"}


async def test_workers_fold_at_the_same_time_without_losing_counts(scene: Scene, link: OffsetLink) -> None:
    counts = scene.services.link_counts

    async def fold() -> None:
        async with scene.database.connection() as connection:
            while await fold_counts(connection, 3):
                pass

    for _ in range(20):
        counts.count_begun(link)
        await counts.write()
    await asyncio.gather(fold(), fold())
    assert await scene.fetchval("SELECT count(*) FROM offset_link_deltas") == 0
    assert await counted(scene, link) == {TODAY: LinkTotals(begun=20)}


async def test_counts_wait_while_the_database_is_away(
    scene: Scene, shopper: Shopper, link: OffsetLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    shopper.http.headers["user-agent"] = SAFARI
    await scene.execute("ALTER TABLE offset_link_deltas RENAME TO away")
    assert (await shopper.open(f"/offset/{link.id}")).status_code == 200
    await scene.services.link_counts.write()
    await scene.execute("ALTER TABLE away RENAME TO offset_link_deltas")
    assert await counted(scene, link) == {TODAY: LinkTotals(opened=1)}
    monkeypatch.setattr(link_counts_module, "MAX_WAITING", 0)
    full = LinkCounts(scene.database, utc_now)
    full.count_begun(link)
    assert dict(full.metrics[0].snapshot().series) == {("dropped",): [1]}

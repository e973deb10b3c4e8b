"""The page of an offset link."""

import re

import httpx
import pytest

from tests.channels.checkout.scene import FIND_APART, HOSTILE, SELL_OUT, Rows, allow, work
from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.selling.accounts.store import set_simulated_supply


def value_of(page: httpx.Response, name: str) -> list[str]:
    return form_of(page).values().get(name, [])


async def test_the_query_prefills_the_form(
    services: Services, world: World, shopper: Shopper, link: OffsetLink
) -> None:
    await allow(services, world, "shop.example.com")
    bundle = next(iter(world.bundles_test.values()))
    offered = await make_link(
        services,
        world.ours_test.scope,
        bundle_selection=[{"bundle_id": each} for each in world.bundles_test.values()],
    )
    page = await shopper.open(
        f"/offset/{offered.id}",
        quantity="0.25",
        bundle_id=bundle,
        redirect_url="https://shop.example.com/x",
        redirect_label="the shop",
        external_id="e-1",
        email="bob@example.com",
    )
    assert [value_of(page, name) for name in ("by", "amount", "email", "external_id")] == [
        ["quantity"],
        ["0.25"],
        ["bob@example.com"],
        ["e-1"],
    ]
    assert value_of(page, "bundle_id") == [bundle]
    assert "data-total" in page.text, "with an amount there is a price at once"
    by_value = await shopper.open(f"/offset/{link.id}", value="20")
    assert [value_of(by_value, name) for name in ("by", "amount")] == [["value"], ["20"]]


async def test_several_bundles_can_be_preselected(services: Services, world: World, shopper: Shopper) -> None:
    ids = list(world.bundles_test.values())
    link = await make_link(services, world.ours_test.scope, bundle_selection=[{"bundle_id": each} for each in ids])
    page = await shopper.http.get(f"/offset/{link.id}", params=[("bundle_id", ids[0]), ("bundle_id", ids[1])])
    assert sorted(value_of(page, "bundle_id")) == sorted(ids[:2])


@pytest.mark.parametrize(
    ("language", "pattern"),
    [
        ("de-DE,de;q=0.9,en;q=0.5", "1[.]0[0-9][0-9],[0-9][0-9]\u00a0€"),
        ("en-GB", "€1,0[0-9][0-9][.][0-9][0-9]"),
        ("fr", "1\u202f0[0-9][0-9],[0-9][0-9]\u00a0€"),
        ("xx-nonsense, ;q=, *", "€1,0[0-9][0-9][.][0-9][0-9]"),
    ],
)
async def test_numbers_are_formatted_for_the_visitors_locale(
    shopper: Shopper, link: OffsetLink, language: str, pattern: str
) -> None:
    page = await shopper.http.get(
        f"/offset/{link.id}/price",
        params={"by": "value", "amount": "1037,96"},
        headers={"Accept-Language": language},
    )
    assert re.search(f'<dd class="total">{pattern}</dd>', page.text)


@pytest.mark.parametrize(
    "amount", ["0", "-1", "abc", "1.000,5", "1,000.5", "1e3", "１", "٣", "0.0000001", "9" * 16, ""]
)
async def test_an_invalid_amount_is_reported_beside_its_field(shopper: Shopper, link: OffsetLink, amount: str) -> None:
    answer = await shopper.choose(link, amount=amount)
    assert answer.status_code == 422
    assert 'id="amount-fault"' in answer.text
    assert value_of(answer, "email") == ["ann@example.com"], "what was typed is still there"


@pytest.mark.parametrize(
    "email", ["", "x", "a@b", "a b@example.com", "a@example.com\nBcc: x@y.zz", "a" * 255 + "@e.com"]
)
async def test_an_invalid_email_is_reported_beside_its_field(shopper: Shopper, link: OffsetLink, email: str) -> None:
    answer = await shopper.choose(link, email=email)
    assert answer.status_code == 422
    assert 'id="email-fault"' in answer.text


async def test_limits_apply_to_the_price_and_to_the_checkout(
    services: Services, world: World, shopper: Shopper
) -> None:
    limits = {"min_quantity_grams": 1_000_000, "max_value_minor": 10_000}
    link = await make_link(services, world.ours_test.scope, **limits)
    for amount, words in (("0.5", "The minimum is 1\u00a0t"), ("99", "The maximum is €100.00")):
        assert words in (await shopper.open(f"/offset/{link.id}/price", by="quantity", amount=amount)).text
        assert (await shopper.choose(link, amount=amount)).status_code == 422
    assert (await shopper.choose(link, amount="1")).status_code == 303


async def test_a_fixed_amount_cannot_be_changed(services: Services, world: World, shopper: Shopper) -> None:
    link = await make_link(services, world.ours_test.scope, preset_quantity_grams=3_000_000, amount_editable=False)
    page = await shopper.open(f"/offset/{link.id}", quantity="0.1")
    assert value_of(page, "amount") == []
    assert "3\u00a0t" in page.text
    address = await shopper.begin(link, amount="0.1", by="value")
    await shopper.pay(address)
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT requested_quantity_grams FROM orders") == 3_000_000


async def test_a_sold_out_bundle_is_shown_but_cannot_be_bought(
    services: Services, world: World, shopper: Shopper
) -> None:
    gone = next(iter(world.bundles_test.values()))
    async with services.database.transaction() as tx:
        there = await tx.fetchval(FIND_APART, gone)
        await tx.execute(SELL_OUT, gone)
    link = await make_link(
        services, world.ours_test.scope, bundle_selection=[{"bundle_id": gone}, {"bundle_id": there}]
    )
    page = await shopper.open(f"/offset/{link.id}", quantity="1")
    assert "Sold out" in page.text
    assert value_of(page, "bundle_id") == [there], "what is left is chosen"
    answer = await shopper.choose(link, amount="1", bundle_id=gone)
    assert answer.status_code == 422
    assert "sold out. Choose" in answer.text
    assert (await shopper.choose(link, amount="1")).status_code == 303


async def test_a_bundle_that_sells_out_meanwhile_is_not_charged_for(
    services: Services, world: World, shopper: Shopper
) -> None:
    bundle_id = next(iter(world.bundles_test.values()))
    link = await make_link(services, world.ours_test.scope, bundle_selection=[{"bundle_id": bundle_id}])
    page = await shopper.open(await shopper.begin(link, amount="1"))
    async with services.database.transaction() as tx:
        await tx.execute(SELL_OUT, bundle_id)
    answer = await shopper.send(page)
    assert answer.status_code == 422
    assert "sold out. Choose" in answer.text
    assert "Choose again" in answer.text
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM orders") == 0


async def test_security_5_an_anonymous_buyer_cannot_sell_out_a_test_link(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    for _ in range(3):
        await shopper.pay(await shopper.begin(link, amount="90000000"))
        await work(services)
    page = await shopper.open(f"/offset/{link.id}", quantity="100")
    assert "old out" not in page.text
    await shopper.pay(await shopper.begin(link, amount="100"))
    await work(services)
    assert {row["status"] for row in await rows("SELECT status FROM orders")} == {"complete"}
    flags = await rows("SELECT DISTINCT insufficient_available_quantity AS short FROM order_lines")
    assert [row["short"] for row in flags] == [False]


async def test_a_test_account_that_simulates_short_supply_sees_it_on_its_pages(
    services: Services, shopper: Shopper, link: OffsetLink
) -> None:
    scope = link.scope
    async with services.database.transaction() as tx:
        await set_simulated_supply(tx, scope, 2_500_000)
    answer = await shopper.choose(link, amount="3")
    assert (answer.status_code, "Choose a smaller amount" in answer.text) == (422, True)
    assert (await shopper.choose(link, amount="2")).status_code == 303
    async with services.database.transaction() as tx:
        await set_simulated_supply(tx, scope, 0)
    assert "old out" in (await shopper.open(f"/offset/{link.id}", quantity="1")).text


async def test_bundles_that_are_not_on_offer_are_rejected(world: World, shopper: Shopper, link: OffsetLink) -> None:
    for bundle_id in (world.disabled_bundle_test, *world.bundles_live.values(), "x", ""):
        answer = await shopper.choose(link, bundle_id=bundle_id)
        assert answer.status_code == 422, bundle_id


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.com/",
        "http://shop.example.com/",
        "javascript:alert(1)",
        "//evil.example.com",
        "https://shop.example.com@evil.example.com/",
        "https://shop.example.com.evil.example.com/",
        "https:/\\evil.example.com",
        "data:text/html,x",
        "/checkout/x",
    ],
)
async def test_hosts_that_are_not_on_the_list_are_rejected(
    services: Services, world: World, shopper: Shopper, link: OffsetLink, url: str
) -> None:
    await allow(services, world, "shop.example.com")
    page = await shopper.open(f"/offset/{link.id}", redirect_url=url)
    assert page.status_code == 400
    assert f'href="{url}"' not in page.text
    form = form_of(await shopper.open(f"/offset/{link.id}"))
    answer = await shopper.http.post(form.action, data=form.values(amount="1", email="a@example.com", redirect_url=url))
    assert answer.status_code == 422


async def test_a_link_with_a_forbidden_host_still_sells_without_a_redirect(
    services: Services, world: World, shopper: Shopper
) -> None:
    link = await make_link(
        services, world.ours_test.scope, redirect_url="https://shop.example.com/", redirect_label="us"
    )
    assert "shop.example.com" not in (await shopper.open(f"/offset/{link.id}")).text
    paid = await shopper.pay(await shopper.begin(link))
    assert "Thank you" in paid.text
    assert "shop.example.com" not in paid.text


async def test_hostile_text_is_escaped(services: Services, world: World, shopper: Shopper) -> None:
    await allow(services, world, "shop.example.com")
    link = await make_link(services, world.ours_test.scope, title=HOSTILE, message=HOSTILE)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE bundles SET name = $1, description = $1 WHERE mode = 'test'", HOSTILE)
        await tx.execute("UPDATE catalogues SET version = version + 1")
    query = {"redirect_url": "https://shop.example.com/?a=<b>&c='\"", "redirect_label": HOSTILE, "external_id": HOSTILE}
    page = await shopper.open(f"/offset/{link.id}", quantity=HOSTILE, email=HOSTILE, **query)
    address = await shopper.begin(link, query=query)
    pages = [page, await shopper.open(address), await shopper.pay(address), await shopper.open(address)]
    for each in pages:
        assert each.status_code == 200
        assert "<script>alert" not in each.text
        assert "<img src=x" not in each.text
        assert "&lt;script&gt;" in each.text
        assert "49" not in re.sub(r"[0-9a-z]{10,}", "", each.text.split("<title>")[1].split("</title>")[0])
        assert "script-src 'self'" in each.headers["content-security-policy"]


async def test_a_form_from_another_site_is_rejected(shopper: Shopper, link: OffsetLink) -> None:
    form = form_of(await shopper.open(f"/offset/{link.id}"))
    fields = form.values(amount="1", email="a@example.com")
    without = {name: value for name, value in fields.items() if name != "form_token"}
    for data, headers in (
        (without, {}),
        ({**fields, "form_token": ["x" * 22]}, {}),
        (fields, {"Sec-Fetch-Site": "cross-site"}),
        (fields, {"Sec-Fetch-Site": "same-site"}),
        (fields, {"Cookie": ""}),
    ):
        if "Cookie" in headers:
            shopper.http.cookies.clear()
        answer = await shopper.http.post(form.action, data=data, headers=headers)
        assert answer.status_code == 400, headers
        assert "was not sent from our page" in answer.text
    answer = await shopper.http.post(form.action, content=b"\xff\xfe", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 400


async def test_the_page_is_not_cached_and_its_cookie_is_http_only(link: OffsetLink, shopper: Shopper) -> None:
    page = await shopper.open(f"/offset/{link.id}")
    cookie = page.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "set-cookie" not in (await shopper.open(f"/offset/{link.id}")).headers, "other tabs keep theirs"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert len(page.content) < 150_000


async def test_a_link_without_available_bundles_says_so(services: Services, world: World, shopper: Shopper) -> None:
    link = await make_link(services, world.ours_test.scope, bundle_selection=[{"bundle_id": "bun_gone"}])
    page = await shopper.open(f"/offset/{link.id}", quantity="1")
    assert page.status_code == 200
    assert "There is nothing on offer right now" in page.text

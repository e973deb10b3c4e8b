"""Signed queries, and what an unsigned external id cannot do."""

from urllib.parse import urlencode

import httpx
import msgspec
import pytest

from tests.channels.checkout.scene import Rows, allow
from tests.channels.checkout.shopper import LINK_SECRET, STOLEN_CARD, Shopper, form_of, make_link, signed
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.signed_query import canonical_query, rotate_link_secret, sign_query
from tonne.platform.values.context import utc_now

ORDERS = """
SELECT status, quantity_grams, metadata, email, external_id, external_id_verified, reference
FROM orders ORDER BY created_at, id
"""
# The vector in docs/offset-links.md.
SECRET = "lsec_3q2-7wAAuVv8r5yq0T4m1kXo6bJd9fHs2LzEeGnPcRw"  # noqa: S105 - a sample
LINK = "lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"
QUERY = [
    ("quantity", "1.5"),
    ("external_id", "A-4711/ü"),
    ("email", "ann+shop@example.com"),
    ("redirect_url", "https://shop.example.com/thanks?sale=A-4711"),
    ("expires", "1893456000"),
]
CANONICAL = (
    "email=ann%2Bshop%40example.com&expires=1893456000&external_id=A-4711%2F%C3%BC&quantity=1.5"
    "&redirect_url=https%3A%2F%2Fshop.example.com%2Fthanks%3Fsale%3DA-4711"
)


def test_the_test_vector() -> None:
    assert canonical_query(QUERY) == CANONICAL
    assert sign_query(SECRET, LINK, QUERY) == "5c69a7d9f311947db571cf80e616a20c59d7b09b5ddc009be03b70a3b5402f3c"
    assert sign_query(SECRET, LINK, [*reversed(QUERY), ("utm_source", "mail")]) == sign_query(SECRET, LINK, QUERY)


async def test_security_6_a_stranger_cannot_take_over_a_reference(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    victim = await shopper.begin(link, query=signed(link, external_id="INV-1001", quantity="0.5"))
    await shopper.pay(victim, STOLEN_CARD)
    stranger = await shopper.begin(link, query={"external_id": "INV-1001"}, amount="0.1", email="eve@example.com")
    assert "Thank you" in (await shopper.pay(stranger)).text
    first, second = await rows(ORDERS)
    assert (first["status"], first["quantity_grams"]) == ("placed", 500_000), "the victim's order is not cancelled"
    assert second["status"] == "paid"
    assert (second["external_id"], second["external_id_verified"]) == ("INV-1001", False)
    assert "Thank you" in (await shopper.pay(victim)).text
    first = (await rows(ORDERS))[0]
    assert (first["external_id"], first["external_id_verified"], first["metadata"]) == ("INV-1001", True, "{}")


async def test_security_6_nobody_learns_which_references_are_paid(shopper: Shopper, link: OffsetLink) -> None:
    query = signed(link, external_id="INV-1001")
    await shopper.pay(await shopper.begin(link, query=query))
    assert (await shopper.open(f"/offset/{link.id}", external_id="INV-1001")).status_code == 200
    assert (await shopper.open(f"/offset/{link.id}", **query)).status_code == 409
    page = await shopper.open(await shopper.begin(link, query={"external_id": "INV-1001"}))
    assert "Thank you" in (await shopper.send(page)).text


async def test_security_6_an_unsigned_reference_is_only_metadata(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    for _ in range(2):
        await shopper.pay(await shopper.begin(link, query={"external_id": "same"}))
    orders = await rows(ORDERS)
    assert [order["status"] for order in orders] == ["paid", "paid"]
    assert {(order["external_id"], order["external_id_verified"]) for order in orders} == {("same", False)}


async def test_security_6_signed_values_cannot_be_edited(
    services: Services, world: World, shopper: Shopper, rows: Rows
) -> None:
    await allow(services, world, "shop.example.com")
    link = await make_link(services, world.ours_test.scope, redirect_url="https://shop.example.com/default")
    bundle = next(iter(world.bundles_test.values()))
    query = signed(
        link,
        quantity="0.5",
        external_id="A-1",
        reference="PO 9",
        email="ann@example.com",
        redirect_url="https://shop.example.com/thanks",
        bundle_id=bundle,
    )
    page = await shopper.open(f"/offset/{link.id}", **query)
    form = form_of(page)
    assert 'name="amount" type="text"' not in page.text
    assert "readonly" in page.text
    other = list(world.bundles_test.values())[1]
    forged = form.values(
        by="value",
        amount="0.01",
        external_id="B-2",
        reference="PO 10",
        email="eve@example.com",
        redirect_url="https://shop.example.com/evil",
        bundle_id=other,
    )
    answer = await shopper.http.post(form.action, data=forged)
    assert answer.status_code == 303, answer.text
    thanks = await shopper.pay(answer.headers["location"])
    assert "https://shop.example.com/thanks?" in thanks.text
    [order] = await rows(ORDERS)
    assert (order["quantity_grams"], order["email"]) == (500_000, "ann@example.com")
    assert (order["external_id"], order["external_id_verified"], order["reference"]) == ("A-1", True, "PO 9")
    assert [row["bundle_id"] for row in await rows("SELECT bundle_id FROM order_lines")] == [bundle]


async def test_a_signed_amount_replaces_the_fixed_amount_of_a_link(
    services: Services, world: World, shopper: Shopper, rows: Rows
) -> None:
    link = await make_link(
        services,
        world.ours_test.scope,
        amount_editable=False,
        preset_quantity_grams=3_000_000,
        max_quantity_grams=10**7,
    )
    await shopper.pay(await shopper.begin(link, query=signed(link, quantity="0.25"), amount="7"))
    await shopper.pay(await shopper.begin(link, query={"quantity": "0.25"}, amount="7"))
    assert [order["quantity_grams"] for order in await rows(ORDERS)] == [250_000, 3_000_000]
    page = await shopper.open(f"/offset/{link.id}", **signed(link, quantity="11"))
    assert "The maximum is 10\u00a0t" in page.text, "the limits of the link still apply"


async def test_without_the_repeated_query_the_reference_is_unverified(
    shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    form = form_of(await shopper.open(f"/offset/{link.id}", **signed(link, external_id="A-1")))
    stripped = form.values(amount="1", email="eve@example.com", signed_query="")
    answer = await shopper.http.post(form.action, data=stripped)
    await shopper.pay(answer.headers["location"])
    assert [(each["external_id"], each["external_id_verified"]) for each in await rows(ORDERS)] == [("A-1", False)]


@pytest.mark.parametrize(
    "change",
    [
        {"quantity": "0.001"},
        {"external_id": "A-2"},
        {"email": "eve@example.com"},
        {"value": "1"},
        {"bundle_id": "bun_x"},
        {"redirect_label": "Eve"},
        {"expires": "99999999999"},
        {"signature": ""},
        {"signature": "0" * 64},
        {"signature": "é"},
    ],
    ids=str,
)
async def test_security_6_a_changed_query_is_refused(
    shopper: Shopper, link: OffsetLink, rows: Rows, change: dict[str, str]
) -> None:
    query = signed(link, quantity="1", external_id="A-1", email="ann@example.com") | change
    page = await shopper.open(f"/offset/{link.id}", **query)
    assert page.status_code == 400
    assert "Ask the sender for a new link" in page.text
    form = form_of(await shopper.open(f"/offset/{link.id}"))
    answer = await shopper.http.post(form.action, data=form.values(amount="1", signed_query=urlencode(query)))
    assert answer.status_code == 400
    assert (await shopper.open(f"/offset/{link.id}/price", **query)).status_code == 400
    assert await rows("SELECT id FROM checkouts") == []


async def test_security_6_other_secrets_and_expired_signatures_are_refused(
    services: Services, world: World, shopper: Shopper, link: OffsetLink
) -> None:
    other = await make_link(services, world.ours_test.scope)
    now = int(utc_now().timestamp())
    for query, words in (
        (signed(link, secret=SECRET, external_id="A-1"), "was changed"),
        (signed(other, external_id="A-1"), "was changed"),
        (signed(link, expires=now - 1, external_id="A-1"), "This payment link has expired"),
    ):
        page = await shopper.open(f"/offset/{link.id}", **query)
        assert (page.status_code, words in page.text) == (400, True), page.text
    unlimited = {"external_id": "A-1"}
    unlimited["signature"] = sign_query(LINK_SECRET, link.id, unlimited.items())
    assert (await shopper.open(f"/offset/{link.id}", **unlimited)).status_code == 400, "it has no end"
    twice = urlencode([*signed(link, external_id="A-1").items(), ("external_id", "A-2")])
    assert (await shopper.http.get(f"/offset/{link.id}?{twice}")).status_code == 400


async def test_security_6_a_repeated_query_without_a_signature_is_refused(shopper: Shopper, link: OffsetLink) -> None:
    for repeated in ("quantity=1", "x", "signature", "signature=a&signature=b"):
        answer = await shopper.open(f"/offset/{link.id}", signed_query=repeated)
        assert answer.status_code == 400, repeated


async def test_the_old_secret_is_valid_during_the_overlap(
    services: Services, shopper: Shopper, link: OffsetLink
) -> None:
    query = signed(link, external_id="A-1")
    for overlap, status in ((3600, 200), (0, 400)):
        async with services.database.transaction() as tx:
            new = await rotate_link_secret(tx, link, services.box, overlap_s=overlap, by=TESTER.now())
        assert (await shopper.open(f"/offset/{link.id}", **query)).status_code == status
        query = signed(link, secret=new, external_id="A-1")
        assert (await shopper.open(f"/offset/{link.id}", **query)).status_code == 200


async def test_tracking_parameters_do_not_break_a_signature(shopper: Shopper, link: OffsetLink) -> None:
    query = signed(link, external_id="A-1") | {"utm_source": "newsletter"}
    assert (await shopper.open(f"/offset/{link.id}", **query)).status_code == 200


async def test_security_6_opening_links_is_rate_limited(services: Services, link: OffsetLink) -> None:
    """At a rate so low that a slow machine does not refill the bucket."""
    settings = msgspec.structs.replace(services.settings, offset_pages_burst=5, offset_pages_per_minute=0.001)
    limited = Services(services.database, settings)
    transport = httpx.ASGITransport(build_app(limited), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        answers = [await http.get(f"/offset/{link.id}", params={"external_id": f"INV-{i}"}) for i in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
    assert int(answers[-1].headers["retry-after"]) >= 1


async def test_the_secret_is_sealed(link: OffsetLink, rows: Rows) -> None:
    [row] = await rows(f"SELECT offset_links::text AS text, secret_box FROM offset_links WHERE id = '{link.id}'")  # noqa: S608 - our id
    assert LINK_SECRET not in row["text"]
    assert LINK_SECRET.encode() not in row["secret_box"]

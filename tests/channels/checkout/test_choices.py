"""What an offset link's page proposes: merchant, bundles, amounts; and what it keeps."""

import re

import httpx

from tests.channels.checkout.scene import HOSTILE
from tests.channels.checkout.shopper import Shopper, form_of, make_link, signed
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink
from tonne.selling.accounts.logos.store import Logo, set_logo

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)


def total_of(page: httpx.Response) -> int:
    found = re.search(r'data-total="(\d+)"', page.text)
    assert found is not None, page.text
    return int(found[1])


async def test_the_first_bundle_of_a_list_is_selected_and_a_mix_as_a_whole(
    services: Services, world: World, shopper: Shopper
) -> None:
    ids = list(world.bundles_test.values())[:2]
    scope = world.ours_test.scope
    listed = await make_link(services, scope, bundle_selection=[{"bundle_id": each} for each in ids])
    page = await shopper.open(f"/offset/{listed.id}")
    assert form_of(page).values()["bundle_id"] == [ids[0]]
    assert "per tonne" in page.text
    assert re.search('class="badge (removal|avoidance|mixed)">(Removal|Avoidance|Removal and avoidance)<', page.text)
    mix = await make_link(
        services,
        scope,
        bundle_selection=[
            {"bundle_id": ids[0], "percentage": "60"},
            {"bundle_id": ids[1], "percentage": "40"},
        ],
    )
    page = await shopper.open(f"/offset/{mix.id}")
    assert form_of(page).values()["bundle_id"] == ids
    assert ">60%<" in page.text


async def test_the_price_of_a_tonne_is_what_a_tonne_costs(services: Services, world: World, shopper: Shopper) -> None:
    bundle = next(iter(world.bundles_test.values()))
    link = await make_link(services, world.ours_test.scope, bundle_selection=[{"bundle_id": bundle}])
    page = await shopper.open(f"/offset/{link.id}", quantity="1")
    found = re.search(r"€([0-9.]+) per tonne", page.text)
    assert found is not None
    assert int(found[1].replace(".", "")) == total_of(page)


async def test_the_merchant_and_its_logo_are_in_the_header(
    services: Services, shopper: Shopper, link: OffsetLink
) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET name = $1", HOSTILE + "Hotel Miramar")
    page = await shopper.open(f"/offset/{link.id}")
    assert "Hotel Miramar</bdi>" in page.text
    assert "<script>alert" not in page.text
    assert "sold by <bdi>Tonne</bdi>" in page.text
    assert (await shopper.open(f"/offset/{link.id}/logo")).status_code == 404
    async with services.database.transaction() as tx:
        await set_logo(tx, link.scope, Logo("image/png", PIXEL))
    page = await shopper.open(await shopper.begin(link))
    found = re.search(rf'src="(/offset/{link.id}/logo\?v=[0-9a-f]+)"', page.text)
    assert found is not None
    logo = await shopper.open(found[1])
    assert (logo.content, logo.headers["content-type"]) == (PIXEL, "image/png")
    assert "immutable" in logo.headers["cache-control"]
    assert "sandbox" in logo.headers["content-security-policy"]
    assert (await shopper.open("/offset/lnk_" + "0" * 26 + "/logo")).status_code == 404


async def test_an_amount_is_converted_when_its_unit_changes(services: Services, world: World, shopper: Shopper) -> None:
    """Without JavaScript by a button, with it by the answer to a request for the price."""
    bundle = next(iter(world.bundles_test.values()))
    link = await make_link(services, world.ours_test.scope, bundle_selection=[{"bundle_id": bundle}])
    before = await shopper.open(f"/offset/{link.id}", quantity="1.5")
    due = total_of(before)
    switched = {"by": "value", "amount": "1.5", "shown_by": "quantity", "shown_amount": "1.5"}
    page = await shopper.open(f"/offset/{link.id}", **switched, bundle_id=bundle)
    assert form_of(page).values()["amount"] == [f"{due / 100:.2f}"]
    answer = await shopper.open(f"/offset/{link.id}/price", **switched, bundle_id=bundle)
    assert f'data-by="value" data-amount="{due / 100:.2f}"' in answer.text
    kilograms = await shopper.open(f"/offset/{link.id}/price", **switched | {"by": "kilograms"}, bundle_id=bundle)
    assert 'data-by="kilograms" data-amount="1500"' in kilograms.text
    assert total_of(kilograms) == due
    # A new amount was typed in the new unit.
    typed = await shopper.open(f"/offset/{link.id}/price", **switched | {"amount": "20"}, bundle_id=bundle)
    assert 'data-amount="20"' in typed.text
    form = form_of(before)
    sent = await shopper.http.post(form.action, data=form.values(by="value", email="ann@example.com"))
    assert sent.status_code == 200, "nobody has seen this price"
    assert "converted the amount" in sent.text
    assert total_of(sent) <= due


async def test_suggested_amounts_are_within_the_limits(services: Services, world: World, shopper: Shopper) -> None:
    limits = {"min_quantity_grams": 1_000_000, "max_quantity_grams": 4_000_000, "max_value_minor": 4_000}
    link = await make_link(services, world.ours_test.scope, preset_quantity_grams=2_000_000, **limits)
    page = await shopper.http.get(f"/offset/{link.id}", headers={"Accept-Language": "de"})
    values = re.findall(r'name="suggested" value="([^"]+)"', page.text)
    assert [each for each in values if each.startswith("quantity")] == ["quantity:1", "quantity:2", "quantity:4"]
    assert all(float(each.partition(":")[2]) <= 40 for each in values if each.startswith("value"))
    assert 'value="quantity:2" formmethod="get" data-amount="2" aria-pressed="true"' in page.text
    chosen = await shopper.open(f"/offset/{link.id}", suggested="quantity:4", by="quantity", amount="2", shown_by="x")
    assert form_of(chosen).values()["amount"] == ["4"]


async def test_all_faults_are_shown_at_once_and_the_first_has_the_focus(
    services: Services, world: World, shopper: Shopper
) -> None:
    ids = [{"bundle_id": each} for each in list(world.bundles_test.values())[:2]]
    asking = await make_link(
        services, world.ours_test.scope, bundle_selection=ids, beneficiary=LinkBeneficiary.CUSTOMER
    )
    answer = await shopper.choose(
        asking, amount=HOSTILE, email=HOSTILE, bundle_id="", name_on_certificate="Ada \u202e" + HOSTILE
    )
    assert answer.status_code == 422
    for fault in ("amount-fault", "bundle-fault", "email-fault", "name-fault"):
        assert answer.text.count(f'id="{fault}"') == 1
    assert answer.text.count("autofocus") == 1
    assert re.search(r'<input id="amount"[^>]* autofocus', answer.text)
    assert "<script>alert" not in answer.text
    assert "Correct the marked fields" in answer.text, "the message is not repeated"


async def test_an_order_can_be_edited_with_everything_filled_in(
    services: Services, world: World, shopper: Shopper
) -> None:
    asking = await make_link(services, world.ours_test.scope, beneficiary=LinkBeneficiary.CUSTOMER)
    address = await shopper.begin(asking, by="value", amount="20", name_on_certificate="Maria", is_name_public="1")
    page = await shopper.open(address)
    edit = f"/offset/{asking.id}?edit={address.rpartition('/')[2]}"
    assert f'href="{edit}">Edit order' in page.text
    filled = form_of(await shopper.open(edit)).values()
    assert [filled[name][0] for name in ("by", "amount", "email", "name_on_certificate", "is_name_public")] == [
        *("value", "20.00", "ann@example.com", "Maria", "1")
    ]
    other = await make_link(services, world.ours_test.scope)
    foreign = form_of(await shopper.open(f"/offset/{other.id}?edit={address.rpartition('/')[2]}")).values()
    assert foreign["email"] == [""], "only on the page of its own link"
    bound = await shopper.begin(asking, query=signed(asking, external_id="A-1"))
    assert "Edit order" not in (await shopper.open(bound)).text


async def test_a_test_card_can_be_selected_instead_of_typed(shopper: Shopper, link: OffsetLink) -> None:
    page = await shopper.open(await shopper.begin(link))
    assert "4242 4242 4242 4242</code>" in page.text
    german = await shopper.http.get(str(page.url), headers={"Accept-Language": "de"})
    assert "Jede Zahlung gelingt." in german.text
    form = form_of(page)
    answer = await shopper.http.post(form.action, data=form.values(card_number="", test_card="4242424242424242"))
    assert answer.status_code == 303
    assert "Thank you" in (await shopper.open(answer.headers["location"])).text

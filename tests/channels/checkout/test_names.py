"""The name on the certificate: the account's, or one that the customer enters."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.channels.checkout.scene import HOSTILE, Rows, age, change_price, work
from tests.channels.checkout.shopper import GOOD_CARD, STOLEN_CARD, Shopper, form_of, make_link, signed
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink
from tonne.supply.certificates.record import decode_record

ORDERS = "SELECT id, beneficiary, beneficiary_kind, beneficiary_is_public, wire_document FROM orders"
ACCOUNT = "SELECT beneficiary FROM accounts WHERE id = '{}'"
NAME, PUBLIC = "name_on_certificate", "is_name_public"


@pytest.fixture
async def asking(services: Services, world: World) -> OffsetLink:
    """A link that asks for the customer's name."""
    return await make_link(services, world.ours_test.scope, beneficiary=LinkBeneficiary.CUSTOMER)


async def test_people_1_the_certificate_is_in_the_name_of_the_person_who_paid(
    services: Services, shopper: Shopper, asking: OffsetLink, rows: Rows
) -> None:
    page = await shopper.open(f"/offset/{asking.id}")
    assert PUBLIC not in form_of(page).values(), "not ticked by default"
    address = await shopper.begin(asking, name_on_certificate="  Maria Keller ")
    paying = await shopper.open(address)
    assert "will be in the name of <strong><bdi>Maria Keller</bdi></strong>" in paying.text
    assert "isn&#39;t shown publicly" in paying.text or "isn't shown publicly" in paying.text
    await shopper.pay(address)
    await work(services)
    [order] = await rows(ORDERS)
    assert (order["beneficiary"], order["beneficiary_kind"]) == ("Maria Keller", "person")
    assert not order["beneficiary_is_public"]
    assert json.loads(order["wire_document"])["public_certificate_url"] is None
    [certificate] = await rows("SELECT number, record, is_public FROM certificates")
    assert decode_record(certificate["record"]).beneficiary == "Maria Keller"
    assert not certificate["is_public"]
    done = await shopper.open(address)
    assert "is in the name of <strong><bdi>Maria Keller</bdi></strong>" in done.text
    verified = await shopper.open(f"/verify/{certificate['number']}")
    assert (verified.status_code, "Maria Keller" in verified.text) == (200, True)
    assert "customers of" in verified.text, "it says what the registry has"


async def test_a_person_may_tick_that_the_name_is_public(
    services: Services, shopper: Shopper, asking: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(asking, name_on_certificate="Maria Keller", is_name_public="1")
    assert "may be shown publicly" in (await shopper.open(address)).text
    await shopper.pay(address)
    await work(services)
    [order] = await rows(ORDERS)
    assert order["beneficiary_is_public"]
    assert json.loads(order["wire_document"])["public_certificate_url"] is not None


async def test_an_empty_name_is_that_of_the_account(
    shopper: Shopper, asking: OffsetLink, link: OffsetLink, rows: Rows
) -> None:
    [account] = await rows(ACCOUNT.format(link.scope.account_id))
    for each, name in ((asking, "  "), (link, "Not asked for")):
        page = await shopper.open(f"/offset/{each.id}")
        assert account["beneficiary"] in page.text, "the page says so before anything is paid"
        await shopper.pay(await shopper.begin(each, name_on_certificate=name, is_name_public="1"))
    found = await rows(ORDERS)
    assert {(row["beneficiary"], row["beneficiary_kind"]) for row in found} == {
        (account["beneficiary"], "organisation")
    }


async def test_a_signed_query_prefills_the_name(shopper: Shopper, asking: OffsetLink, rows: Rows) -> None:
    query = signed(asking, beneficiary_name="Maria Keller", quantity="1")
    page = await shopper.open(f"/offset/{asking.id}", **query)
    assert form_of(page).values()[NAME] == ["Maria Keller"]
    plain = await shopper.open(f"/offset/{asking.id}", beneficiary_name="Eve")
    assert form_of(plain).values()[NAME] == [""], "only a signed name"
    forged = await shopper.open(f"/offset/{asking.id}", **(query | {"beneficiary_name": "Eve"}))
    assert forged.status_code == 400
    await shopper.begin(asking, query=query, name_on_certificate="Maria K. Keller")
    [checkout] = await rows("SELECT beneficiary_name FROM checkouts")
    assert checkout["beneficiary_name"] == "Maria K. Keller", "people correct their own name"
    again = await shopper.open(f"/offset/{asking.id}", **{NAME: "Typed", PUBLIC: "1", **query})
    assert [form_of(again).values()[each] for each in (NAME, PUBLIC)] == [["Typed"], ["1"]], "without JavaScript"


@pytest.mark.parametrize("name", ["a" * 201, "Maria\nKeller", "Maria\u202e"])
async def test_a_name_that_cannot_be_printed_is_explained(shopper: Shopper, asking: OffsetLink, name: str) -> None:
    answer = await shopper.choose(asking, name_on_certificate=name)
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.text
    assert "at most 200 printable characters" in answer.text


async def test_a_hostile_name_is_text(shopper: Shopper, asking: OffsetLink) -> None:
    page = await shopper.open(await shopper.begin(asking, name_on_certificate=HOSTILE))
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;" in page.text


async def test_people_1_a_checkout_of_the_api_gives_the_name(
    api: ApiClient, link: OffsetLink, shopper: Shopper, rows: Rows
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1"}
    made = (await api.post("/v1/checkouts", body | {"beneficiary": {"name": "Maria Keller"}})).json()
    assert made["beneficiary"] == {"name": "Maria Keller"}
    company = {"name": "Keller GmbH", "kind": "organisation"}
    firm = (await api.post("/v1/checkouts", body | {"beneficiary": company})).json()
    plain = (await api.post("/v1/checkouts", body)).json()
    assert plain["beneficiary"] is None
    for each in (made, firm):
        await shopper.pay(each["url"])
    found = sorted((row["beneficiary"], row["beneficiary_kind"]) for row in await rows(ORDERS))
    assert found == [("Keller GmbH", "organisation"), ("Maria Keller", "person")]
    bad = await api.post("/v1/checkouts", body | {"beneficiary": {"name": ""}})
    assert (bad.status_code, codes(bad), fields(bad)) == (400, ["validation_error"], ["beneficiary.name"])


async def test_the_name_is_erased_with_the_address(
    services: Services, api: ApiClient, link: OffsetLink, rows: Rows
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1", "beneficiary": {"name": "Maria"}}
    await api.post("/v1/checkouts", body)
    await age(services)
    await work(services)
    [checkout] = await rows("SELECT status, email, beneficiary_name FROM checkouts")
    assert checkout == {"status": "closed", "email": None, "beneficiary_name": None}


async def test_the_setting_of_a_link(api: ApiClient) -> None:
    made = (await api.post("/v1/offset-links", {"title": "One"})).json()
    assert made["beneficiary"] == "account"
    asked = (await api.post("/v1/offset-links", {"title": "Two", "beneficiary": "customer"})).json()
    assert asked["beneficiary"] == "customer"
    bad = await api.post("/v1/offset-links", {"title": "Three", "beneficiary": "nobody"})
    assert (bad.status_code, fields(bad)) == (400, ["beneficiary"])


async def _api_checkout(api: ApiClient, link: OffsetLink, **body: object) -> dict[str, Any]:
    requested = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "2", **body}
    made: dict[str, Any] = (await api.post("/v1/checkouts", requested)).json()
    return made


async def test_people_1_a_checkout_of_the_api_asks_for_the_name_that_the_client_left_out(
    services: Services, shopper: Shopper, asking: OffsetLink, api: ApiClient, rows: Rows
) -> None:
    made = await _api_checkout(api, asking)
    address = urlsplit(made["url"]).path
    page = await shopper.open(address)
    form = form_of(page)
    assert NAME in form.values()
    assert PUBLIC not in form.values(), "not ticked by default"
    wrong = await shopper.http.post(form.action, data=form.values(card_number=GOOD_CARD, **{NAME: "Ada \u202e"}))
    assert wrong.status_code == 422
    assert await rows(ORDERS) == []
    declined = await shopper.http.post(
        form.action, data=form.values(card_number=STOLEN_CARD, **{NAME: " Maria Keller ", PUBLIC: "1"})
    )
    assert declined.status_code == 303
    page = await shopper.open(address)
    assert NAME not in form_of(page).values(), "the order has its name"
    assert "will be in the name of <strong><bdi>Maria Keller</bdi></strong>" in page.text
    await shopper.pay(address)
    await work(services)
    [order] = await rows(ORDERS)
    assert (order["beneficiary"], order["beneficiary_kind"]) == ("Maria Keller", "person")
    assert order["beneficiary_is_public"]
    assert (await api.get(f"/v1/checkouts/{made['id']}")).json()["beneficiary"]["name"] == "Maria Keller"


async def test_a_checkout_of_the_api_asks_only_if_the_link_does_and_there_is_no_name(
    services: Services, shopper: Shopper, asking: OffsetLink, api: ApiClient, rows: Rows
) -> None:
    silent = await make_link(services, asking.scope)
    named = await _api_checkout(api, asking, beneficiary={"name": "Ada GmbH", "kind": "organisation"})
    for made in (named, await _api_checkout(api, silent)):
        form = form_of(await shopper.open(urlsplit(made["url"]).path))
        assert NAME not in form.values()
        await shopper.http.post(form.action, data=form.values(card_number=GOOD_CARD, **{NAME: "Mallory"}))
    [account] = await rows(ACCOUNT.format(asking.scope.account_id))
    assert {order["beneficiary"] for order in await rows(ORDERS)} == {"Ada GmbH", account["beneficiary"]}


async def test_without_a_name_the_certificate_of_an_api_checkout_is_in_the_accounts_name(
    shopper: Shopper, asking: OffsetLink, api: ApiClient, rows: Rows
) -> None:
    made = await _api_checkout(api, asking)
    await shopper.pay(urlsplit(made["url"]).path)
    [account] = await rows(ACCOUNT.format(asking.scope.account_id))
    [order] = await rows(ORDERS)
    assert order["beneficiary"] == account["beneficiary"]


async def test_a_changed_offer_does_not_lose_the_name(
    services: Services, shopper: Shopper, asking: OffsetLink, api: ApiClient
) -> None:
    made = await _api_checkout(api, asking, quantity=None, value="50.00")
    form = form_of(await shopper.open(urlsplit(made["url"]).path))
    await change_price(services)
    page = await shopper.http.post(form.action, data=form.values(card_number=GOOD_CARD, **{NAME: "Maria Keller"}))
    assert page.status_code == 200
    assert "instead of" in page.text
    assert form_of(page).values()[NAME] == ["Maria Keller"]

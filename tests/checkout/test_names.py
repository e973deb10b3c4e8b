"""The name on the certificate: the account's, or one that the customer enters."""

import json

import pytest

from tests.checkout.scene import HOSTILE, Rows, age, work
from tests.checkout.shopper import Shopper, form_of, make_link, signed
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.app import Services
from tonne.checkout.link_model import LinkBeneficiary, OffsetLink

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
    assert json.loads(certificate["record"])["beneficiary"] == "Maria Keller"
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

"""Exporting and erasing a person by API."""

import pytest

from tests.apps.privacy.everywhere import ISSUED, columns_with
from tests.apps.privacy.scene import EMAIL, NAME, Persons
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER
from tonne.platform.values.context import Scope, replace
from tonne.selling.accounts.errors import KeyRightInvalid
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.keys.restrictions import KeyRight

PATHS = ("/v1/persons/export", "/v1/persons/erase")


async def key_with_right(persons: Persons, scope: Scope) -> ApiClient:
    async with persons.database.transaction() as tx:
        _, secret = await issue_key(tx, scope, "desk", by=TESTER.now(), rights=[KeyRight.PERSONS])
    return persons.api.as_key(secret)


@pytest.fixture
async def desk(persons: Persons) -> ApiClient:
    return await key_with_right(persons, persons.world.ours_live.scope)


async def test_a_live_key_with_the_right_exports_and_erases_in_both_modes(persons: Persons, desk: ApiClient) -> None:
    order_id = await persons.buys()
    exported = await desk.post("/v1/persons/export", {"email": EMAIL.lower()})
    assert exported.status_code == 200, exported.text
    records = exported.json()["records"]
    assert [each["type"] for each in records] == [
        *("order", "checkout", "certificate"),
        *["event"] * 5,
        *["mail"] * 2,
    ]
    assert records[0]["id"] == order_id
    assert (records[0]["data"]["email"], records[0]["data"]["beneficiary"]["name"]) == (EMAIL, NAME)
    assert NAME in records[-1]["data"]["text"]

    nothing = await desk.post("/v1/persons/erase", {"email": EMAIL, "account_type": "live"})
    assert set(nothing.json()["erased"].values()) == {0}
    erased = await desk.post("/v1/persons/erase", {"email": EMAIL})
    assert erased.status_code == 200, erased.text
    assert erased.json()["erased"]["orders"] == 1
    assert await columns_with(persons.database, EMAIL, NAME) == ISSUED
    assert (await desk.post("/v1/persons/export", {"email": EMAIL})).json() == {"records": []}
    actions = await persons.fetch("SELECT action FROM audit_log WHERE action LIKE 'person.%' ORDER BY at, id")
    assert [row["action"] for row in actions] == ["person.exported", *["person.erased"] * 2, "person.exported"]
    await persons.check_invariants()


@pytest.mark.parametrize("path", PATHS)
async def test_other_keys_are_refused(persons: Persons, path: str) -> None:
    await persons.buys()
    for key in (persons.world.ours_test.key, persons.world.ours_live.key):
        answer = await persons.api.as_key(key).post(path, {"email": EMAIL})
        assert (answer.status_code, codes(answer)) == (403, ["persons_not_allowed"])
    assert await persons.fetchval("SELECT email FROM orders") == EMAIL


async def test_a_revoked_key_loses_the_right(persons: Persons, desk: ApiClient) -> None:
    await persons.execute("UPDATE api_keys SET revoked_at = now() WHERE rights <> '{}'")
    assert (await desk.post(PATHS[0], {"email": EMAIL})).status_code in {401, 403}


async def test_only_live_keys_of_own_accounts_get_the_right(persons: Persons) -> None:
    live = persons.world.ours_live
    for scope in (persons.world.ours_test.scope, replace(live.scope, account_id=live.client_account_id)):
        with pytest.raises(KeyRightInvalid):
            await key_with_right(persons, scope)


async def test_another_organisation_finds_and_erases_nothing(persons: Persons) -> None:
    await persons.buys()
    theirs = persons.world.theirs_test.scope
    async with persons.database.transaction() as tx:
        _, secret = await issue_key(tx, theirs, "desk", by=TESTER.now())
        # The right of a live key, for an organisation that has test accounts only.
        await tx.execute("UPDATE api_keys SET rights = '{persons}' WHERE organisation_id = $1", theirs.organisation_id)
    assert (await persons.api.as_key(secret).post(PATHS[0], {"email": EMAIL})).status_code == 403, "a test key"
    assert await persons.export(EMAIL, theirs.organisation_id) == []


@pytest.mark.parametrize(
    "body",
    [{}, {"email": EMAIL, "name": NAME}, {"email": "ada"}, {"email": "a@b@c"}, {"name": " "}, {"name": "erased"}],
)
async def test_a_person_is_one_address_or_one_name(desk: ApiClient, body: dict[str, str]) -> None:
    for path in PATHS:
        answer = await desk.post(path, body)
        assert (answer.status_code, codes(answer)) == (400, ["person_invalid"]), answer.text


async def test_an_open_order_is_named(persons: Persons, desk: ApiClient) -> None:
    address = await persons.shopper.begin(await persons.link(), email=EMAIL)
    await persons.shopper.pay(address)
    order_id = await persons.fetchval("SELECT id FROM orders")
    answer = await desk.post("/v1/persons/erase", {"email": EMAIL})
    assert (answer.status_code, codes(answer)) == (409, ["person_in_use"])
    assert f"Order {order_id} is paid." in answer.json()["error"]["message"]

"""Offset links in the dashboard."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.apps.workspace.forms import typed_fields
from tests.support.api_client import ApiClient
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.apps.workspace.links.links_page import PER_PAGE
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
Rows = Callable[[str], Awaitable[list[dict[str, Any]]]]
NEWEST = "SELECT action, actor, subject_id FROM audit_log ORDER BY id DESC LIMIT 1"
NEW = {"title": "Offset your <flight>", "preset_kind": "none", "amount_editable": "1", "beneficiary": "account"}


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
def account(world: World) -> str:
    return world.ours_test.scope.account_id


@pytest.fixture
async def owner(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    return ann


async def create(owner: Person, base: str, account: str, **fields: str) -> str:
    """The path of the new link."""
    answer = await owner.submit(f"{base}/links", account=account, **{**NEW, **fields})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"].partition("?")[0])


async def test_a_link_is_created_changed_closed_and_opened(
    owner: Person, api: ApiClient, world: World, *, base: str, account: str, rows: Rows
) -> None:
    wind = f"share_{world.bundles_test['wind-power']}"
    fields = {"preset_kind": "quantity", "preset": "1,5", "max_value": "500", "expires": "2099-12-31", wind: "100"}
    path = await create(owner, base, account, **fields)
    link_id = path.rpartition("/")[2]
    [entry] = await rows(NEWEST)
    assert (entry["action"], entry["subject_id"]) == ("offset_link.created", link_id)
    assert entry["actor"].startswith("user:usr_")
    link = (await api.get(f"/v1/offset-links/{link_id}")).json()
    expected = {"preset_quantity": "1.5", "max_value": "500.00", "expires_at": "2099-12-31T23:59:59.000Z"}
    assert link | expected | {"title": "Offset your <flight>", "enabled": True} == link
    assert link["bundle_selection"] == [{"bundle_id": world.bundles_test["wind-power"], "percentage": "100"}]
    page = (await owner.get(path)).text
    assert "Offset your &lt;flight&gt;" in page
    assert link["url"] in page
    assert "<svg" in page
    assert "0 orders so far" in page
    shown = {name: value for name, value in typed_fields(page).items() if value}
    assert shown == {
        "title": "Offset your <flight>",
        "preset": "1.5",
        "max_value": "500.00",
        "expires": "2099-12-31",
        wind: "100",
    }
    assert (await owner.submit(path, **{**NEW, **shown, "preset_kind": "quantity", "title": "Two"})).status_code == 303
    changed = (await api.get(f"/v1/offset-links/{link_id}")).json()
    assert changed == {**link, "title": "Two"}, "nothing else has changed"
    assert (await owner.submit(f"{path}/enabled")).status_code == 303
    assert "Closed" in (await owner.get(f"{base}/links")).text
    assert (await api.get(f"/v1/offset-links/{link_id}")).json() == {**changed, "enabled": False}
    assert (await owner.submit(f"{path}/enabled", enabled="1")).status_code == 303
    assert (await api.get(f"/v1/offset-links/{link_id}")).json()["enabled"] is True
    assert [entry["action"] for entry in await rows(NEWEST)] == ["offset_link.changed"]


async def test_an_equal_split_stays_one_unless_it_is_changed(
    owner: Person, api: ApiClient, world: World, base: str, account: str
) -> None:
    bundles = [{"bundle_id": world.bundles_test[slug]} for slug in ("wind-power", "living-soil", "forest-mix")]
    made = (await api.post("/v1/offset-links", {"title": "Three", "bundle_selection": bundles})).json()
    path = f"{base}/accounts/{account}/links/{made['id']}"
    shown = {name: value for name, value in typed_fields((await owner.get(path)).text).items() if value}
    assert shown[f"share_{bundles[0]['bundle_id']}"] == "33.34"
    assert (await owner.submit(path, **{**NEW, **shown, "title": "Still three"})).status_code == 303
    link = (await api.get(f"/v1/offset-links/{made['id']}")).json()
    assert (link["title"], link["bundle_selection"]) == ("Still three", made["bundle_selection"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": " "}, "Enter a title"),
        ({"preset_kind": "quantity"}, "Enter the preset amount"),
        ({"amount_editable": ""}, "Set the preset amount"),
        ({"min_quantity": "5", "max_quantity": "2"}, "The smallest amount is above the largest amount."),
        ({"min_value": "a lot"}, "Enter a number"),
        ({"max_value": "1.005"}, "The largest total must be from 0.01"),
        ({"redirect_url": "https://evil.example/"}, "The address of the button cannot be used"),
        ({"expires": "tomorrow"}, "Enter a day"),
        ({"expires": "2001-01-01"}, "The time in the last day is in the past."),
        ({"beneficiary": "nobody"}, "beneficiary"),
    ],
)
async def test_faults_are_shown_beside_their_fields(
    owner: Person, base: str, account: str, fields: dict[str, str], message: str, *, rows: Rows
) -> None:
    answer = await owner.submit(f"{base}/links", account=account, **{**NEW, **fields})
    assert (answer.status_code, message in answer.text) == (422, True)
    assert await rows("SELECT id FROM offset_links") == []


async def test_a_new_secret_is_shown_once(owner: Person, base: str, account: str, rows: Rows) -> None:
    path = await create(owner, base, account)
    answer = await owner.submit(f"{path}/secret")
    assert "lsec_" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    [entry] = await rows("SELECT action, details FROM audit_log ORDER BY id DESC LIMIT 1")
    assert (entry["action"], json.loads(entry["details"])) == ("offset_link.secret_rotated", {"overlap_s": 86400})
    assert "lsec_" not in (await owner.get(path)).text


async def test_many_links_are_listed_in_pages(owner: Person, api: ApiClient, base: str, account: str) -> None:
    assert "No links yet." in (await owner.get(f"{base}/links")).text
    for number in range(PER_PAGE + 1):
        await api.post("/v1/offset-links", {"title": f"Link {number}"})
    first = (await owner.get(f"{base}/links?account={account}")).text
    assert first.count('data-label="State"') == PER_PAGE
    after = first.partition("&amp;after=")[2].partition('"')[0]
    second = (await owner.get(f"{base}/links?account={account}&after={after}")).text
    assert second.count('data-label="State"') == 1


async def test_roles(
    services: Services, world: World, person: MakePerson, owner: Person, *, base: str, account: str
) -> None:
    path = await create(owner, base, account)
    await add_user(services, "dev@ours.test", world.ours_test.scope.organisation_id, Role.DEVELOPER)
    developer = person()
    await developer.sign_in("dev@ours.test")
    page = await developer.get(path)
    assert (page.status_code, f'action="{path}' in page.text) == (200, False)
    for form in (path, f"{path}/enabled", f"{path}/secret", f"{base}/links"):
        assert (await developer.submit(form, account=account, **NEW)).status_code == 403, form
    assert (await developer.get(f"{base}/links/new?account={account}")).status_code == 403


async def test_links_of_others_and_of_other_accounts_do_not_exist(
    owner: Person, api: ApiClient, world: World, base: str, account: str
) -> None:
    theirs = (await api.as_key(world.theirs_test.key).post("/v1/offset-links", {"title": "Theirs"})).json()["id"]
    ours = (await create(owner, base, account)).rpartition("/")[2]
    for account_id, link_id in (
        (account, theirs),
        (world.theirs_test.scope.account_id, theirs),
        (world.ours_test.client_account_id, ours),
        (world.ours_live.scope.account_id, ours),
    ):
        path = f"{base}/accounts/{account_id}/links/{link_id}"
        assert (await owner.get(path)).status_code == 404
        for form in ("", "/enabled", "/secret"):
            assert (await owner.submit(f"{path}{form}", **NEW)).status_code == 404
    for stranger in (world.theirs_test.scope.account_id, world.ours_live.scope.account_id):
        assert (await owner.get(f"{base}/links?account={stranger}")).status_code == 404
        assert (await owner.get(f"{base}/links/new?account={stranger}")).status_code == 404
        assert (await owner.submit(f"{base}/links", account=stranger, **NEW)).status_code == 404

"""Accounts and client accounts in the dashboard."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.apps.workspace.forms import typed_fields
from tests.support.people import Person, add_user
from tests.support.world import World, add_account
from tonne.apps.wiring.app import Services
from tonne.apps.workspace.accounts_page import PER_PAGE
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import AccountKind
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
Rows = Callable[[str], Awaitable[list[dict[str, Any]]]]
NEWEST = "SELECT action, actor, subject_id, mode, after FROM audit_log ORDER BY id DESC LIMIT 1"
DETAILS = {"name": "Main", "beneficiary": "Ours Ltd", "receipt_email": "", "card_email": ""}


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def owner(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    return ann


async def member(services: Services, world: World, person: MakePerson, role: Role) -> Person:
    await add_user(services, f"{role}@ours.test", world.ours_test.scope.organisation_id, role)
    found = person()
    await found.sign_in(f"{role}@ours.test")
    return found


async def test_a_client_account_is_created_and_changed(owner: Person, base: str, rows: Rows) -> None:
    fields = {"name": "Fjord <Bakery> AS", "currency": "USD", "payment": "card"}
    answer = await owner.submit(f"{base}/accounts", **fields)
    path = answer.headers["location"].partition("?")[0]
    account_id = path.rpartition("/")[2]
    [entry] = await rows(NEWEST)
    assert (entry["action"], entry["subject_id"], entry["mode"]) == ("account.opened", account_id, "test")
    assert entry["actor"].startswith("user:usr_")
    page = (await owner.get(path)).text
    assert "Fjord &lt;Bakery&gt; AS" in page
    assert "No card is stored yet." in page
    changes = {"name": "Fjord", "beneficiary": "Fjord Bakery AS", "receipt_email": "a@b.test", "card_email": ""}
    assert (await owner.submit(path, **changes)).headers["location"] == f"{path}?done=account_saved"
    assert (await owner.submit(f"{path}/payment", payment="invoice")).status_code == 303
    [account] = await rows(
        "SELECT name, beneficiary, receipt_email, kind, currency, payment_method, auto_advance FROM accounts "
        "WHERE name = 'Fjord'"
    )
    assert account == {
        "name": "Fjord",
        "beneficiary": "Fjord Bakery AS",
        "receipt_email": "a@b.test",
        "kind": "client_account",
        "currency": "USD",
        "payment_method": "invoice",
        "auto_advance": False,
    }
    assert [entry["action"] for entry in await rows(NEWEST)] == ["account.updated"]


async def test_all_faults_at_once(owner: Person, world: World, base: str) -> None:
    answer = await owner.submit(f"{base}/accounts", name=" ", currency="XXX", payment="cash")
    assert answer.status_code == 422
    for message in ("Enter the name of the customer.", "Choose a currency.", "Choose how the account pays."):
        assert message in answer.text
    path = f"{base}/accounts/{world.ours_test.scope.account_id}"
    answer = await owner.submit(path, name="x" * 201, beneficiary="", receipt_email="no", card_email="address")
    assert answer.status_code == 422
    assert answer.text.count("Enter an e-mail address") == 2
    assert "Use at most 200 characters" in answer.text
    assert typed_fields(answer.text)["receipt_email"] == "no"
    assert "Choose how the account pays." in (await owner.submit(f"{path}/payment", payment="cash")).text


async def test_the_default_mix_adds_up_to_100_and_can_be_removed(
    owner: Person, world: World, base: str, rows: Rows
) -> None:
    path = f"{base}/accounts/{world.ours_test.scope.account_id}"
    wind, soil = (f"share_{world.bundles_test[slug]}" for slug in ("wind-power", "living-soil"))
    answer = await owner.submit(f"{path}/mix", **{wind: "33.33", soil: "66,66"})
    assert answer.status_code == 422
    assert "The percentages sum to 99.99. They must sum to exactly 100." in answer.text
    assert typed_fields(answer.text)[soil] == "66,66"
    assert (await owner.submit(f"{path}/mix", **{wind: "33.34", soil: "66,66"})).status_code == 303
    assert [entry["action"] for entry in await rows(NEWEST)] == ["account.bundles_set"]
    shown = typed_fields((await owner.get(path)).text)
    assert {name: value for name, value in shown.items() if name.startswith("share_") and value} == {
        wind: "33.34",
        soil: "66.66",
    }
    assert typed_fields((await owner.get(f"{base}/buy")).text)[wind] == "33.34", "prefilled when one buys"
    assert (await owner.submit(f"{path}/mix")).status_code == 303
    assert await rows("SELECT id FROM accounts WHERE default_bundle_selection IS NOT NULL") == []


async def test_a_client_account_is_closed_after_a_confirmation(
    owner: Person, world: World, base: str, rows: Rows
) -> None:
    path = f"{base}/accounts/{world.ours_test.client_account_id}"
    assert "Only" in (await owner.get(f"{path}/close")).text
    assert (await owner.submit(f"{path}/close", reason="")).status_code == 422
    assert (await owner.submit(f"{path}/close", reason="Left us")).status_code == 303
    [entry] = await rows(NEWEST)
    assert (entry["action"], entry["subject_id"]) == ("account.closed", world.ours_test.client_account_id)
    page = (await owner.get(path)).text
    assert "Left us" in page
    assert f"{path}/close" not in page
    assert "already closed" in (await owner.submit(f"{path}/close", reason="Again")).text
    own = f"{base}/accounts/{world.ours_test.scope.account_id}/close"
    page = (await owner.get(own)).text
    assert ("can do that" in page, 'name="reason"' in page) == (True, False)
    assert (await owner.submit(own, reason="Oops")).status_code == 404


async def test_handle_visibility_and_reference(owner: Person, world: World, base: str, rows: Rows) -> None:
    path = f"{base}/accounts/{world.ours_test.client_account_id}"
    page = typed_fields((await owner.get(path)).text)
    assert (page["handle"], page["reference"]) == ("", "")
    details = {**DETAILS, "handle": "fjord-bakery", "external_pages_visibility": "hidden", "reference": "C-17"}
    assert (await owner.submit(path, **details)).status_code == 303
    stored = "SELECT handle, external_pages_visibility AS visibility, reference FROM accounts WHERE id = "
    [account] = await rows(f"{stored}'{world.ours_test.client_account_id}'")
    assert account == {"handle": "fjord-bakery", "visibility": "hidden", "reference": "C-17"}
    [entry] = await rows(NEWEST)
    assert (entry["action"], '"fjord-bakery"' in entry["after"]) == ("account.updated", True)
    assert typed_fields((await owner.get(path)).text)["handle"] == "fjord-bakery"
    own = f"{base}/accounts/{world.ours_test.scope.account_id}"
    taken = await owner.submit(own, **DETAILS, handle="Fjord-Bakery")
    assert (taken.status_code, "Another account of the organisation has this handle" in taken.text) == (422, True)
    wrong = await owner.submit(path, **DETAILS, handle="-no", external_pages_visibility="secret", reference="x" * 201)
    for message in ("Use up to 100 letters", "Choose who can open the pages.", "Use at most 200 characters"):
        assert message in wrong.text, message
    # A form without them, of a page that was open before an update, changes nothing; empty fields remove.
    await owner.submit(path, **DETAILS)
    await owner.submit(path, **DETAILS, handle="", reference="")
    [account] = await rows(f"{stored}'{world.ours_test.client_account_id}'")
    assert account == {"handle": None, "visibility": "hidden", "reference": None}


async def test_a_client_account_is_archived_and_takes_orders_again(
    owner: Person, world: World, base: str, rows: Rows
) -> None:
    path = f"{base}/accounts/{world.ours_test.client_account_id}"
    for form, words in (("archive", "Nothing new can be ordered."), ("unarchive", "takes orders again")):
        answer = await owner.submit(f"{path}/{form}")
        assert answer.headers["location"] == f"{path}?done=account_{form}d"
        [entry] = await rows(NEWEST)
        assert (entry["action"], entry["subject_id"]) == (f"account.{form}d", world.ours_test.client_account_id)
        assert entry["actor"].startswith("user:usr_")
        page = (await owner.get(answer.headers["location"])).text
        assert (words in page, f"{path}/{form}" in page) == (True, False)
    own = f"{base}/accounts/{world.ours_test.scope.account_id}"
    assert f"{own}/archive" not in (await owner.get(own)).text
    assert (await owner.submit(f"{own}/archive")).status_code == 404


async def test_the_card_page_opens_and_shows_the_account(owner: Person, world: World, base: str) -> None:
    path = f"{base}/accounts/{world.ours_test.scope.account_id}"
    answer = await owner.submit(f"{path}/card")
    assert (answer.status_code, answer.headers["location"].startswith("/card/")) == (303, True)
    assert (await owner.get(answer.headers["location"])).status_code == 200


async def test_settings_of_the_operator_are_shown_and_respected(
    owner: Person, services: Services, world: World, base: str
) -> None:
    path = f"{base}/accounts/{world.ours_test.scope.account_id}"
    async with services.database.transaction() as tx:
        await tx.execute(
            "UPDATE accounts SET fulfil = 'on_order', credit_limit_minor = 500000, monthly_limit_minor = 750000"
        )
    page = (await owner.get(path)).text
    assert "up to €5,000.00 of unpaid orders" in page
    assert "€7,500.00" in page
    answer = await owner.submit(f"{path}/payment", payment="card")
    assert (answer.status_code, "so it pays by invoice. Ask" in answer.text) == (422, True)
    await owner.submit(path, **DETAILS, fulfil="on_payment", credit_limit="1", monthly_limit_minor="1")
    assert "up to €5,000.00 of unpaid orders" in (await owner.get(path)).text


async def test_many_accounts_are_listed_in_pages_and_found_by_name(
    owner: Person, services: Services, world: World, base: str
) -> None:
    async with services.database.transaction() as tx:
        for number in range(PER_PAGE):
            scope = await add_account(
                tx, world.ours_test.scope.organisation_id, Mode.TEST, kind=AccountKind.CLIENT_ACCOUNT
            )
            await tx.execute("UPDATE accounts SET name = $2 WHERE id = $1", scope.account_id, f"Client {number:02}")
    first = (await owner.get(f"{base}/accounts")).text
    assert first.count('data-label="Kind"') == PER_PAGE
    after = first.partition("?after=")[2].partition('"')[0]
    second = (await owner.get(f"{base}/accounts?after={after}")).text
    assert second.count('data-label="Kind"') == 2
    assert "Client 29" in second
    found = (await owner.get(f"{base}/accounts?name=CLIENT+17")).text
    assert found.count('data-label="Kind"') == 1
    assert "has “<bdi>nobody</bdi>” in its name" in (await owner.get(f"{base}/accounts?name=nobody")).text
    assert world.ours_live.scope.account_id not in first


async def test_roles_see_accounts_and_change_what_they_may(
    services: Services, world: World, person: MakePerson, base: str
) -> None:
    path = f"{base}/accounts/{world.ours_test.client_account_id}"
    finance = await member(services, world, person, Role.FINANCE)
    assert (await finance.submit(f"{path}/payment", payment="card")).status_code == 303
    for form in ("", "/mix", "/close", "/archive", "/unarchive"):
        assert (await finance.submit(f"{path}{form}", **DETAILS)).status_code == 403, form
    reader = await member(services, world, person, Role.READ_ONLY)
    page = await reader.get(path)
    assert (page.status_code, '<form method="post" action="/dashboard/test' in page.text) == (200, False)
    for form in ("", "/mix", "/close", "/archive", "/unarchive", "/payment", "/card"):
        assert (await reader.submit(f"{path}{form}", **DETAILS)).status_code == 403, form
    assert (await reader.submit(f"{base}/accounts", **DETAILS)).status_code == 403


async def test_accounts_of_others_and_of_the_other_mode_do_not_exist(owner: Person, world: World, base: str) -> None:
    for stranger in (world.theirs_test.client_account_id, world.ours_live.client_account_id, "acc_1"):
        path = f"{base}/accounts/{stranger}"
        assert (await owner.get(path)).status_code == 404
        for form in ("", "/mix", "/close", "/archive", "/unarchive", "/payment", "/card"):
            assert (await owner.submit(f"{path}{form}", **DETAILS)).status_code == 404, form

"""Members, roles and invitations."""

from collections.abc import Callable

import pytest

from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, Person, add_user, last_mails, link_in_last_mail
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
OWNER, ADMIN, EVE, NEW = "ann@ours.test", "bob@ours.test", "eve@theirs.test", "new@ours.test"


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/live/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def owner(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, OWNER, world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in(OWNER)
    return ann


async def signed_in(
    services: Services, world: World, person: MakePerson, role: Role, email: str = ADMIN
) -> tuple[Person, str]:
    """Another member and the id of the user."""
    user = await add_user(services, email, world.ours_test.scope.organisation_id, role, name="Bob Ray")
    bob = person()
    await bob.sign_in(email)
    return bob, user.id


async def roles(services: Services) -> dict[str, str]:
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT email, role FROM memberships JOIN users ON users.id = user_id")
    return {row["email"]: row["role"] for row in rows}


async def test_an_invitation_becomes_a_member_who_is_signed_in(
    owner: Person, person: MakePerson, services: Services, base: str
) -> None:
    answer = await owner.submit(f"{base}/people", email=NEW.upper(), role="finance")
    assert answer.headers["location"] == f"{base}/people?done=invited"
    [(told, _), (recipient, text)] = await last_mails(services)
    assert told == "ann@ours.test", "who invites is told, too"
    assert recipient == NEW
    assert text.startswith("Ann Lee invites you to the dashboard of Ours, with the role Finance.")
    assert NEW in (await owner.get(f"{base}/people")).text
    new, link = person(), await link_in_last_mail(services)
    assert "Join <bdi>Ours</bdi>" in (await new.get(link)).text
    answer = await new.submit(link, name="Nell Roy", password=PASSWORD, repeat=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, base)
    assert "Nell Roy" in (await new.get(f"{base}/people")).text
    assert (await roles(services))[NEW] == "finance"
    assert (await person().get(link)).status_code == 404


async def test_all_faults_of_an_acceptance_are_shown_at_once(
    owner: Person, person: MakePerson, services: Services, base: str
) -> None:
    await owner.submit(f"{base}/people", email=NEW, role="finance")
    answer = await person().submit(await link_in_last_mail(services), name="", password="short", repeat="other")  # noqa: S106
    assert answer.status_code == 422
    for part in ("Enter your name.", "at least 12 characters", "The two passwords differ"):
        assert part in answer.text


async def test_a_user_of_another_organisation_joins_after_signing_in(
    owner: Person, person: MakePerson, services: Services, world: World, base: str
) -> None:
    await add_user(services, EVE, world.theirs_test.scope.organisation_id)
    await owner.submit(f"{base}/people", email=EVE, role="read_only")
    eve, link = person(), await link_in_last_mail(services)
    assert f"Sign in as {EVE}" in (await eve.get(link)).text
    await eve.sign_in(EVE)
    assert (await eve.submit(link)).headers["location"] == base
    assert (await eve.get(f"{base}/people")).status_code == 200


async def test_an_invitation_is_only_for_its_address(
    owner: Person, person: MakePerson, services: Services, world: World, base: str
) -> None:
    await add_user(services, EVE, world.theirs_test.scope.organisation_id)
    await owner.submit(f"{base}/people", email=NEW, role="owner")
    eve, link = person(), await link_in_last_mail(services)
    await eve.sign_in(EVE)
    answer = await eve.submit(link)
    assert answer.status_code == 404
    assert f"This invitation is for {NEW}." in answer.text
    assert (await eve.get(f"{base}/people")).status_code == 404


@pytest.mark.parametrize("ended", ["revoked", "expired"])
async def test_an_invitation_that_ended_cannot_be_accepted(
    owner: Person, person: MakePerson, services: Services, clock: ManualClock, *, base: str, ended: str
) -> None:
    await owner.submit(f"{base}/people", email=NEW, role="owner")
    link = await link_in_last_mail(services)
    if ended == "revoked":
        async with services.database.connection() as connection:
            link_id = await connection.fetchval("SELECT id FROM user_links")
        assert (await owner.submit(f"{base}/invitations/{link_id}/revoke")).status_code == 303
    else:
        clock.advance(days=8)
    assert (await person().get(link)).status_code == 404
    assert (await person().submit(link, name="X", password=PASSWORD, repeat=PASSWORD)).status_code == 404


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"email": "no address", "role": "admin"}, "Enter an e-mail address"),
        ({"email": NEW, "role": "boss"}, "Choose a role."),
        ({"email": OWNER, "role": "admin"}, "is already a member"),
    ],
)
async def test_faults_of_an_invitation(owner: Person, base: str, fields: dict[str, str], part: str) -> None:
    answer = await owner.submit(f"{base}/people", **fields)
    assert answer.status_code == 422
    assert part in answer.text


async def test_the_last_owner_stays(owner: Person, services: Services, base: str) -> None:
    async with services.database.connection() as connection:
        user_id = await connection.fetchval("SELECT id FROM users WHERE email = $1", OWNER)
    for path, fields in (("role", {"role": "admin"}), ("remove", {})):
        answer = await owner.submit(f"{base}/people/{user_id}/{path}", **fields)
        assert answer.status_code == 422
        assert "An organisation needs an owner." in answer.text
    assert (await roles(services))[OWNER] == "owner"


async def test_an_owner_changes_roles_and_removes_members(
    owner: Person, person: MakePerson, services: Services, world: World, base: str
) -> None:
    bob, bob_id = await signed_in(services, world, person, Role.FINANCE)
    assert (await owner.submit(f"{base}/people/{bob_id}/role", role="admin")).status_code == 303
    assert (await roles(services))[ADMIN] == "admin"
    assert (await bob.get(f"{base}/people/{bob_id}")).status_code == 200
    assert (await owner.submit(f"{base}/people/{bob_id}/remove")).status_code == 303
    assert (await bob.get(f"{base}/people")).status_code == 404


async def test_an_admin_cannot_touch_owners(
    owner: Person, person: MakePerson, services: Services, world: World, base: str
) -> None:
    assert (await owner.get(f"{base}/people")).status_code == 200
    bob, bob_id = await signed_in(services, world, person, Role.ADMIN)
    async with services.database.connection() as connection:
        owner_id = await connection.fetchval("SELECT id FROM users WHERE email = $1", OWNER)
    attempts = [
        await bob.submit(f"{base}/people/{owner_id}/role", role="read_only"),
        await bob.submit(f"{base}/people/{owner_id}/remove"),
        await bob.submit(f"{base}/people/{bob_id}/role", role="owner"),
        await bob.submit(f"{base}/people", email=NEW, role="owner"),
    ]
    assert [answer.status_code for answer in attempts] == [422] * 4
    assert await roles(services) == {OWNER: "owner", ADMIN: "admin"}


@pytest.mark.parametrize("role", [Role.FINANCE, Role.DEVELOPER, Role.READ_ONLY])
async def test_other_roles_see_people_and_change_nobody(
    person: MakePerson, services: Services, world: World, base: str, role: Role
) -> None:
    bob, bob_id = await signed_in(services, world, person, role)
    page = await bob.get(f"{base}/people")
    assert page.status_code == 200
    assert "Invite someone" not in page.text
    refused = [
        await bob.get(f"{base}/people/{bob_id}"),
        await bob.submit(f"{base}/people", email=NEW, role="read_only"),
        await bob.submit(f"{base}/people/{bob_id}/role", role="owner"),
        await bob.submit(f"{base}/people/{bob_id}/remove"),
        await bob.submit(f"{base}/invitations/uln_1/revoke"),
    ]
    assert [answer.status_code for answer in refused] == [403] * 5


async def test_changes_are_in_the_audit_log_with_the_user(
    owner: Person, person: MakePerson, services: Services, world: World, base: str
) -> None:
    _, bob_id = await signed_in(services, world, person, Role.FINANCE)
    await owner.submit(f"{base}/people/{bob_id}/role", role="developer")
    async with services.database.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM audit_log WHERE action = 'member.role_changed'")
        owner_id = await connection.fetchval("SELECT id FROM users WHERE email = $1", OWNER)
    assert row is not None
    assert (row["actor"], row["subject_id"]) == (f"user:{owner_id}", bob_id)
    assert (row["before"], row["after"]) == ('{"role": "finance"}', '{"role": "developer"}')

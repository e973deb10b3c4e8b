"""The page of API keys."""

import re
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from tests.support.clock import ManualClock
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
OWNER = "ann@ours.test"
SECRET = re.compile(r"tonne_(?:test|live)_[\w-]{43}")
FULL = {"name": "Web shop", "access": "all", "accounts": "all", "expires": ""}


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


async def member(services: Services, world: World, person: MakePerson, role: Role, email: str = OWNER) -> Person:
    await add_user(services, email, world.ours_test.scope.organisation_id, role)
    someone = person()
    await someone.sign_in(email)
    return someone


@pytest.fixture
async def owner(services: Services, world: World, person: MakePerson) -> Person:
    return await member(services, world, person, Role.OWNER)


async def calls(person: Person, key: str) -> httpx.Response:
    return await person.http.get("/v1/orders", headers={"Authorization": f"Bearer {key}"})


async def key_ids(services: Services, name: str) -> list[str]:
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT id FROM api_keys WHERE name = $1 ORDER BY id", name)
    return [row["id"] for row in rows]


async def test_a_key_is_created_shown_once_used_rotated_and_revoked(
    owner: Person, services: Services, world: World, clock: ManualClock, base: str
) -> None:
    account = world.ours_test.scope.account_id
    page = await owner.get(f"{base}/keys/new")
    assert page.status_code == 200
    assert "You are at 127.0.0.1 now." in page.text
    made = await owner.submit(
        f"{base}/keys",
        name="Web shop",
        access="some",
        group_orders="write",
        group_catalogue="read",
        accounts="some",
        account_ids=account,
        default_account_id=account,
        networks="127.0.0.1\n2001:db8::/32",
        expires="90",
    )
    assert made.status_code == 200, made.text
    assert made.headers["cache-control"] == "no-store"
    [secret] = set(SECRET.findall(made.text))
    assert (await calls(owner, secret)).status_code == 200
    await services.directory.write_uses()

    listed = (await owner.get(f"{base}/keys")).text
    assert secret not in listed
    for part in ("Web shop", "Orders, Catalogue", "1 account", "From 2 networks", "Ann Lee", f"…{secret[-4:]}"):
        assert part in listed
    [key_id] = await key_ids(services, "Web shop")
    one = (await owner.get(f"{base}/keys/{key_id}")).text
    for part in ("Orders: read and write", "Catalogue: read", "2001:db8::/32", "account test"):
        assert part in one

    rotated = await owner.submit(f"{base}/keys/{key_id}/rotate", overlap="1")
    [new] = set(SECRET.findall(rotated.text))
    assert [(await calls(owner, each)).status_code for each in (secret, new)] == [200, 200]
    assert "Rotated" in (await owner.get(f"{base}/keys")).text
    again = await owner.submit(f"{base}/keys/{key_id}/rotate", overlap="1")
    assert (again.status_code, "rotated already" in again.text) == (422, True)
    clock.advance(hours=1)
    assert [(await calls(owner, each)).status_code for each in (secret, new)] == [401, 200]

    new_id = next(each for each in await key_ids(services, "Web shop") if each != key_id)
    assert "cannot be undone" in (await owner.get(f"{base}/keys/{new_id}/revoke")).text
    # An hour later, the change needs another sign-in.
    await owner.sign_in(OWNER)
    answer = await owner.submit(f"{base}/keys/{new_id}/revoke")
    assert answer.headers["location"] == f"{base}/keys?done=key_revoked"
    assert (await calls(owner, new)).status_code == 401
    assert "2 expired or revoked keys" in (await owner.get(f"{base}/keys")).text
    async with services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT action, actor FROM audit_log WHERE action LIKE 'api_key.%' AND at >= $1",
            clock() - timedelta(hours=1),
        )
        user_id = await connection.fetchval("SELECT id FROM users")
    made_by_owner = [row["action"] for row in rows if row["actor"] == f"user:{user_id}"]
    assert sorted(made_by_owner) == ["api_key.issued", "api_key.issued", "api_key.revoked", "api_key.rotated"]


async def test_all_faults_of_a_key_are_shown_and_what_was_typed_stays(owner: Person, base: str) -> None:
    answer = await owner.submit(f"{base}/keys", name="", access="some", accounts="some", networks="x", expires="5")
    assert answer.status_code == 422
    for part in ("Enter what the key is for.", "Choose at least one account", "Choose when the key expires."):
        assert part in answer.text
    answer = await owner.submit(f"{base}/keys", **{**FULL, "networks": "not a network", "default_account_id": "acc_x"})
    assert answer.status_code == 422
    assert "not is not a network." in answer.text
    assert ">not a network</textarea>" in answer.text
    answer = await owner.submit(f"{base}/keys", **{**FULL, "access": "some", "default_account_id": "acc_x"})
    assert "Choose at least one permission." in answer.text
    answer = await owner.submit(f"{base}/keys", **FULL, default_account_id="acc_x")
    assert "Choose an account of this organisation." in answer.text
    assert not SECRET.search(answer.text)


@pytest.mark.parametrize(
    ("role", "mode", "may"),
    [
        (Role.OWNER, "live", True),
        (Role.ADMIN, "live", True),
        (Role.DEVELOPER, "live", False),
        (Role.DEVELOPER, "test", True),
        (Role.FINANCE, "test", False),
        (Role.READ_ONLY, "test", False),
    ],
)
async def test_who_manages_keys(
    services: Services, world: World, person: MakePerson, role: Role, mode: str, *, may: bool
) -> None:
    someone = await member(services, world, person, role)
    tenant = world.ours_live if mode == "live" else world.ours_test
    base, account = f"/dashboard/{mode}/{tenant.scope.organisation_id}", tenant.scope.account_id
    page = await someone.get(f"{base}/keys")
    assert page.status_code == 200
    assert "test key" in page.text
    assert ("Create a key" in page.text) is may
    one = await someone.get(f"{base}/keys/{tenant.key_id}")
    assert ("Rotate the key" in one.text, "Revoke the key" in one.text) == (may, may)
    answers = [
        await someone.get(f"{base}/keys/new"),
        await someone.get(f"{base}/keys/{tenant.key_id}/revoke"),
        await someone.submit(f"{base}/keys", **FULL, default_account_id=account),
        await someone.submit(f"{base}/keys/{tenant.key_id}/rotate", overlap="24"),
    ]
    assert [answer.status_code for answer in answers] == [200 if may else 403] * 4
    answer = await someone.submit(f"{base}/keys/{tenant.key_id}/revoke")
    assert answer.status_code == (303 if may else 403)


async def test_keys_of_the_other_mode_and_of_other_organisations_do_not_exist(
    owner: Person, world: World, base: str
) -> None:
    for key_id in (world.ours_live.key_id, world.theirs_test.key_id):
        for answer in (
            await owner.get(f"{base}/keys/{key_id}"),
            await owner.get(f"{base}/keys/{key_id}/revoke"),
            await owner.submit(f"{base}/keys/{key_id}/rotate", overlap="1"),
            await owner.submit(f"{base}/keys/{key_id}/revoke"),
        ):
            assert answer.status_code == 404
        assert key_id not in (await owner.get(f"{base}/keys")).text
    account = world.theirs_test.scope.account_id
    assert (await owner.submit(f"{base}/keys", **FULL, default_account_id=account)).status_code == 422


async def test_without_keys_the_page_says_what_to_do(owner: Person, services: Services, base: str) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE api_keys SET revoked_at = now()")
    text = (await owner.get(f"{base}/keys")).text
    assert "No key works in test mode." in text
    assert "1 expired or revoked key<" in text

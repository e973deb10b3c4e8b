"""Approving in the browser: who may, with which sign-in, and what one person with two ways in cannot."""

from collections.abc import Callable

import msgspec
import pyotp
import pytest

from tests.apps.backoffice.test_money import TEST, confirm
from tests.money.refunds.refund_scene import RefundScene
from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.refunds.model import Refund
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.users.personal_tokens import find_by_token

MakePerson = Callable[[], Person]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, refund_approval_above="EUR 1")


@pytest.fixture
def scene(services: Services, world: World, clock: ManualClock) -> RefundScene:
    return RefundScene(services, world.ours_test, clock)


async def requested(scene: RefundScene, actor: Actor) -> tuple[Refund, str]:
    """A refund that waits, and the address of its page."""
    refund = await scene.refund(await scene.paid(), 1100, actor=actor)
    assert refund.state == "approval"
    return refund, f"{TEST}/refunds/{refund.id}"


async def test_an_approval_needs_the_right_a_second_factor_and_a_sign_in_of_the_last_5_minutes(
    services: Services, scene: RefundScene, person: MakePerson, clock: ManualClock
) -> None:
    olga, weak = person(), person()
    user = await operator(services, olga)
    secret = await _secret(services, user.id)
    _, path = await requested(scene, Actor(ActorKind.KEY, "key_1"))
    await add_user(services, "omar@tonne.test")
    await weak.sign_in("omar@tonne.test")
    refused = await weak.submit(f"{path}/approve", confirmed="yes")
    assert refused.headers["location"] == "/dashboard/you?done=second_factor_needed"
    await scene.execute("UPDATE users SET may_approve = false")
    refused = await olga.submit(f"{path}/approve", confirmed="yes")
    assert (refused.status_code, "do not have the right to approve" in refused.text) == (422, True)
    await scene.execute("UPDATE users SET may_approve = is_operator")
    clock.advance(minutes=5, seconds=1)
    # Other changes of security are still possible.
    assert (await olga.submit(f"{path}/decline")).status_code == 422
    for fields in ({}, {"confirmed": "yes"}):
        asked = await olga.submit(f"{path}/approve", **fields)
        assert asked.headers["location"] == f"/dashboard/sign-in?again=1&next={path}"
    assert await scene.fetchval("SELECT count(*) FROM approvals") == 0
    await olga.submit("/dashboard/sign-in", email=user.email, password=PASSWORD, next=path)
    assert (await olga.submit(f"{path}/approve", confirmed="yes")).headers["location"] == "/dashboard/sign-in"
    await olga.submit("/dashboard/code", code=pyotp.TOTP(secret).at(clock()), next=path)
    await confirm(olga, f"{path}/approve")
    row = await scene.fetch("SELECT approved_by, session_id, factor FROM approvals")
    session = await scene.fetchval("SELECT id FROM user_sessions WHERE is_strong ORDER BY created_at DESC LIMIT 1")
    assert [tuple(each) for each in row] == [(f"user:{user.id}", session, "second_factor")]


async def _secret(services: Services, user_id: str) -> str:
    async with services.database.connection() as connection:
        box = await connection.fetchval("SELECT totp_box FROM users WHERE id = $1", user_id)
    return services.box.open(box, user_id)


async def test_one_human_with_two_ways_in_is_one_person(
    services: Services, scene: RefundScene, person: MakePerson
) -> None:
    olga = person()
    user = await operator(services, olga)
    # As the command line with a login, which records the user.
    refund, path = await requested(scene, Actor(ActorKind.USER, user.id, "olga@ops-1"))
    refused = await olga.submit(f"{path}/approve", confirmed="yes")
    assert (refused.status_code, "another person must approve it" in refused.text) == (422, True)
    # Without a login it is nobody known: two others are needed.
    refund, path = await requested(scene, Actor(ActorKind.CLI, "olga@ops-1"))
    assert "Another person must approve it, too" in await confirm(olga, f"{path}/approve")
    assert await scene.fetchval("SELECT state FROM refunds WHERE id = $1", refund.id) == "approval"
    again = await olga.submit(f"{path}/approve", confirmed="yes")
    assert (again.status_code, "another person must approve it, too" in again.text) == (422, True)
    omar = person()
    await operator(services, omar, "omar@tonne.test", "Omar Diaz")
    await confirm(omar, f"{path}/approve")
    assert await scene.fetchval("SELECT state FROM refunds WHERE id = $1", refund.id) == "due"
    assert await scene.breaches() == {}
    await scene.execute("UPDATE refunds SET approved_by = 'user:usr_forged' WHERE id = $1", refund.id)
    assert await scene.breaches() == {"what was approved has an approval": [f"refund {refund.id}: user:usr_forged"]}


async def test_a_personal_token_is_shown_once_mailed_and_revoked(
    services: Services, scene: RefundScene, person: MakePerson, clock: ManualClock
) -> None:
    olga, weak = person(), person()
    user = await operator(services, olga)
    await add_user(services, "omar@tonne.test")
    await weak.sign_in("omar@tonne.test")
    made = "/dashboard/you/tokens"
    refused = await weak.submit(made, token_name="Laptop", days="90")  # noqa: S106 - a name
    assert refused.headers["location"] == "/dashboard/you?done=second_factor_needed"
    for faulty in ({"token_name": "", "days": "90"}, *({"token_name": "x", "days": day} for day in ("0", "91", "x"))):
        assert (await olga.submit(made, **faulty)).status_code == 422, faulty
    mails = await scene.fetchval("SELECT count(*) FROM mails")
    page = (await olga.submit(made, token_name="Laptop", days="90")).text  # noqa: S106 - a name
    token = page.partition('<code class="secret">')[2].partition("<")[0]
    assert await scene.fetchval("SELECT count(*) FROM mails") == mails + 1
    async with services.database.connection() as connection:
        found = await find_by_token(connection, token, clock())
        assert found is not None
        assert found.user.id == user.id
    page = (await olga.get("/dashboard/you")).text
    assert "Laptop" in page
    assert token not in page
    assert (await olga.submit(f"{made}/{found.id}/revoke")).headers["location"].endswith("done=token_revoked")
    assert (await olga.submit(f"{made}/{found.id}/revoke")).status_code == 404
    assert await scene.fetchval("SELECT count(*) FROM mails") == mails + 2
    assert "Laptop" not in (await olga.get("/dashboard/you")).text
    async with services.database.connection() as connection:
        assert await find_by_token(connection, token, clock()) is None

"""Readers of the documentation who are signed in make a test key for the open page."""

from collections.abc import Callable

from tests.apps.workspace.test_keys import calls, member
from tests.support.api_client import codes
from tests.support.clock import ManualClock
from tests.support.people import Person
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
OFFER = "/dashboard/documentation-key"


async def test_a_developer_makes_a_test_key_for_24_hours(
    services: Services, world: World, person: MakePerson, clock: ManualClock
) -> None:
    developer = await member(services, world, person, Role.DEVELOPER)
    offer = await developer.get(OFFER)
    assert (offer.status_code, offer.headers["cache-control"]) == (200, "no-store")
    [organisation] = offer.json()["organisations"]
    path = f"/dashboard/test/{organisation['id']}/documentation-key"
    assert organisation["id"] == world.ours_test.scope.organisation_id
    forged = await developer.http.post(path, data={"form_token": "x" * 22})
    assert (forged.status_code, codes(forged)) == (400, ["form_token_invalid"])
    made = await developer.http.post(path, data={"form_token": offer.json()["form_token"]})
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    secret = made.json()["secret"]
    assert secret.startswith("tonne_test_")
    assert (await calls(developer, secret)).status_code == 200
    async with services.database.connection() as connection:
        query = "SELECT actor FROM audit_log WHERE action = 'api_key.issued' AND mode = 'test'"
        actors = [row["actor"] for row in await connection.fetch(query)]
        user_id = await connection.fetchval("SELECT id FROM users")
    assert actors.count(f"user:{user_id}") == 1
    clock.advance(hours=24)
    assert (await calls(developer, secret)).status_code == 401


async def test_only_those_who_may_make_test_keys_are_offered_one(
    services: Services, world: World, person: MakePerson
) -> None:
    stranger = person()
    assert (await stranger.get(OFFER)).status_code == 303
    reader = await member(services, world, person, Role.READ_ONLY)
    offer = (await reader.get(OFFER)).json()
    assert offer["organisations"] == []
    for organisation_id, status in (
        (world.ours_test.scope.organisation_id, 403),
        (world.theirs_test.scope.organisation_id, 404),
    ):
        path = f"/dashboard/test/{organisation_id}/documentation-key"
        refused = await reader.http.post(path, data={"form_token": offer["form_token"]})
        assert refused.status_code == status

"""Who is signed in to one organisation sees nothing of another: every address of the dashboard is tried."""

from collections.abc import Callable

from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http.route import Access

IDS = {
    "user_id": "usr_1",
    "account_id": "acc_1",
    "key_id": "key_1",
    "link_id": "uln_1",
    "request_id": "req_1",
    "webhook_id": "wh_1",
    "attempt_id": "att_1",
    "pack_id": "pck_1",
    "event_id": "evt_1",
    "order_id": "ord_1",
    "step": "pay",
    "number": "TN-LIVE-000001",
    "currency": "EUR",
    "charge_id": "chg_1",
}


class Ids(dict[str, str]):
    """Ids that exist nowhere, for all other parameters of a path."""

    def __missing__(self, name: str) -> str:
        return f"{name}_1"


def paths(services: Services, method: str, organisation_id: str) -> list[str]:
    """All addresses of an organisation's pages, with ids that exist in no organisation."""
    return [
        route.path.format_map(Ids(organisation_id=organisation_id, **IDS))
        for route in services.routes()
        if route.access is Access.USER and route.method == method and "{organisation_id}" in route.path
    ]


async def test_a_member_of_one_organisation_sees_nothing_of_another(
    services: Services, world: World, person: Callable[[], Person]
) -> None:
    await add_user(services, "eve@theirs.test", world.theirs_test.scope.organisation_id)
    eve, ours = person(), world.ours_test.scope.organisation_id
    await eve.sign_in("eve@theirs.test")
    pages, forms = paths(services, "GET", ours), paths(services, "POST", ours)
    assert len(pages) >= 6
    assert len(forms) >= 8
    for path in pages:
        assert (await eve.get(path)).status_code == 404, path
    for path in forms:
        assert (await eve.submit(path, role="owner", email="eve@theirs.test")).status_code == 404, path


async def test_without_signing_in_nothing_is_shown(
    services: Services, world: World, person: Callable[[], Person]
) -> None:
    stranger, ours = person(), world.ours_test.scope.organisation_id
    for path in paths(services, "GET", ours):
        answer = await stranger.get(path)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/dashboard/sign-in"), path
    for path in paths(services, "POST", ours):
        answer = await stranger.submit(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in"), path


async def test_every_route_of_a_user_is_under_the_dashboard_or_the_operator(services: Services) -> None:
    users = [route for route in services.routes() if route.access is Access.USER]
    allowed = ("/dashboard", "/operator")
    assert all(route.path.startswith(("/dashboard/", "/operator/")) or route.path in allowed for route in users)
    assert all(route.endpoint.__qualname__.startswith("PageAccess.") for route in users)

"""Every address with every role: what a role may not do is refused, by the route and not only by a missing button."""

from collections.abc import Callable

import pytest

from tests.apps.dashboard.test_tenancy import IDS, Ids
from tests.support.people import Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http.route import Access
from tonne.selling.users.model import Role, role_allows

MakePerson = Callable[[], Person]
REFUSED = "This form was not sent from our page"


def addresses(services: Services, organisation_id: str, method: str) -> list[str]:
    """All addresses of the organisation and of the operator in test mode, with ids that exist nowhere."""
    ids = Ids(organisation_id=organisation_id, **IDS)
    return [
        route.path.format_map(ids)
        for route in services.routes()
        if route.access is Access.USER and route.method == method and "/live/" not in route.path
    ]


@pytest.mark.parametrize("role", Role)
async def test_a_role_can_only_do_what_it_may(services: Services, world: World, person: MakePerson, role: Role) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    await add_user(services, "ann@ours.test", organisation_id, role)
    ann = person()
    await ann.sign_in("ann@ours.test")
    base, ids = f"/dashboard/test/{organisation_id}", Ids(**IDS)
    refused = 0
    for section in services.organisation_sections:
        for path, (_, right) in section.pages.items():
            if not role_allows(role, right):
                assert (await ann.get(f"{base}{path.format_map(ids)}")).status_code == 403, path
                refused += 1
        for path, (_, right) in section.forms.items():
            if not role_allows(role, right):
                assert (await ann.submit(f"{base}{path.format_map(ids)}")).status_code == 403, path
                refused += 1
    if role in {Role.OWNER, Role.ADMIN}:
        assert refused == 0
    else:
        assert refused > 20


async def test_members_cannot_reach_the_operator_area(services: Services, world: World, person: MakePerson) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    await add_user(services, "ann@ours.test", organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    pages = [path for path in addresses(services, organisation_id, "GET") if path.startswith("/operator/")]
    forms = [path for path in addresses(services, organisation_id, "POST") if path.startswith("/operator/")]
    assert len(pages) > 10
    assert len(forms) > 10
    for path in pages:
        assert (await ann.get(path)).status_code == 404, path
    for path in forms:
        assert (await ann.submit(path)).status_code == 404, path


async def test_forms_without_their_token_change_nothing(services: Services, world: World, person: MakePerson) -> None:
    """Another site can make a browser send a form with its cookies, but cannot read the token."""
    olga = person()
    await operator(services, olga)
    async with services.database.connection() as connection:
        before = await connection.fetchval("SELECT count(*) FROM audit_log")
    forms = addresses(services, world.ours_test.scope.organisation_id, "POST")
    assert len(forms) > 60
    for path in forms:
        answer = await olga.http.post(path, data={"form_token": "x" * 43})
        assert (answer.status_code, REFUSED in answer.text) == (400, True), path
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM audit_log") == before


async def test_no_page_can_be_framed_cached_or_indexed(services: Services, world: World, person: MakePerson) -> None:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann, olga = person(), person()
    await ann.sign_in("ann@ours.test")
    await operator(services, olga)
    shown = 0
    for path in addresses(services, world.ours_test.scope.organisation_id, "GET"):
        answer = await (olga if path.startswith("/operator") else ann).get(path)
        if answer.status_code == 200 and answer.headers["content-type"].startswith("text/html"):
            shown += 1
            # The editor of the public page shows the preview in a frame of its own.
            framed_by = "'self'" if path.endswith("/public-page/preview") else "'none'"
            assert f"frame-ancestors {framed_by}" in answer.headers["content-security-policy"], path
            assert "unsafe-inline" not in answer.headers["content-security-policy"], path
            assert answer.headers["cache-control"] == "no-store", path
            assert 'name="robots" content="noindex"' in answer.text, path
            assert len(answer.content) < 200_000, path
    assert shown > 25

"""An operator looks at the dashboard of an organisation: read-only, for a short time, visible to the organisation."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.apps.dashboard.test_tenancy import paths
from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.people import Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.users.model import Right

MakePerson = Callable[[], Person]
REASON = "Ticket 4711: the invoice of May"


@pytest.fixture
def organisation_id(world: World) -> str:
    return world.ours_test.scope.organisation_id


@pytest.fixture
async def olga(services: Services, person: MakePerson) -> Person:
    someone = person()
    await operator(services, someone)
    return someone


async def act_as(olga: Person, organisation_id: str) -> None:
    answer = await olga.submit(f"/operator/live/customers/{organisation_id}/act-as", reason=REASON)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/dashboard/live/{organisation_id}")


async def entries(services: Services, organisation_id: str) -> list[tuple[str, str, str | None]]:
    async with services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT action, actor, after->>'reason' AS reason FROM audit_log "
            "WHERE organisation_id = $1 AND action LIKE 'operator.%' ORDER BY id",
            organisation_id,
        )
    return [(row["action"], row["actor"], row["reason"]) for row in rows]


async def test_the_operator_sees_the_pages_and_the_organisation_sees_the_operator(
    services: Services, olga: Person, person: MakePerson, organisation_id: str
) -> None:
    people = f"/dashboard/live/{organisation_id}/people"
    assert (await olga.get(people)).status_code == 404
    page = await olga.get(f"/operator/live/customers/{organisation_id}/act-as")
    assert "For 30 minutes" in page.text
    await act_as(olga, organisation_id)
    page = await olga.get(people)
    assert page.status_code == 200
    assert "You are looking at Ours as its operator" in page.text
    assert "Invite someone" not in page.text
    assert (await olga.get(f"/dashboard/test/{organisation_id}/people")).status_code == 200
    await add_user(services, "ann@ours.test", organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    seen = (await ann.get(people)).text
    assert "You are looking at" not in seen
    assert "Olga Berg" in seen
    assert REASON in seen
    [(action, actor, reason)] = await entries(services, organisation_id)
    assert (action, actor.partition("_")[0], reason) == ("operator.act_as_started", "user:usr", REASON)


async def test_every_form_is_refused_and_pages_that_need_a_role(
    services: Services, olga: Person, organisation_id: str
) -> None:
    await act_as(olga, organisation_id)
    for path in paths(services, "POST", organisation_id):
        if path.startswith("/dashboard/"):
            answer = await olga.submit(path, role="owner", email="olga@tonne.test")
            assert (answer.status_code, "you can change nothing" in answer.text) == (403, True), path
    for section in services.organisation_sections:
        for path, (_, right) in section.pages.items():
            if right is not Right.VIEW and "{" not in path:
                answer = await olga.get(f"/dashboard/live/{organisation_id}{path}")
                assert answer.status_code == 403, path
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM memberships") == 0


async def test_addresses_of_receivers_are_not_shown_whole(
    services: Services, olga: Person, api: ApiClient, organisation_id: str
) -> None:
    answer = await api.post("/v1/webhooks", {"url": "https://93.184.216.34/hooks/Pl4nted?key=Pl4nted"})
    assert answer.status_code == 201, answer.text
    path = f"/v1/webhooks/{answer.json()['id']}"
    body = {"url": "https://93.184.216.34/Pl4nted"}
    changed = await api.http.put(path, json=body, headers=api._headers({}))
    assert changed.status_code == 200, changed.text
    async with services.database.connection() as connection:
        await connection.execute("UPDATE webhooks SET failing_since = created_at")
    await act_as(olga, organisation_id)
    base = f"/dashboard/test/{organisation_id}"
    for page in ("/overview", "/audit", "/audit/export", "/webhooks"):
        seen = await olga.get(base + page)
        assert (seen.status_code, "Pl4nted" in seen.text) == (200, False), page
        assert "https://93.184.216.34/…" in seen.text, page


async def test_it_ends_by_the_button(services: Services, olga: Person, organisation_id: str) -> None:
    await act_as(olga, organisation_id)
    answer = await olga.submit("/operator/live/act-as/end")
    assert answer.headers["location"] == f"/operator/live/customers/{organisation_id}?done=act_as_ended"
    assert "You no longer see the dashboard" in (await olga.get(answer.headers["location"])).text
    answer = await olga.get(f"/dashboard/live/{organisation_id}/people")
    assert (answer.status_code, "open the customer in the operator area" in answer.text) == (404, True)
    assert [action for action, *_ in await entries(services, organisation_id)] == [
        "operator.act_as_started",
        "operator.act_as_ended",
    ]
    await olga.submit("/operator/live/act-as/end")
    assert len(await entries(services, organisation_id)) == 2


async def test_it_ends_after_half_an_hour(olga: Person, organisation_id: str, clock: ManualClock) -> None:
    await act_as(olga, organisation_id)
    clock.advance(minutes=29)
    assert (await olga.get(f"/dashboard/live/{organisation_id}/people")).status_code == 200
    clock.advance(minutes=2)
    assert (await olga.get(f"/dashboard/live/{organisation_id}/people")).status_code == 404


async def test_it_is_valid_in_one_session_for_one_organisation(
    services: Services, olga: Person, person: MakePerson, world: World, organisation_id: str
) -> None:
    await act_as(olga, organisation_id)
    theirs = world.theirs_test.scope.organisation_id
    assert (await olga.get(f"/dashboard/live/{theirs}/people")).status_code == 404
    other = person()
    await operator(services, other, "otto@tonne.test")
    assert (await other.get(f"/dashboard/live/{organisation_id}/people")).status_code == 404
    # Another organisation ends the first period.
    await act_as(olga, theirs)
    assert (await olga.get(f"/dashboard/live/{organisation_id}/people")).status_code == 404


@pytest.mark.parametrize(("reason", "part"), [("", "Enter a reason"), ("x" * 501, "at most 500 characters")])
async def test_a_reason_is_needed(
    services: Services, olga: Person, organisation_id: str, reason: str, part: str
) -> None:
    answer = await olga.submit(f"/operator/live/customers/{organisation_id}/act-as", reason=reason)
    assert (answer.status_code, part in answer.text) == (422, True)
    assert await entries(services, organisation_id) == []


async def test_unknown_organisations_and_people_who_are_no_operators_are_refused(
    services: Services, olga: Person, person: MakePerson, organisation_id: str
) -> None:
    unknown = "/operator/live/customers/org_00000000000000000000000000/act-as"
    assert (await olga.get(unknown)).status_code == 404
    assert (await olga.submit(unknown, reason=REASON)).status_code == 404
    await add_user(services, "ann@ours.test", organisation_id)
    ann, weak = person(), person()
    await ann.sign_in("ann@ours.test")
    path = f"/operator/live/customers/{organisation_id}/act-as"
    assert (await ann.submit(path, reason=REASON)).status_code == 404
    await add_user(services, "otto@tonne.test")
    await weak.sign_in("otto@tonne.test")
    answer = await weak.submit(path, reason=REASON)
    assert answer.headers["location"] == "/dashboard/you?done=second_factor_needed"
    assert (await weak.get(f"/dashboard/live/{organisation_id}/people")).status_code == 404


async def test_a_member_who_is_also_an_operator_keeps_the_role(
    services: Services, olga: Person, organisation_id: str
) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO memberships (organisation_id, user_id, role, created_at) "
            "SELECT $1, id, 'owner', now() FROM users WHERE is_operator",
            organisation_id,
        )
    await act_as(olga, organisation_id)
    page: Any = await olga.get(f"/dashboard/live/{organisation_id}/people")
    assert "Invite someone" in page.text


async def test_every_page_works_without_secrets_and_without_forms(
    services: Services, api: ApiClient, olga: Person, organisation_id: str
) -> None:
    body = {"url": "https://1.1.1.1/hook/topsecret?token=topsecret"}
    answer = await api.http.post("/v1/webhooks", json=body, headers=api._headers({}))
    assert answer.status_code == 201
    await act_as(olga, organisation_id)
    base, seen, wrong = f"/dashboard/test/{organisation_id}", 0, list[str]()
    # Operators have the audit log in their own area, too.
    pages = [
        path
        for section in services.organisation_sections
        for path in section.pages
        if "{" not in path and not path.startswith("/audit")
    ]
    for path in [*pages, f"/webhooks/{answer.json()['id']}"]:
        page = await olga.get(base + path)
        if page.status_code >= 500 or "topsecret" in page.text or 'method="post" action="/dashboard/test/' in page.text:
            wrong.append(f"{path}: {page.status_code}")
        seen += page.status_code == 200
    assert wrong == [], "they fail, show a secret, or show a form that would be refused"
    assert seen >= 8
    assert "https://1.1.1.1/…" in (await olga.get(f"{base}/webhooks")).text
    await services.webhooks.close()

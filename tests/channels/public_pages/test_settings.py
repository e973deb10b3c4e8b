"""The settings of a Sustainability page."""

import asyncio
import json
from typing import Any

import pytest

from tests.channels.public_pages.scene import PATH, logo, png, put, set_up
from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.public_pages.change_page import MAX_SLUGS, PageChange, change_page, read_page
from tonne.channels.public_pages.errors import SlugTaken
from tonne.channels.public_pages.model import RESERVED, PageSection, check_slug, slug_candidates
from tonne.channels.public_pages.store import shows_certificates
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts import store as account_store

ALL = ["timeline", "bundles_breakdown", "projects", "certificates"]


async def read(api: ApiClient, **headers: str) -> dict[str, Any]:
    answer = await api.get(PATH, **headers)
    assert answer.status_code == 200
    page: dict[str, Any] = answer.json()
    return page


async def test_before_it_is_set_up_a_page_is_disabled_and_has_a_free_slug(api: ApiClient, world: World) -> None:
    assert await read(api) == {
        "enabled": False,
        "slug": "account-test",
        "title": "Carbon credits retired for Beneficiary",
        "description": "",
        "sections": ALL,
        "logo_url": None,
        "url": "http://tonne.test/sustainability/test/account-test",
        "account_type": "test",
        "updated_at": None,
    }
    assert (await put(api.as_key(world.theirs_test.key), {"slug": "account-test"})).status_code == 200
    assert (await read(api))["slug"] == "ours"
    assert (await put(api.as_key(world.theirs_test.key), {"slug": "ours"})).status_code == 200
    assert (await read(api))["slug"] == "account-test-2"


async def test_reading_takes_no_slug(api: ApiClient, services: Services) -> None:
    await read(api)
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM sustainability_slugs") == 0


async def test_fields_that_are_left_out_keep_their_values(api: ApiClient) -> None:
    body = {"enabled": True, "slug": "acme", "title": "  Acme  ", "description": "One\r\ntwo", "sections": ["projects"]}
    answer = await put(api, body)
    page = answer.json()
    assert (page["title"], page["description"], page["sections"]) == ("Acme", "One\ntwo", ["projects"])
    assert page["url"] == "http://tonne.test/sustainability/test/acme"
    assert page["updated_at"] is not None
    changed = (await put(api, {"enabled": False})).json()
    assert changed == {**page, "enabled": False, "updated_at": changed["updated_at"]}
    assert await read(api) == changed
    assert (await put(api, {"sections": ["certificates", "timeline"]})).json()["sections"] == [
        "timeline",
        "certificates",
    ]
    assert (await put(api, {"sections": []})).json()["sections"] == []


async def test_an_empty_change_saves_the_suggestions(api: ApiClient) -> None:
    suggested = await read(api)
    page = (await put(api, {})).json()
    assert page["updated_at"] is not None
    assert page == {**suggested, "updated_at": page["updated_at"]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"slug": "ab"}, "slug"),
    ({"slug": "a" * 61}, "slug"),
    ({"slug": "Acme"}, "slug"),
    ({"slug": "acme-"}, "slug"),
    ({"slug": "ac--me"}, "slug"),
    ({"slug": "acme\n"}, "slug"),
    ({"slug": "ácme"}, "slug"),
    ({"slug": "../etc"}, "slug"),
    ({"title": "   "}, "title"),
    ({"title": "x" * 201}, "title"),
    ({"title": "two\nlines"}, "title"),
    ({"title": "an escape \u001b[31m"}, "title"),
    ({"description": "x" * 2001}, "description"),
    ({"description": "a bell \u0007"}, "description"),
    ({"sections": ["everything"]}, "sections[0]"),
    ({"sections": ["projects", "projects"]}, "sections"),
    ({"enabled": "yes"}, "enabled"),
    ({"logo": {"media_type": "image/png"}}, "logo.data"),
    ({"colour": "red"}, "colour"),
]


async def test_invalid_settings_are_rejected_and_change_nothing(api: ApiClient) -> None:
    before = await set_up(api)
    for body, field in REFUSED:
        answer = await put(api, body)
        assert (answer.status_code, set(codes(answer)), fields(answer)) == (400, {"validation_error"}, [field]), body
    assert await read(api) == before


async def test_reserved_slugs_are_rejected(api: ApiClient) -> None:
    for slug in ("test", "admin", "api", "new", "edit", "settings", "login", "logout", "assets", "verify", "tonne"):
        answer = await put(api, {"slug": slug})
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["slug_reserved"], ["slug"]), slug
    assert (await read(api))["updated_at"] is None


def test_the_reserved_words_are_valid_slugs() -> None:
    assert {"static", "verify", "certificates", "docs", "help", "about", "tonne", "logo", "preview"} <= RESERVED
    with pytest.raises(TonneError):
        check_slug("tonne")
    assert check_slug("tonnes-of-trees") == "tonnes-of-trees"


async def test_a_taken_slug_is_rejected_without_revealing_the_owner(api: ApiClient, world: World) -> None:
    await set_up(api, slug="acme")
    strangers = [
        await put(api.as_key(world.theirs_test.key), {"slug": "acme"}),
        await put(api, {"slug": "acme"}, Service_Account=world.ours_test.client_account_id),
    ]
    for answer in strangers:
        assert (answer.status_code, codes(answer), fields(answer)) == (409, ["slug_taken"], ["slug"])
        assert "Ours" not in answer.text
        assert world.ours_test.scope.account_id not in answer.text
    assert strangers[0].json()["error"] == strangers[1].json()["error"]
    assert (await read(api.as_key(world.theirs_test.key)))["updated_at"] is None


async def test_slugs_are_unique_per_mode(api: ApiClient, world: World) -> None:
    await set_up(api, slug="acme")
    live = await set_up(api.as_key(world.ours_live.key), slug="acme")
    assert (live["url"], live["account_type"]) == ("http://tonne.test/sustainability/acme", "live")


async def test_a_page_keeps_its_old_slugs(api: ApiClient, world: World) -> None:
    await set_up(api, slug="first")
    await set_up(api, slug="second")
    assert codes(await put(api.as_key(world.theirs_test.key), {"slug": "first"})) == ["slug_taken"]
    assert (await set_up(api, slug="first"))["slug"] == "first"
    assert codes(await put(api.as_key(world.theirs_test.key), {"slug": "second"})) == ["slug_taken"]


async def test_the_number_of_slugs_is_limited(api: ApiClient) -> None:
    for number in range(MAX_SLUGS):
        await set_up(api, slug=f"name-{number}")
    answer = await put(api, {"slug": "one-too-many"})
    assert (answer.status_code, codes(answer)) == (409, ["slug_limit_reached"])
    assert (await set_up(api, slug="name-3"))["slug"] == "name-3"
    assert (await put(api, {"slug": "one-too-many"})).status_code == 409


async def _change(services: Services, scope: Scope, slug: str) -> str:
    async with services.database.transaction() as tx:
        return (await change_page(tx, scope, PageChange(slug=slug), by=TESTER.at(START))).slug


async def _until_waiting_for_lock(services: Services) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(20), services.database.connection() as connection:
        while not await connection.fetchval(waits):  # noqa: ASYNC110 - the database rings no bell for it
            await asyncio.sleep(0.005)


async def test_the_first_of_two_concurrent_accounts_gets_the_slug(services: Services, world: World) -> None:
    async with services.database.transaction() as tx:
        await change_page(tx, world.ours_test.scope, PageChange(slug="acme"), by=TESTER.at(START))
        second = asyncio.create_task(_change(services, world.theirs_test.scope, "acme"))
        await _until_waiting_for_lock(services)
    with pytest.raises(SlugTaken):
        await second


async def test_the_second_gets_the_slug_if_the_first_rolls_back(services: Services, world: World) -> None:
    async with services.database.connection() as connection:
        attempt = connection.transaction()
        await attempt.start()
        await change_page(connection, world.ours_test.scope, PageChange(slug="acme"), by=TESTER.at(START))
        second = asyncio.create_task(_change(services, world.theirs_test.scope, "acme"))
        await _until_waiting_for_lock(services)
        await attempt.rollback()
    assert await second == "acme"


async def test_concurrent_requests_for_a_slug_have_one_winner(api: ApiClient, world: World) -> None:
    keys = [world.ours_test, world.theirs_test]
    answers = await asyncio.gather(*(put(api.as_key(tenant.key), {"slug": "acme"}) for tenant in keys * 3))
    won = {tenant.key for tenant, answer in zip(keys * 3, answers, strict=True) if answer.status_code == 200}
    assert len(won) == 1
    assert {answer.status_code for answer in answers} == {200, 409}


async def test_concurrent_first_changes_of_an_account_are_serialised(services: Services, world: World) -> None:
    scope = world.ours_test.scope
    async with services.database.transaction() as tx:
        await change_page(tx, scope, PageChange(title="First", enabled=True), by=TESTER.at(START))
        second = asyncio.create_task(_change(services, scope, "acme"))
        await _until_waiting_for_lock(services)
    await second
    async with services.database.connection() as connection:
        page = await read_page(connection, scope)
    assert (page.title, page.enabled, page.slug) == ("First", True, "acme")


async def test_every_account_has_a_page_of_its_own(api: ApiClient, world: World) -> None:
    await set_up(api, slug="main", title="Main")
    client = {"Service_Account": world.ours_test.client_account_id}
    assert (await read(api, **client))["updated_at"] is None
    assert (await put(api, {"slug": "client", "title": "Client"}, **client)).status_code == 200
    assert (await read(api))["title"] == "Main"
    assert (await read(api, **client))["title"] == "Client"
    assert (await read(api.as_key(world.ours_live.key)))["updated_at"] is None


async def test_changes_are_audited_without_the_logo(api: ApiClient, services: Services, world: World) -> None:
    await set_up(api, slug="acme", logo=logo(png()))
    await set_up(api, slug="acme", logo=None)
    async with services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT actor, subject_id, before, after FROM audit_log WHERE action = $1 ORDER BY id",
            "sustainability_page.changed",
        )
    assert [row["actor"] for row in rows] == [f"key:{world.ours_test.key_id}"] * 2
    assert {row["subject_id"] for row in rows} == {world.ours_test.scope.account_id}
    first, second = [(json.loads(row["before"]), json.loads(row["after"])) for row in rows]
    assert first[0]["slug"] is None
    assert (first[1]["slug"], first[1]["enabled"]) == ("acme", True)
    assert second == ({"logo": first[1]["logo"]}, {"logo": None})
    assert max(len(row["after"]) for row in rows) < 500


async def test_certificates_are_public_only_with_an_enabled_page_and_section(services: Services, world: World) -> None:
    scope, client = world.ours_test.scope, world.ours_test.client_account_id
    stranger = Scope(world.theirs_test.scope.organisation_id, scope.account_id, scope.mode)

    async def shows(of: Scope) -> bool:
        async with services.database.connection() as connection:
            return await shows_certificates(connection, of)

    async def change(**changes: Any) -> None:
        async with services.database.transaction() as tx:
            await change_page(tx, scope, PageChange(**changes), by=TESTER.at(START))

    assert not await shows(scope)
    await change(enabled=True)
    assert await shows(scope)
    assert not await shows(stranger)
    assert not await shows(Scope(scope.organisation_id, client, scope.mode))
    await change(sections=[PageSection.PROJECTS])
    assert not await shows(scope)
    await change(sections=list(PageSection), enabled=False)
    assert not await shows(scope)


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("Fjörd & Söhne GmbH", "x"), "fjord-sohne-gmbh"),
        (("Straße", "x"), "strasse"),
        (("株式会社", "Acme"), "acme"),
        (("AB", "Cd"), "page-"),
        (("Admin", "Demo"), "admin-2"),
        (("x" * 200, "y"), "x" * 60),
        (("---", "😀😀😀"), "page-"),
    ],
)
def test_slugs_are_made_from_names(names: tuple[str, str], first: str) -> None:
    candidates = list(slug_candidates(names, "acc_1"))
    assert candidates[0].startswith(first)
    for slug in candidates:
        assert check_slug(slug) == slug


async def test_a_common_name_still_gets_a_free_slug(services: Services, world: World) -> None:
    scope = world.ours_test.scope
    async with services.database.transaction() as tx:
        owner = await account_store.find_account(tx, scope)
        assert owner is not None
        for slug in list(slug_candidates((owner.name, "Ours"), scope.account_id))[:-1]:
            await tx.execute("INSERT INTO sustainability_slugs VALUES ('test', $1, 'acc_x', $2)", slug, START)
        page = await read_page(tx, scope)
    assert page.slug.startswith("account-test-")
    assert len(page.slug) == len("account-test-") + 10

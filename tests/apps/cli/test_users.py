"""tonne user"""

import re
from pathlib import Path

import httpx

from tests.apps.cli.story import Story
from tests.support.api_client import ApiClient
from tests.support.command import tonne
from tests.support.people import PASSWORD, Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services

EMAIL = "ann@ours.test"


async def test_the_printed_link_leads_to_a_password_and_the_organisation(
    api: ApiClient, browser: httpx.AsyncClient, services: Services, world: World, tmp_path: Path
) -> None:
    story = Story(api, services, world, tmp_path, {})
    url = story.run(
        "user", "create", EMAIL, "Ann Lee", "--org", world.ours_test.scope.organisation_id, "--role", "admin"
    )
    ann = Person(browser)
    answer = await ann.submit(re.sub(r"https?://[^/]+", "", url), password=PASSWORD, repeat=PASSWORD)
    assert answer.status_code == 303
    assert (await ann.sign_in(EMAIL)).headers["location"] == "/dashboard"
    page = await ann.get(f"/dashboard/live/{world.ours_test.scope.organisation_id}/people")
    assert "Ann Lee" in page.text


async def test_a_disabled_user_cannot_sign_in_until_enabled(
    api: ApiClient, browser: httpx.AsyncClient, services: Services, world: World, tmp_path: Path
) -> None:
    story, ann = Story(api, services, world, tmp_path, {}), Person(browser)
    url = story.run("user", "create", EMAIL, "Ann Lee", "--operator")
    await ann.submit(re.sub(r"https?://[^/]+", "", url), password=PASSWORD, repeat=PASSWORD)
    story.run("user", "disable", EMAIL)
    assert (await ann.sign_in(EMAIL)).status_code == 422
    story.run("user", "enable", EMAIL)
    assert (await ann.sign_in(EMAIL)).status_code == 303


async def test_a_deleted_user_leaves_nothing_behind(
    api: ApiClient, browser: httpx.AsyncClient, services: Services, world: World, tmp_path: Path
) -> None:
    story, ann = Story(api, services, world, tmp_path, {}), Person(browser)
    organisation_id = world.ours_test.scope.organisation_id
    await add_user(services, "bob@ours.test", organisation_id)
    await add_user(services, EMAIL, organisation_id)
    await ann.sign_in(EMAIL)
    await ann.submit("/dashboard/password", email=EMAIL)
    story.run("user", "delete", EMAIL, "--yes")
    assert (await ann.get("/dashboard/you")).status_code == 303
    for table, column in (("users", "email"), ("user_links", "email")):
        assert await story.fetch(f"SELECT count(*) FROM {table} WHERE {column} = $1", EMAIL) == "0"  # noqa: S608
    assert await story.fetch("SELECT count(*) FROM memberships") == "1"


async def test_a_reset_removes_the_second_factors_and_ends_the_sessions(
    api: ApiClient, browser: httpx.AsyncClient, services: Services, world: World, tmp_path: Path
) -> None:
    story, olga = Story(api, services, world, tmp_path, {}), Person(browser)
    user = await operator(services, olga)
    await story.execute(
        "INSERT INTO passkeys (id, user_id, credential_id, public_key, sign_count, domain, name, is_synced, "
        "created_at) VALUES ('pky_1', $1, 'x', 'x', 0, 'tonne.test', 'Phone', false, now())",
        user.id,
    )
    assert story.run("user", "reset", user.email, "--second-factor").startswith("http")
    assert (await olga.get("/dashboard/you")).status_code == 303
    assert (await olga.sign_in(user.email)).headers["location"] == "/dashboard"
    for table in ("passkeys", "recovery_codes"):
        assert await story.fetch(f"SELECT count(*) FROM {table}") == "0"  # noqa: S608


async def test_codes_are_printed_for_users_of_the_demo_only(
    api: ApiClient, browser: httpx.AsyncClient, services: Services, world: World, tmp_path: Path
) -> None:
    story = Story(api, services, world, tmp_path, {"secret_key": services.settings.secret_key})
    olga = Person(browser)
    user = await operator(services, olga)
    words = ("user", "code", user.email)
    refused = tonne(*words, database_url=services.database._url, secret_key=services.settings.secret_key)
    assert (refused.returncode, "is no user of the demo" in refused.stderr) == (1, True)
    await story.execute("UPDATE users SET is_demo = true WHERE id = $1", user.id)
    # The code of this moment was used to set up the app: the next one is printed.
    for _ in range(2):
        assert (await olga.sign_in(user.email)).headers["location"].startswith("/dashboard/code")
        answer = await olga.submit("/dashboard/code", code=story.run(*words))
        assert answer.headers.get("location") == "/dashboard", answer.text
        await story.execute("UPDATE users SET totp_step = totp_step - 1")

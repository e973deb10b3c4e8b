"""The editor of the public page."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.apps.workspace.forms import typed_fields
from tests.channels.public_pages.scene import png, stored
from tests.support.api_client import ApiClient
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.web.render import POLICY
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
Rows = Callable[[str], Awaitable[list[dict[str, Any]]]]
NEWEST = "SELECT action, actor, subject_id, after FROM audit_log ORDER BY id DESC LIMIT 1"


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
def page(world: World) -> dict[str, Any]:
    account_id = world.ours_test.scope.account_id
    return {"account": account_id, "title": "Ours & <climate>", "slug": "ours-climate", "description": "We try."}


@pytest.fixture
async def owner(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    return ann


async def upload(person: Person, path: str, fields: dict[str, Any], logo: bytes) -> httpx.Response:
    data = {"form_token": person.http.cookies["tonne"], **fields}
    return await person.http.post(path, data=data, files={"logo": ("logo.png", logo, "image/png")})


async def test_a_page_is_published_and_withdrawn(owner: Person, page: dict[str, Any], base: str, rows: Rows) -> None:
    address = "/sustainability/test/ours-climate"
    fields = {**page, "section": ["projects", "timeline"], "action": "publish"}
    answer = await upload(owner, f"{base}/public-page", fields, png())
    assert answer.headers["location"] == f"{base}/public-page?account={page['account']}&done=page_published"
    [entry] = await rows(NEWEST)
    assert (entry["action"], entry["subject_id"]) == ("sustainability_page.changed", page["account"])
    assert entry["actor"].startswith("user:usr_")
    assert json.loads(entry["after"])["sections"] == ["timeline", "projects"]
    shown = await owner.get(address)
    assert "Ours &amp; &lt;climate&gt;" in shown.text
    logo = await owner.get(f"{address}/logo")
    assert (logo.content, logo.headers["content-type"]) == (stored(png()), "image/png")
    assert logo.headers["x-content-type-options"] == "nosniff"
    editor = (await owner.get(f"{base}/public-page?account={page['account']}")).text
    assert typed_fields(editor)["slug"] == "ours-climate"
    assert "Remove the logo" in editor
    assert (await owner.submit(f"{base}/public-page", **{**page, "remove_logo": "1"})).status_code == 303
    assert (await owner.get(f"{address}/logo")).status_code == 404
    assert (await owner.get(address)).status_code == 200, "saving keeps it public"
    assert (await owner.submit(f"{base}/public-page", **{**page, "action": "withdraw"})).status_code == 303
    assert (await owner.get(address)).status_code == 404


async def test_the_preview_is_the_page_with_unsaved_settings(
    owner: Person, page: dict[str, Any], base: str, rows: Rows
) -> None:
    answer = await upload(owner, f"{base}/public-page/preview", {**page, "title": "Not saved"}, png())
    assert answer.status_code == 200
    assert "Not saved" in answer.text
    assert "data:image/png;base64," in answer.text
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "script-src 'self'" in policy
    assert await rows("SELECT account_id FROM sustainability_pages") == []
    invalid = await owner.submit(f"{base}/public-page/preview", **{**page, "title": " ", "description": "New text"})
    assert "Carbon credits retired for Beneficiary" in invalid.text, "what is not valid is as it is stored"
    assert "New text" in invalid.text
    saved = await owner.get(f"{base}/public-page/preview?account={page['account']}")
    assert "Carbon credits retired for Beneficiary" in saved.text


async def test_only_the_editor_and_the_preview_may_be_framed(owner: Person, page: dict[str, Any], base: str) -> None:
    editor = await owner.get(f"{base}/public-page")
    assert editor.headers["content-security-policy"] == f"{POLICY}; frame-src 'self'"
    await owner.submit(f"{base}/public-page", **{**page, "action": "publish"})
    for path in (f"{base}/people", "/sustainability/test/ours-climate"):
        assert (await owner.get(path)).headers["content-security-policy"] == POLICY


async def test_all_faults_at_once(owner: Person, page: dict[str, Any], base: str, rows: Rows) -> None:
    fields = {**page, "title": "", "slug": "No Slug", "description": "x" * 2001}
    answer = await upload(owner, f"{base}/public-page", fields, b"<svg onload=alert(1)>")
    assert answer.status_code == 422
    for message in (
        "Title must be one line of 1 to 200 characters.",
        "Slug must have 3 to 60 characters",
        "Description must be text of at most 2000 characters.",
        "The logo must be a PNG, JPEG or WebP image.",
    ):
        assert message in answer.text
    assert "No Slug" in typed_fields(answer.text).values()
    reserved = await owner.submit(f"{base}/public-page", **{**page, "slug": "dashboard"})
    assert "This slug is reserved." in reserved.text
    assert await rows("SELECT account_id FROM sustainability_pages") == []


async def test_an_address_that_another_page_has(
    owner: Person, api: ApiClient, world: World, page: dict[str, Any], base: str
) -> None:
    theirs = api.as_key(world.theirs_test.key)
    await theirs.http.put(
        "/v1/sustainability-page", json={"slug": "ours-climate"}, headers={"Authorization": f"Bearer {theirs.key}"}
    )
    answer = await owner.submit(f"{base}/public-page", **page)
    assert (answer.status_code, "belongs to another page" in answer.text) == (422, True)


async def test_roles_and_other_accounts(
    services: Services, world: World, person: MakePerson, owner: Person, *, page: dict[str, Any], base: str
) -> None:
    await add_user(services, "ro@ours.test", world.ours_test.scope.organisation_id, Role.READ_ONLY)
    reader = person()
    await reader.sign_in("ro@ours.test")
    editor = await reader.get(f"{base}/public-page")
    assert (editor.status_code, "data-editor" in editor.text, "<iframe" in editor.text) == (200, False, True)
    for form in ("", "/preview"):
        assert (await reader.submit(f"{base}/public-page{form}", **page)).status_code == 403
    for stranger in (world.theirs_test.scope.account_id, world.ours_live.scope.account_id):
        for path in ("/public-page", "/public-page/preview"):
            assert (await owner.get(f"{base}{path}?account={stranger}")).status_code == 404
            assert (await owner.submit(f"{base}{path}", **{**page, "account": stranger})).status_code == 404

"""Logos of accounts, the visibility of their pages, and the settings of `/v1/sustainability-pages`."""

from typing import Any

import httpx

from tests.channels.public_pages.scene import PATH, TEST_PAGE, look, png, set_up, stored
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.apps.wiring.app import Services

PAGES = "/v1/sustainability-pages"
CURRENT = f"{PAGES}/current-account"
SETTINGS: dict[str, Any] = {
    "status": "enabled",
    "slug": "our-forest",
    "title": "by_volume",
    "sections": ["bundles_breakdown", "certificates"],
}


async def upload(api: ApiClient, path: str, content: bytes, field: str = "logo") -> httpx.Response:
    return await api.http.post(path, files={field: ("logo.png", content)}, headers=api._headers({}))


async def put(api: ApiClient, path: str, body: Any) -> httpx.Response:
    return await api.http.put(path, json=body, headers=api._headers({}))


async def test_an_account_has_one_logo(services: Services, api: ApiClient, world: World) -> None:
    account = f"/v1/accounts/{world.ours_test.scope.account_id}"
    answer = await upload(api, f"{account}/logo", png(3, 2))
    assert answer.status_code == 200, answer.text
    url = answer.json()["url"]
    assert (await api.get(account)).json()["logo"] == url
    address = url.removeprefix(services.settings.base_url)
    shown = await api.http.get(address)
    assert (shown.content, shown.headers["content-type"]) == (stored(png(3, 2)), "image/png")
    assert "immutable" in shown.headers["cache-control"]
    # The page has it without a second upload, and setting the one of the page changes that of the account.
    page = await set_up(api)
    assert (await api.http.get(page["logo_url"].removeprefix(services.settings.base_url))).content == stored(png(3, 2))
    await upload(api, f"{account}/logo", png(4, 4))
    assert (await api.http.get(f"{TEST_PAGE}/logo")).content == stored(png(4, 4))
    assert (await api.http.get(address)).status_code == 404, "the old version is gone"
    await put(api, PATH, {"logo": None})
    assert (await api.get(account)).json()["logo"] is None
    await upload(api, f"{account}/logo", png())
    removed = await api.http.delete(f"{account}/logo", headers=api._headers({}))
    assert (removed.status_code, removed.json()) == (200, {})
    assert (await api.get(PATH)).json()["logo_url"] is None
    for bad in (b"<svg/>", png()[:-3], png(5000, 1), png() + b"x"):
        refused = await upload(api, f"{account}/logo", bad)
        assert (refused.status_code, codes(refused), fields(refused)) == (400, ["unsupported_image_format"], ["logo"])
    assert codes(await upload(api, f"{account}/logo", png(), "picture")) == ["validation_error"]
    assert codes(await api.post(f"{account}/logo", {})) == ["media_type_invalid"]
    assert codes(await upload(api, f"/v1/accounts/client/{world.ours_test.scope.account_id}/logo", png())) == [
        "account_not_found"
    ]
    for path in ("/logo/acc_x/5f2b8c01d9e3", address.rpartition("/")[0] + "/5f2b8c01d9e3"):
        assert codes(await api.http.get(path)) == ["account_logo_not_found"]


async def test_the_visibility_of_an_account_applies_to_its_pages(api: ApiClient, world: World) -> None:
    await set_up(api)
    account = f"/v1/accounts/{world.ours_test.scope.account_id}"
    paths = (TEST_PAGE, f"{TEST_PAGE}/certificates", f"{TEST_PAGE}/badge.svg", "/widget/test/our-forest")
    for visibility, status, is_listed in (("hidden", 200, False), ("private", 404, None), ("public", 200, True)):
        changed = await api.http.patch(
            account, json={"external_pages_visibility": visibility}, headers=api._headers({})
        )
        assert changed.status_code == 200, changed.text
        for path in paths:
            answer = await api.http.get(path)
            assert answer.status_code == status, path
            if is_listed is not None and not path.startswith("/widget"):
                assert ("x-robots-tag" not in answer.headers) is is_listed, path


async def test_settings_in_the_form_of_other_clients(api: ApiClient, world: World) -> None:
    missing = [await api.get(CURRENT), await put(api, PAGES, SETTINGS)]
    assert [codes(answer) for answer in missing] == [["sustainability_page_not_found"]] * 2
    created = await api.post(PAGES, SETTINGS)
    assert created.status_code == 201, created.text
    expected = {**SETTINGS, "description": None, "custom_description": None}
    assert created.json() == expected == (await api.get(CURRENT)).json()
    again = await api.post(PAGES, SETTINGS)
    assert (again.status_code, codes(again)) == (409, ["sustainability_page_exists"])
    # Sections that these settings do not know stay.
    assert (await api.get(PATH)).json()["sections"] == ["timeline", "bundles_breakdown", "projects", "certificates"]
    await put(api, PATH, {"sections": ["projects", "certificates"], "title": "Ours"})
    custom = {"description": "by_custom_description", "custom_description": "We offset <b>all</b> of it."}
    changed = (await put(api, PAGES, {**SETTINGS, **custom, "sections": ["unsdg"]})).json()
    assert changed == {**SETTINGS, **custom, "sections": ["unsdg"]}
    page = (await api.get(PATH)).json()
    assert (page["sections"], page["title"]) == (["projects", "unsdg"], "Ours")
    html = await look(api.http)
    assert "We offset &lt;b&gt;all&lt;/b&gt; of it." in html
    # Another format hides the text, and keeps it.
    await put(api, PAGES, {**SETTINGS, **custom, "description": "by_equivalent"})
    assert "We offset" not in await look(api.http)
    assert (await api.get(CURRENT)).json()["custom_description"] == custom["custom_description"]
    # A text that is set with the other endpoint, or in the dashboard, is shown.
    await put(api, PATH, {"title": "Still ours"})
    assert (await api.get(CURRENT)).json()["description"] == "by_equivalent"
    await put(api, PATH, {"description": "Another text"})
    assert (await api.get(CURRENT)).json()["description"] == "by_custom_description"
    assert "Another text" in await look(api.http)
    await put(api, PAGES, {**SETTINGS, "status": "disabled"})
    assert (await api.http.get(TEST_PAGE)).status_code == 404
    theirs = await api.as_key(world.theirs_test.key).post(PAGES, SETTINGS)
    assert (theirs.status_code, codes(theirs)) == (409, ["sustainability_page_slug_not_unique"])


async def test_settings_are_checked(api: ApiClient) -> None:
    for change, field in (
        ({"status": "on"}, "status"),
        ({"title": "by_name"}, "title"),
        ({"sections": ["timeline"]}, "sections[0]"),
        ({"sections": ["unsdg", "unsdg"]}, "sections"),
        ({"description": "by_custom_description"}, "custom_description"),
        ({"slug": "No"}, "slug"),
        ({"slug": None}, "slug"),
    ):
        refused = await api.post(PAGES, {**SETTINGS, **change})
        assert (refused.status_code, codes(refused)[0], fields(refused)[0]) == (400, "validation_error", field)

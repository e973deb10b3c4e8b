"""A Sustainability page as JSON, and what the settings of other clients change on the page."""

from datetime import date
from typing import Any

import httpx

from tests.channels.public_pages.scene import TEST_PAGE, look, retire, words
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.public_pages.figures.figures import GRAMS_PER_FLIGHT, flights_of

PAGES = "/v1/sustainability-pages"
PUBLIC = f"{PAGES}/public"
SETTINGS: dict[str, Any] = {"status": "enabled", "slug": "our-forest", "title": "by_volume", "sections": []}


async def publish(api: ApiClient, method: str = "PUT", **change: Any) -> dict[str, Any]:
    """The page as everyone sees it after a change of its settings."""
    answer = await api.http.request(method, PAGES, json={**SETTINGS, **change}, headers=api._headers({}))
    assert answer.status_code < 300, answer.text
    return await read(api.http)


async def read(http: httpx.AsyncClient, path: str = f"{PUBLIC}/test/our-forest") -> dict[str, Any]:
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "public, max-age=60"
    page: dict[str, Any] = answer.json()
    return page


async def retire_from_catalogue(services: Services, world: World) -> dict[str, Any]:
    """Two bundles of the catalogue, each with a project that has goals. Returns what the page counts."""
    async with services.database.transaction() as tx:
        rows = await tx.fetch(
            "SELECT DISTINCT ON (bundle.id) bundle.id AS bundle, bundle.name AS bundle_name, project.id AS project, "
            "project.name AS project_name FROM bundles bundle "
            "JOIN bundle_projects share ON share.bundle_id = bundle.id "
            "JOIN projects project ON project.id = share.project_id WHERE bundle.mode = 'test' AND bundle.enabled "
            "ORDER BY bundle.id, project.id LIMIT 2"
        )
        goals: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            goals[row["project"]] = [7, 13] if number == 0 else [13]
            await tx.execute(
                "UPDATE projects SET details = jsonb_set(details, '{un_sdg}', $2::jsonb) WHERE id = $1",
                row["project"],
                str(goals[row["project"]]),
            )
        await tx.execute("UPDATE catalogues SET version = version + 1 WHERE mode = 'test'")
    scope, month = world.ours_test.scope, date(2026, 11, 1)
    for row, grams in zip(rows, (7_500_000, 2_500_000), strict=True):
        await retire(
            services,
            scope,
            month,
            grams,
            bundle=(row["bundle"], row["bundle_name"]),
            project=(row["project"], row["project_name"]),
        )
    return {"bundles": [row["bundle"] for row in rows], "projects": len(goals)}


async def test_the_page_as_json_shows_what_its_settings_choose(
    services: Services, api: ApiClient, world: World
) -> None:
    counted = await retire_from_catalogue(services, world)
    page = await publish(api, "POST")
    assert page == {
        "account_name": "account test",
        "logo": None,
        "organisation_logo": None,
        "title": {"format": "by_volume", "quantity": "10"},
        "description": None,
        "bundles": None,
        "un_sdg": None,
        "include_certificates": False,
    }
    page = await publish(api, sections=["bundles_breakdown", "certificates", "unsdg"], description="by_supported_goals")
    assert [(each["bundle"]["id"], each["quantity"], each["percent_of_total"]) for each in page["bundles"]] == [
        (counted["bundles"][0], "7.5", 75.0),
        (counted["bundles"][1], "2.5", 25.0),
    ]
    assert page["bundles"][0]["bundle"]["projects"]
    assert page["un_sdg"] == [{"un_sdg_number": 7, "occurrences": 1}, {"un_sdg_number": 13, "occurrences": 2}]
    assert page["description"] == {"format": "by_supported_goals", "number_of_un_sdgs": 2, "number_of_projects": 2}
    assert page["include_certificates"] is True
    html = words(await look(api.http))
    assert "Goals that the projects contribute to: 2. Projects: 2." in html
    assert "Goal 7 1 project Goal 13 2 projects" in html
    # Ten tonnes are fifteen flights of 648 kg.
    page = await publish(api, description="by_equivalent", custom_description="Hidden")
    assert page["description"] == {"format": "by_equivalent", "flights_nyc_to_london": "15"}
    html = words(await look(api.http))
    assert "About as much as the emissions of 15 flights from New York to London" in html
    assert "Hidden" not in html
    assert "Goal 7" not in html
    assert "15 Flügen von New York" in words(await look(api.http, language="de"))
    page = await publish(api, description="by_custom_description", custom_description="Ours")
    assert page["description"] == {"format": "by_custom_description", "custom_description": "Ours"}


async def test_the_total_can_be_what_was_paid(services: Services, api: ApiClient, world: World) -> None:
    await retire_from_catalogue(services, world)
    order = await api.order()
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE orders SET status = 'complete', refunded_minor = 100 WHERE id = $1", order["id"])
    page = await publish(api, "POST", title="by_price")
    paid = f"{float(order['total_cost']) - 1:.2f}"
    assert page["title"] == {"format": "by_price", "value": paid, "currency": "EUR"}
    html = words(await look(api.http))
    assert f"€{paid} paid for carbon credits retired on behalf of Beneficiary" in html
    assert "of CO₂ equivalent, as carbon credits" not in html
    assert "of CO₂ equivalent" in html
    # An order that is not complete was not retired yet.
    await api.order()
    assert (await read(api.http))["title"]["value"] == paid


async def test_a_page_is_found_by_handle_and_only_while_it_is_public(api: ApiClient, world: World) -> None:
    scope = world.ours_test.scope
    account = f"/v1/accounts/{scope.account_id}"

    async def change(**body: Any) -> None:
        answer = await api.http.patch(account, json=body, headers=api._headers({}))
        assert answer.status_code == 200, answer.text

    await change(handle="Our-Forest")
    by_slug, by_handle = f"{PUBLIC}/test/our-forest", f"{PUBLIC}/{scope.organisation_id}/test/our-forest"
    await publish(api, "POST")
    assert await read(api.http, by_handle) == await read(api.http, by_slug)
    for path in (
        f"{PUBLIC}/live/our-forest",
        f"{PUBLIC}/other/our-forest",
        f"{PUBLIC}/test/other",
        f"{PUBLIC}/{world.theirs_test.scope.organisation_id}/test/our-forest",
        f"{PUBLIC}/{scope.organisation_id}/live/our-forest",
    ):
        assert codes(await api.http.get(path)) == ["sustainability_page_not_found"], path
    await change(external_pages_visibility="hidden")
    assert (await api.http.get(by_slug)).headers["x-robots-tag"] == "noindex"
    await change(external_pages_visibility="private")
    assert [(await api.http.get(path)).status_code for path in (by_slug, by_handle, TEST_PAGE)] == [404] * 3
    await change(external_pages_visibility="public")
    assert "x-robots-tag" not in (await api.http.get(by_slug)).headers
    answer = await api.http.put(PAGES, json={**SETTINGS, "status": "disabled"}, headers=api._headers({}))
    assert answer.status_code == 200
    assert [(await api.http.get(path)).status_code for path in (by_slug, by_handle)] == [404] * 2


def test_flights_are_whole() -> None:
    assert [flights_of(grams) for grams in (0, GRAMS_PER_FLIGHT - 1, GRAMS_PER_FLIGHT, 10_000_000)] == [0, 0, 1, 15]

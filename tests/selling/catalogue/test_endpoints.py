"""The endpoints for bundles, projects and images."""

from typing import Any

import httpx

from tests.selling.catalogue.test_import_catalogue import run
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.bundle_store import switch_bundle
from tonne.selling.catalogue.imports.plan import FileKind

BUNDLE_FIELDS = [
    "id",
    "name",
    "slug",
    "description",
    "primary_image",
    "enabled",
    "currency",
    "unit_price",
    "gross_unit_price",
    "available_quantity",
    "created_at",
    "disabled",
    "offset_type",
    "approach",
    "carbon_permanence",
    "background_colour",
    "primary_image_hires",
    "small_thumbnail",
    "projects",
]
PROJECT_FIELDS = [
    "id",
    "name",
    "slug",
    "type",
    "mechanism",
    "country",
    "registry",
    "registry_project_id",
    "registry_url",
    "methodology",
    "description",
    "image",
    "created_at",
]
SUMMARY_FIELDS = [
    *PROJECT_FIELDS,
    *("short_name", "project_type", "country_code", "country_name", "region", "latitude", "longitude"),
    *("registry_name", "registry_link", "protocol", "additional_standards_met", "verifying_body"),
    *("registration_date", "crediting_start_date", "crediting_end_date", "avg_annual_emission_reductions"),
    *("durability", "risk_of_reversal", "risk_of_predicted_emissions", "results", "un_sdg", "disabled", "logo"),
    *("primary_image", "thumbnail_image", "media", "offset_type", "carbon_permanence", "oxford_type"),
]
FULL_FIELDS = [
    *SUMMARY_FIELDS,
    *("bundles", "carbon_credits", "quality_assessment", "timeline", "impact_summary"),
    *("carbon_storage_over_time", "datasets", "links_and_news"),
]
REGISTRIES = {
    *("American Carbon Registry", "Verra", "Puro.earth", "Gold Standard", "Climate Action Reserve"),
    *("Woodland Carbon Code", "ACCU", "Carbon Future", "Isometric", "Tuv Nord", ""),
}


async def read_all(api: ApiClient, path: str, limit: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after = ""
    while True:
        page = (await api.get(f"{path}?limit={limit}{after}")).json()
        assert (page["next_cursor"] is None) is (page["has_more"] is False)
        items += page["data"]
        if not page["has_more"]:
            return items
        assert len(page["data"]) == limit
        after = f"&after={page['next_cursor']}"


async def test_enabled_bundles_are_listed_with_all_fields(api: ApiClient, world: World) -> None:
    bundles = await read_all(api, "/v1/bundles", 100)
    assert {bundle["slug"]: bundle["id"] for bundle in bundles} == world.bundles_test
    for bundle in bundles:
        assert list(bundle) == BUNDLE_FIELDS
        assert (bundle["enabled"], bundle["currency"]) == (True, "EUR")
        assert bundle["projects"]
        assert sum(share["weight"] for share in bundle["projects"]) > 0
        assert bundle["primary_image"].startswith("http://tonne.test/")
        assert bundle["primary_image_hires"] == bundle["small_thumbnail"] == bundle["primary_image"]
        assert (bundle["disabled"], bundle["approach"] in {"traditional", "innovative"}) == (False, True)
        for share in bundle["projects"]:
            assert list(share) == [*SUMMARY_FIELDS, "project_id", "project_name", "project_slug", "weight"]
            assert (share["id"], share["name"], share["slug"]) == (
                share["project_id"],
                share["project_name"],
                share["project_slug"],
            )
        assert (await api.get(f"/v1/bundles/{bundle['id']}")).json() == bundle
    wind = next(bundle for bundle in bundles if bundle["slug"] == "wind-power")
    assert (wind["unit_price"], wind["gross_unit_price"]) == ("6.90", "7.67")
    kinds = {item["slug"]: (item["offset_type"], item["carbon_permanence"]) for item in bundles}
    assert kinds["wind-power"] == ("emissions_reduction", "no_storage")
    assert kinds["durable-removal"] == ("carbon_removal", "long_term")
    assert kinds["forest-mix"] == (None, "short_term")


async def test_an_order_costs_what_the_bundle_says(api: ApiClient, world: World) -> None:
    bundle = (await api.get(f"/v1/bundles/{world.bundles_test['wind-power']}")).json()
    selection = [{"bundle_id": bundle["id"]}]
    order = await api.order(bundle_selection=selection)
    [line] = order["bundles"]
    assert (line["unit_price"], line["gross_unit_price"]) == (bundle["unit_price"], bundle["gross_unit_price"])
    assert (order["offset_cost"], order["total_cost"]) == (bundle["unit_price"], bundle["gross_unit_price"])


async def test_projects_are_listed_with_all_fields(api: ApiClient) -> None:
    projects = await read_all(api, "/v1/projects", 100)
    assert len(projects) >= 10
    for project in projects:
        assert list(project) == FULL_FIELDS
        assert (await api.get(f"/v1/projects/{project['id']}")).json() == project
        assert (await api.get(f"/v1/projects/by-slug/{project['slug']}")).json() == project
        assert project["registry_name"] in REGISTRIES
        assert (project["project_type"], project["registry_link"]) == (project["type"], project["registry_url"])
        assert len(project["country_code"]) == 3
        assert isinstance(project["latitude"], float), "a number, as existing clients expect"
        assert [bundle["id"] for bundle in project["bundles"]]
        assert "projects" not in project["bundles"][0]
        assert project["disabled"] is not any(bundle["enabled"] for bundle in project["bundles"])
        assert (project["carbon_credits"]["inventory"] is None) is project["disabled"]
    answer = await api.get("/v1/projects/by-slug/no-such-project")
    assert (answer.status_code, codes(answer)) == (404, ["project_not_found"])


async def test_a_project_shows_its_details_and_its_supply(api: ApiClient, world: World, populated_db: Database) -> None:
    project = (await api.get("/v1/projects/by-slug/bale-mountains")).json()
    assert (project["country_code"], project["country_name"], project["registry_name"]) == ("ETH", "Ethiopia", "Verra")
    assert (project["latitude"], project["longitude"], project["un_sdg"]) == (6.75, 39.7, [1, 13, 15])
    header = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,slug"
    line = "Verra,VCS1,Without a place,France,Wind,,avoidance,1000000,without-place"
    await run(populated_db, {FileKind.PROJECTS: f"{header}\n{line}\n"})
    without_place = (await api.get("/v1/projects/by-slug/without-place")).json()
    assert (without_place["latitude"], without_place["longitude"]) == (46.62, 2.45), "the middle of France"
    assert (project["oxford_type"], project["offset_type"]) == (2, "emissions_reduction")
    assert project["media"][0]["url"].startswith("http://tonne.test/pictures/drawn/")
    assert [entry["year"] for entry in project["timeline"]] == [2021, 2015]
    assert [entry["year"] for entry in project["carbon_storage_over_time"]] == [2019, 2021]
    assert set(project["quality_assessment"]) == {
        *("durability", "additionality", "measurement", "risk_mitigation", "cobenefits")
    }
    assert set(project["links_and_news"]) == {"links", "news"}
    live = api.as_key(world.ours_live.key)
    credits_on_sale = (await live.get("/v1/projects/by-slug/bale-mountains")).json()["carbon_credits"]
    # The cheapest of its bundles on sale: forest-mix.
    price = {"value": "12.65", "currency": "EUR"}
    assert credits_on_sale == {
        "offset_delivery": "ex_post",
        "retirement_timeframe": "near_term",
        "inventory": [
            {"vintage": "2021", "quantity": 600_000, "price": price},
            {"vintage": "2019", "quantity": 400_000, "price": price},
        ],
    }


async def test_every_project_of_a_bundle_can_be_read(api: ApiClient) -> None:
    for bundle in await read_all(api, "/v1/bundles", 100):
        for share in bundle["projects"]:
            project = (await api.get(f"/v1/projects/{share['project_id']}")).json()
            assert (project["name"], project["slug"]) == (share["project_name"], share["project_slug"])


async def test_pages_of_any_size_give_the_same_list(api: ApiClient) -> None:
    for path in ("/v1/bundles", "/v1/projects"):
        whole = await read_all(api, path, 100)
        for limit in (1, 2, 3, len(whole)):
            assert await read_all(api, path, limit) == whole
        order = [(item["created_at"], item["id"]) for item in whole]
        assert order == sorted(order, reverse=True)


async def test_a_disabled_bundle_is_not_listed_but_can_be_read(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    bundle = world.bundles_test["wind-power"]
    async with populated_db.transaction() as tx:
        await switch_bundle(tx, bundle, enabled=False, by=TESTER.now())
    listed = {item["id"] for item in await read_all(api, "/v1/bundles", 100)}
    assert listed == set(world.bundles_test.values()) - {bundle}
    for off_sale in (bundle, world.disabled_bundle_test):
        answer = await api.get(f"/v1/bundles/{off_sale}")
        assert (answer.status_code, answer.json()["enabled"], answer.json()["disabled"]) == (200, False, True)
    # Of the two, one was never on sale.
    recent = await api.get("/v1/bundles?limit=100&recently_disabled=true")
    assert {item["id"] for item in recent.json()["data"]} == set(world.bundles_test.values())
    projects = {
        flag: await listed_projects(api, flag) for flag in ("", "&recently_disabled=true", "&recently_disabled=false")
    }
    # One of the two wind farms is in another bundle that is on sale.
    assert projects["&recently_disabled=true"] - projects["&recently_disabled=false"] == {"andhra-lake-wind"}
    assert projects[""] - projects["&recently_disabled=true"] == {"tradewater-middle-east"}
    async with populated_db.transaction() as tx:
        await tx.execute("UPDATE bundles SET disabled_at = disabled_at - interval '31 days'")
        await tx.execute("UPDATE catalogues SET version = version + 1")
    assert len((await api.get("/v1/bundles?limit=100&recently_disabled=true")).json()["data"]) == len(listed)
    for path in ("/v1/bundles", "/v1/projects"):
        answer = await api.get(f"{path}?recently_disabled=yes")
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"])


async def listed_projects(api: ApiClient, flag: str) -> set[str]:
    return {item["slug"] for item in (await api.get(f"/v1/projects?limit=100{flag}")).json()["data"]}


async def test_ids_of_the_other_mode_are_not_found(api: ApiClient, world: World) -> None:
    live = api.as_key(world.ours_live.key)
    assert {bundle["id"] for bundle in await read_all(live, "/v1/bundles", 100)} == set(world.bundles_live.values())
    project = (await live.get("/v1/projects?limit=1")).json()["data"][0]["id"]
    bundle = next(iter(world.bundles_live.values()))
    for path, code in ((f"/v1/bundles/{bundle}", "bundle_not_found"), (f"/v1/projects/{project}", "project_not_found")):
        answer = await api.get(path)
        assert (answer.status_code, codes(answer)) == (404, [code])
        assert without_request_id(answer) == without_request_id(await api.get(path[:-5] + "00000"))


def without_request_id(answer: httpx.Response) -> str:
    return answer.text.replace(answer.headers["x-request-id"], "")


async def test_the_images_of_the_demo_catalogue_are_served(api: ApiClient) -> None:
    for bundle in await read_all(api, "/v1/bundles", 100):
        answer = await api.http.get(bundle["primary_image"])
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
        assert answer.headers["content-security-policy"] == "default-src 'none'"
        assert answer.content.startswith(b"<svg")
    for name in ("unknown.svg", "..%2Fbundles.csv", "%2e%2e%2fbundles.csv", "forest-mix", "%00", "bundles.csv"):
        answer = await api.http.get(f"/images/bundles/{name}")
        assert (answer.status_code, codes(answer)) in ((404, ["image_not_found"]), (404, ["route_not_found"])), name


async def test_a_future_rate_applies_from_its_time_on(api: ApiClient, world: World, populated_db: Database) -> None:
    """The cached catalogue must be refreshed when another rate becomes the newest."""
    async with populated_db.transaction() as tx:
        await tx.execute("UPDATE accounts SET currency = 'USD' WHERE id = $1", world.ours_test.scope.account_id)
        await tx.execute(
            "INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source)"
            " VALUES ($1, 'EUR', 'USD', now() + interval '1 hour', 2, 'test')",
            Mode.TEST,
        )
        await tx.execute("UPDATE catalogues SET version = version + 1")
    path = f"/v1/bundles/{world.bundles_test['wind-power']}"
    assert (await api.get(path)).json()["unit_price"] == "7.45"
    async with populated_db.transaction() as tx:
        # As if the hour had passed: the catalogue's version stays the same.
        await tx.execute("UPDATE exchange_rates SET as_of = now() WHERE as_of > now()")
    assert (await api.get(path)).json()["unit_price"] == "13.80"

"""`python -m bench dashboard` measures every page, and fails if it cannot."""

import pytest

from bench.dashboard.pages import SAMPLES, SPECIAL_SAMPLES, find_pages, page_routes, parameters_of, require_samples
from bench.dashboard.run import Cost, page_line, results, summary
from bench.report import NotMeasured
from tests.support.world import World
from tonne.apps.wiring.app import Services


def test_every_page_of_the_dashboard_has_a_sample(services: Services) -> None:
    pages = page_routes(services.routes())
    assert ("organisation", "/overview") in pages
    assert ("operator", "/today") in pages
    require_samples(pages)


def test_samples_without_a_page_are_removed(services: Services) -> None:
    used = {parameter for _, name in page_routes(services.routes()) for parameter in parameters_of(name)}
    assert set(SAMPLES) - used == set()


def test_a_page_without_a_sample_voids_the_run() -> None:
    with pytest.raises(NotMeasured, match=r"/things/\{thing_id\} needs thing_id"):
        require_samples([("organisation", "/things/{thing_id}")])


async def test_every_sample_is_a_query_and_a_missing_object_voids_the_run(services: Services, world: World) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    async with services.database.connection() as connection:
        for query in (*SAMPLES.values(), *SPECIAL_SAMPLES.values()):
            await connection.fetchval(query, organisation_id, "live")
        with pytest.raises(NotMeasured, match="There is no user_id for"):
            await find_pages(connection, [("organisation", "/people/{user_id}")], organisation_id)
        [page] = await find_pages(connection, [("operator", "/today")], organisation_id)
    assert page.path == "/operator/live/today"


def test_the_limits_of_a_page() -> None:
    cheap, dear = Cost(2.0, 20.0), Cost(120.0, 300.0)
    assert [result.verdict for result in results("page", cheap, cheap)] == ["reached"] * 3
    assert [result.verdict for result in results("page", cheap, dear)] == ["MISSED"] * 3
    # A few milliseconds cannot be compared.
    assert results("page", Cost(1.0, 20.0), Cost(4.9, 20.0))[1].verdict == "reached"


def test_each_page_has_one_line_and_the_summary_the_worst() -> None:
    small = {("operator", "/today"): Cost(10.0, 20.0), ("operator", "/jobs"): Cost(10.0, 20.0)}
    large = {("operator", "/today"): Cost(120.0, 20.0), ("operator", "/jobs"): Cost(11.0, 30.0)}
    line = page_line("operator/today", small["operator", "/today"], large["operator", "/today"])
    assert " ".join(line.split()) == "operator/today 10.0 ms 120.0 ms 12.00 20 KB MISSED: CPU, growth"
    assert [(each.name, each.verdict) for each in summary(small, large)] == [
        ("operator/today", "MISSED"),
        ("operator/today growth", "MISSED"),
        ("operator/jobs size", "reached"),
    ]

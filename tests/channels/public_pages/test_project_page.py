"""The public page of a project, and the pages that link to it."""

import re
from html import unescape

import httpx

from tests.channels.checkout.scene import work
from tests.channels.checkout.shopper import Shopper, make_link
from tests.channels.public_pages.certificates import complete_order, record_of, show_page
from tests.channels.public_pages.scene import TEST_PAGE, set_up
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services

PROJECT = re.compile(r'href="(/projects/test/[\w-]+)"')


async def test_a_certificate_leads_to_the_story_of_its_projects(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, world: World
) -> None:
    await show_page(services, world.ours_test.scope)
    record = await record_of(services, number := await complete_order(api, services))
    links = set(PROJECT.findall((await browser.get(f"/certificates/{number}")).text))
    assert len(links) == len({line.project_name for line in record.lines})
    # Certificates name a project by its id, which leads to the page of its present slug, in its own mode only.
    moved = [await browser.get(link) for link in links]
    assert {answer.status_code for answer in moved} == {303}
    paths = {answer.headers["location"] for answer in moved}
    assert len(paths) == len(links)
    assert not paths & links
    for link in links:
        assert (await browser.get(link.replace("/test/", "/"))).status_code == 404
    for path in paths:
        answer = await browser.get(path)
        page = unescape(answer.text)
        [line] = [each for each in record.lines if f">{each.project_name}</h1>" in page][:1]
        tonnes = sum(float(each.quantity) for each in record.lines if each.project_name == line.project_name)
        for fact in (
            line.registry,
            line.project_id,
            line.project_type,
            line.vintage,
            "with one certificate",
            "Test mode.",
        ):
            assert fact in page, fact
        assert f'title="{tonnes:g}\u00a0t"' in page
        assert re.search('class="badge (removal|avoidance)"', page)
        assert f'content="http://tonne.test{path}"' in page
        assert answer.headers["cache-control"] == "public, max-age=300"
    image = await browser.get("/social/project.png")
    assert (image.status_code, image.content[:4]) == (200, b"\x89PNG")
    # The same project of live mode has sold nothing, and others do not exist.
    live = await browser.get(next(iter(paths)).replace("/test/", "/"))
    assert "Nothing of this project was retired here yet." in live.text
    for unknown in ("/projects/none", "/projects/test/none", "/projects/test/Ä"):
        assert (await browser.get(unknown)).status_code == 404
    assert "Hier stillgelegt" in (await browser.get(path, params={"lang": "de"})).text


async def test_checkout_order_and_sustainability_page_link_to_projects(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, world: World
) -> None:
    shopper = Shopper(browser)
    link = await make_link(services, world.ours_test.scope)
    await shopper.pay(address := await shopper.begin(link))
    await work(services)
    for answer in (await shopper.open(f"/offset/{link.id}"), await shopper.open(address)):
        assert PROJECT.search(answer.text), answer.url
        [path, *_] = PROJECT.findall(answer.text)
        assert (await browser.get(path)).status_code == 200
    await set_up(api)
    await complete_order(api, services)
    assert PROJECT.search((await browser.get(TEST_PAGE)).text)

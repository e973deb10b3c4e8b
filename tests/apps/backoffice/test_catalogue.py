"""Catalogue and prices: margins, prices at once and later, bundles on and off sale, imports with a preview."""

import io

import httpx
import pytest
from PIL import Image

from tests.apps.backoffice.supply_shop import actions_of_users, upload, words
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.people import TOKEN, Person
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.prices.apply_price_changes import ApplyPriceChanges

CATALOGUE = "/operator/live/catalogue"
LOTS = (
    "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,retired_on,"
    "unit_cost,cost_currency\nOur Registry,VCS1,2021,B-1,1,10,held,,,6.00,EUR\n"
    "Our Registry,VCS2,2021,B-2,1,10,held,,,10.00,EUR"
)


@pytest.fixture
async def shop(services: Services, world: World, clock: ManualClock) -> Shop:
    shop = Shop(services, world, clock, Mode.LIVE)
    await shop.sell("wind", {"VCS1": 3, "VCS2": 1}, price="10.00")
    return shop


async def bundle_path(shop: Shop) -> str:
    return f"{CATALOGUE}/bundles/{shop.bundle_id('wind')}"


async def price_of(shop: Shop) -> int:
    sql = "SELECT unit_price_minor FROM bundles WHERE mode = 'live' AND slug = 'wind'"
    return int(await shop.fetchval(sql))


async def test_bundles_have_margins_and_rates_an_age(olga: Person, shop: Shop) -> None:
    path = await bundle_path(shop)
    assert "Not known: 2 of 2 projects" in words(await olga.get(path))
    staged = await upload(olga, "/operator/live/supply", "/operator/live/supply/import", ("lots", "l.csv", LOTS))
    await olga.submit(f"{staged.headers['location']}/apply")
    # Three parts of 6.00 and one of 10.00.
    page = words(await olga.get(path))
    assert "€7.00 average of the free credits" in page
    assert "€3.00 30 %" in page
    assert "Project VCS1 75.0 %" in page
    await shop.execute("UPDATE exchange_rates SET as_of = as_of - interval '400 days' WHERE mode = 'live'")
    listed = words(await olga.get(CATALOGUE))
    assert "The wind On sale" in listed
    assert "Too old" in listed
    assert "Minimum orders" in listed
    assert (await olga.get(f"{CATALOGUE}/bundles/bun_1")).status_code == 404
    assert (await olga.get(path.replace("/live/", "/test/"))).status_code == 404


async def test_a_price_changes_at_once_or_later(olga: Person, shop: Shop, clock: ManualClock) -> None:
    path, job = await bundle_path(shop), ApplyPriceChanges(shop.database, clock)
    before = await shop.buy(await shop.account("Ada"), TONNE, "wind")
    refused = words(await olga.submit(f"{path}/price", price="0", starts_at="2020-01-01T00:00"))
    assert "Enter a price above 0" in refused
    assert "This time is over" in refused
    assert "Use at most 2 decimals" in words(await olga.submit(f"{path}/price", price="9.999"))
    assert "This is the price already" in words(await olga.submit(f"{path}/price", price="10"))
    asked = words(await olga.submit(f"{path}/price", price="12,50"))
    assert "At once, a tonne of The wind costs 12.50 EUR" in asked
    assert await price_of(shop) == 1000
    done = await olga.submit(f"{path}/price", price="12,50", confirmed="1")
    assert done.headers["location"] == f"{path}?done=price_changed"
    assert await price_of(shop) == 1250
    # Later: scheduled, shown, applied by the job.
    later = {"price": "15", "starts_at": "2026-11-01T20:00"}
    assert "From 01 November 2026, 20:00 UTC on" in words(await olga.submit(f"{path}/price", **later))
    await olga.submit(f"{path}/price", **later, confirmed="1")
    twice = await olga.submit(f"{path}/price", **later, confirmed="1")
    assert "already gets a new price at this time" in words(twice)
    assert "Scheduled" in words(await olga.get(CATALOGUE))
    assert not await job.run_once()
    clock.advance(hours=12)
    assert await job.run_once()
    assert not await job.run_once()
    assert await price_of(shop) == 1500
    assert "Applied" in words(await olga.get(path))
    # Cancelled before its time.
    await olga.submit(f"{path}/price", price="99", starts_at="2026-12-01T00:00", confirmed="1")
    change = await shop.fetchval("SELECT id FROM price_changes WHERE next_attempt_at IS NOT NULL")
    assert "does not become 99.00 EUR" in words(await olga.submit(f"{path}/cancel-price", change=change))
    await olga.submit(f"{path}/cancel-price", change=change, confirmed="1")
    assert (await olga.submit(f"{path}/cancel-price", change=change, confirmed="1")).status_code == 404
    clock.advance(days=60)
    assert not await job.run_once()
    assert await price_of(shop) == 1500
    # Orders keep their price.
    paid = "SELECT unit_price_minor FROM order_lines WHERE order_id = $1"
    assert await shop.fetchval(paid, before.id) == 1000
    made = await actions_of_users(shop)
    assert made.count("price_change.scheduled") == 3
    assert {"bundle.changed", "price_change.cancelled"} <= set(made)
    jobs = "SELECT count(*) FROM audit_log WHERE actor = 'system:apply_price_changes' AND action = 'bundle.changed'"
    assert await shop.fetchval(jobs) == 1


async def test_a_bundle_is_taken_off_sale(olga: Person, shop: Shop) -> None:
    path = f"{await bundle_path(shop)}/switch"
    assert "cannot be ordered any more" in words(await olga.submit(path, enabled="0"))
    done = await olga.submit(path, enabled="0", confirmed="1")
    assert "Off sale" in words(await olga.get(done.headers["location"]))
    assert "can be ordered within seconds" in words(await olga.submit(path, enabled="1"))
    await olga.submit(path, enabled="1", confirmed="1")
    assert await actions_of_users(shop) == ["bundle.disabled", "bundle.enabled"]


async def test_the_catalogue_is_imported_after_a_preview(olga: Person, shop: Shop) -> None:
    path, heads = f"{CATALOGUE}/import", "slug,name,description,primary_image,unit_price,enabled,position"
    assert "Choose at least one CSV file" in words(await upload(olga, CATALOGUE, path))
    rows = f"{heads}\nwind,The wind,,,11.00,true,5\nsun,The sun,,,20.00,false,6"
    rates = "base,quote,rate,source,as_of\nEUR,USD,115,Bank,2026-11-01"
    files = (("bundles", "b.csv", rows), ("exchange_rates", "r.csv", rates))
    preview = (await upload(olga, CATALOGUE, path, *files)).headers["location"]
    wrong = words(await olga.get(preview))
    assert "exchange_rates.csv 2 rate" in wrong
    assert "correct it, or accept it if it is right." in wrong
    assert "--allow" not in wrong, "that is for the command line"
    assert "Import" not in wrong.partition("Are the exchange rates right?")[2]
    refused = await olga.submit(f"{preview}/accept-rates")
    assert (refused.status_code, "Tick the box if the rates are right." in words(refused)) == (422, True)
    accepted = await olga.submit(f"{preview}/accept-rates", allow_large_change="1")
    assert accepted.headers["location"] == preview
    shown = words(await olga.get(preview))
    assert "Exchange rates are accepted although they differ much" in shown
    at_once = (await upload(olga, CATALOGUE, path, *files, allow_large_change="1")).headers["location"]
    assert words(await olga.get(at_once)) == shown
    assert "bundles.csv: 1 new, 1 changed" in shown
    assert "unit price: 10 11" in shown
    assert "sun New" in shown
    assert await price_of(shop) == 1000
    await olga.submit(f"{preview}/apply")
    assert await price_of(shop) == 1100
    assert "Show the catalogue" in words(await olga.get(preview))
    assert "catalogue.imported" in await actions_of_users(shop)


async def test_a_picture_is_uploaded_and_removed(olga: Person, shop: Shop) -> None:
    path, subject = f"{CATALOGUE}/pictures", f"bundle:{shop.bundle_id('wind')}"
    file = io.BytesIO()
    Image.new("RGB", (800, 600), "#336699").save(file, "JPEG")

    async def send(content: bytes, **fields: str) -> httpx.Response:
        token = TOKEN.search((await olga.get(path)).text)
        assert token is not None
        return await olga.http.post(
            path, data={"form_token": token[1], **fields}, files={"picture": ("a.jpg", content)}
        )

    assert "no JPEG, PNG or WebP" in words(await send(b"no picture", subject=subject))
    assert "Choose a bundle or a project" in words(await send(file.getvalue()))
    assert (await send(file.getvalue(), subject=subject)).headers["location"].endswith("?done=picture_changed")
    shown = (await olga.get(f"{path}?done=picture_changed")).text
    digest = await shop.fetchval("SELECT picture FROM bundles WHERE mode = 'live' AND slug = 'wind'")
    assert f'src="/pictures/{digest}/card.webp"' in shown
    removed = await olga.submit(f"{path}/remove", subject=subject)
    assert removed.headers["location"].endswith("?done=picture_removed")
    assert await shop.fetchval("SELECT count(*) FROM pictures") == 0


async def test_a_public_export_asks_for_what_it_does_not_say(olga: Person, shop: Shop) -> None:
    supply = "/operator/live/supply"
    rows = "No,Code,Year,Tonnes\nB-9 1–10,VCS1,2021,10\nB-8 1–10,VCS77,2021,10\n"
    asked = await upload(olga, supply, f"{supply}/import", ("lots", "e.csv", rows))
    page = words(asked)
    assert "these are not the columns of lots.csv or of a known export" in page
    assert "Column of the serial" in page
    chosen = {"registry": "Our Registry", "column_serial": "No", "column_project": "Code"}
    chosen |= {"column_vintage": "Year", "column_quantity": "Tonnes"}
    unsaid = words(await upload(olga, supply, f"{supply}/import", ("lots", "e.csv", rows), **chosen))
    assert "nobody said that you hold these units: 1" in unsaid
    staged = await upload(olga, supply, f"{supply}/import", ("lots", "e.csv", rows), held="1", **chosen)
    preview = words(await olga.get(staged.headers["location"]))
    assert "1 new" in preview
    await olga.submit(f"{staged.headers['location']}/apply")
    assert await shop.fetchval("SELECT status FROM lots WHERE vintage = 2021") == "held"
    assert "of projects that are not in the catalogue: 1" in preview


async def test_facts_of_a_project_and_a_lot_are_entered_in_forms(olga: Person, shop: Shop) -> None:
    lot_id = await shop.supply("VCS1", 2021, 5)
    project_id = await shop.fetchval("SELECT project_id FROM lots WHERE id = $1", lot_id)
    before = await shop.fetchval("SELECT to_jsonb(projects) - 'details' FROM projects WHERE id = $1", project_id)
    path, lot_path = f"/operator/live/supply/projects/{project_id}/facts", f"/operator/live/supply/lots/{lot_id}/facts"
    facts = {"mechanism": "avoidance", "methodology": "ACM2", "sink": "biogenic", "durability_years": "40"}
    ratings = "Example Ratings ; AA ; 2026-01-31 ; https://ratings.example/a"
    staged = await olga.submit(path, **facts, ratings=f"{ratings}\r\n{ratings.replace('AA', 'B')}")
    preview = words(await olga.get(staged.headers["location"]))
    assert "projects.csv: 0 new, 1 changed" in preview
    await olga.submit(f"{staged.headers['location']}/apply")
    assert await shop.fetchval("SELECT details ->> 'sink' FROM projects WHERE id = $1", project_id) == "biogenic"
    assert before == await shop.fetchval(
        "SELECT to_jsonb(projects) - 'details' FROM projects WHERE id = $1", project_id
    )
    shown = (await olga.get(path)).text
    assert "AA ; 2026-01-31 ; https://ratings.example/a\nExample Ratings ; B" in shown
    staged = await olga.submit(lot_path, labels="icvcm_ccp ; Verra ; 2026-02-03", article_6="none")
    assert "article_6_source" in words(await olga.get(staged.headers["location"]))
    told = {"article_6_source": "Kenya", "article_6_date": "2026-01-01"}
    staged = await olga.submit(lot_path, labels="icvcm_ccp ; Verra ; 2026-02-03", article_6="none", **told)
    await olga.submit(f"{staged.headers['location']}/apply")
    assert "icvcm_ccp" in await shop.fetchval("SELECT facts FROM lots WHERE id = $1", lot_id)
    # Unchanged forms change nothing.
    staged = await olga.submit(lot_path, labels="icvcm_ccp ; Verra ; 2026-02-03", article_6="none", **told)
    assert "Nothing would change" in words(await olga.get(staged.headers["location"]))

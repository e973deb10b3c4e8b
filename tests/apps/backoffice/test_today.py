"""The operator's area: who may enter it, and what Today shows."""

from collections.abc import Callable
from datetime import timedelta

from tests.apps.dashboard.menu_marks import unmarked_entries
from tests.support.clock import ManualClock
from tests.support.command import tonne
from tests.support.orders import place
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.backoffice.today_page import HEADINGS, OBJECT_PAGES, TODAY_CHECKS, slug_of
from tonne.apps.dashboard.menu import OPERATOR_MENU
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now
from tonne.supply.stock.note_supply import NoteSupply

MakePerson = Callable[[], Person]
TODAY = "/operator/live/today"
UNMATCHED = """
INSERT INTO bank_transfers (id, mode, format, booked_on, amount_minor, currency, payer, reference, state, imported_at,
                            imported_by)
SELECT 'trf_' || lpad(number::text, 26, '0'), 'live', 'csv', '2026-10-30', 123456, 'EUR', '<b>Payer</b>', 'x',
       'unmatched', '2026-10-31', 'cli:test'
FROM generate_series(1, 120) AS number
"""


async def test_the_operator_arrives_at_today(olga: Person) -> None:
    assert (await olga.get("/operator")).headers["location"] == TODAY
    assert (await olga.get("/operator/test")).headers["location"] == "/operator/test/today"
    assert "Nothing to do" in (await olga.get("/operator/test/today")).text


async def test_the_menu_marks_the_page_that_is_shown(olga: Person) -> None:
    assert await unmarked_entries(olga, "/operator/live", OPERATOR_MENU) == []


async def test_others_do_not_enter_the_operator_area(services: Services, person: MakePerson, world: World) -> None:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    await add_user(services, "weak@tonne.test")
    ann, weak = person(), person()
    await ann.sign_in("ann@ours.test")
    await weak.sign_in("weak@tonne.test")
    paths = [route.path for route in services.routes() if route.path.startswith("/operator") and route.method == "GET"]
    assert TODAY in paths
    for path in paths:
        assert (await ann.get(path)).status_code == 404, path
        assert (await weak.get(path)).headers["location"] == "/dashboard/you?done=second_factor_needed", path
        assert (await person().get(path)).headers["location"].startswith("/dashboard/sign-in?next="), path


async def test_what_waits_is_listed_with_links_and_amounts(olga: Person, services: Services) -> None:
    assert HEADINGS.keys() >= {check.topic for check in TODAY_CHECKS}
    paths = {route.path.removeprefix("/operator/live") for route in services.routes() if route.method == "GET"}
    assert {heading.path.partition("?")[0] for heading in HEADINGS.values()} <= paths
    assert all(any(each.startswith(f"{page}/{{") for each in paths) for page in OBJECT_PAGES.values())
    assert len({slug_of(check) for check in TODAY_CHECKS}) == len(TODAY_CHECKS)
    async with services.database.transaction() as tx:
        await tx.execute(UNMATCHED)
    page = (await olga.get(TODAY)).text
    assert "Unmatched money" in page
    assert "100+" in page
    assert "1234.56 EUR from &lt;b&gt;Payer&lt;/b&gt;" in page
    assert f'href="/operator/live/money/transfers/trf_{1:026}"' in page
    [all_of_them] = {part.partition('"')[0] for part in page.split('href="') if part.startswith(f"{TODAY}/")}
    assert (await olga.get(all_of_them)).text.count("1234.56 EUR") == 120
    assert (await olga.get(f"{TODAY}/no-such-check")).status_code == 404
    assert (await olga.get(all_of_them.replace("/live/", "/test/"))).status_code == 404


async def test_a_backorder_is_shown_after_an_hour_as_in_the_list_of_stuck_orders(
    olga: Person, services: Services, world: World, clock: ManualClock
) -> None:
    order = await place(services, world.ours_live.scope, clock())
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE lots SET allocated_grams = quantity_grams WHERE mode = 'live'")
        await tx.execute(
            "UPDATE orders SET status = 'paid', status_changed_at = $1, next_attempt_at = $1 WHERE id = $2",
            clock(),
            order.id,
        )
    await services.allocate_orders.run_once()
    clock.advance(minutes=59)
    assert order.id not in (await olga.get(TODAY)).text
    clock.advance(minutes=2)
    stuck = "/operator/live/orders?stuck=1"
    page = (await olga.get(TODAY)).text
    assert f'href="/operator/live/orders/{order.id}"' in page
    assert f'href="{stuck}"' in page.partition("Orders that wait")[2]
    listed = (await olga.get(stuck)).text
    assert order.id in listed
    assert "Waits for supply" in listed


async def test_the_last_run_of_the_doctor_is_shown(olga: Person, services: Services, clock: ManualClock) -> None:
    assert "The doctor has not run yet." in (await olga.get(TODAY)).text
    url = services.database._url
    tonne("doctor", "--only", "secrets", database_url=url)
    assert "The doctor has not run yet." in (await olga.get(TODAY)).text, "a part of the checks is no run"
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE event_streams SET last_position = last_position + 1")
    assert tonne("doctor", database_url=url).returncode == 1
    page = (await olga.get(TODAY)).text
    assert "Data is inconsistent" in page
    assert "more than two days ago" not in page
    clock.now = utc_now() + timedelta(days=3)
    await olga.sign_in("olga@tonne.test")
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE user_sessions SET is_complete = true, is_strong = true")
    assert "more than two days ago" in (await olga.get(TODAY)).text


async def test_short_supply_is_shown_with_weeks_of_cover(olga: Person, services: Services, clock: ManualClock) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE lots SET allocated_grams = 0")
    note = NoteSupply(services.database, clock)
    await note.run_once()
    # A quarter is sold in a week: the rest lasts three.
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE lots SET allocated_grams = quantity_grams / 4")
        await tx.execute("UPDATE supply_days SET day = day - 7")
    assert "Short supply" not in (await olga.get(TODAY)).text
    await note.run_once()
    await note.run_once()
    page = (await olga.get(TODAY)).text
    assert "at the sales of the last 7 days" in page
    assert "3.0 weeks" in page
    assert "Short supply" not in (await olga.get(TODAY.replace("live", "test"))).text


async def test_a_mail_that_was_given_up_is_sent_again_or_discarded(olga: Person, services: Services) -> None:
    async with services.database.transaction() as tx:
        organisation_id = await tx.fetchval("SELECT id FROM organisations LIMIT 1")
        for number in (1, 2):
            await tx.execute(
                "INSERT INTO mails (id, organisation_id, recipients, message, created_at, attempts, last_error) "
                "VALUES ($1, $2, '{a@b.test}', $3, now(), 8, 'no such <user>')",
                f"mail_{number}",
                organisation_id,
                b"Subject: Your <certificate>\r\n\r\nHello",
            )
    assert "no such &lt;user&gt;" in (await olga.get(TODAY)).text
    mails = "/operator/live/mails"
    assert (await olga.get(mails)).text.count("Your &lt;certificate&gt;</bdi>") == 2
    assert "cannot be undone" in (await olga.get(f"{mails}/mail_1")).text
    assert (await olga.submit(f"{mails}/mail_1/retry")).headers["location"] == f"{mails}?done=mail_retried"
    assert (await olga.submit(f"{mails}/mail_2/discard")).headers["location"] == f"{mails}?done=mail_discarded"
    assert "No mail was given up." in (await olga.get(mails)).text
    assert (await olga.get(f"{mails}/mail_1")).status_code == 404
    assert (await olga.submit(f"{mails}/mail_2/retry")).status_code == 404
    async with services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT action, starts_with(actor, 'user:') AS by_user FROM audit_log WHERE subject_id LIKE 'mail_%' "
            "ORDER BY id"
        )
    assert [(row["action"], row["by_user"]) for row in rows] == [("mail.retried", True), ("mail.discarded", True)]

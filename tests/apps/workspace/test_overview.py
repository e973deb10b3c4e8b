"""The overview of an organisation: figures, charts, target, and what needs attention."""

import re
from collections.abc import Callable
from datetime import date, timedelta

import pytest

from tests.apps.dashboard.menu_marks import unmarked_entries
from tests.support.clock import ManualClock
from tests.support.orders import bring_to, place
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.dashboard.menu import ORGANISATION_MENU
from tonne.apps.wiring.app import Services
from tonne.apps.workspace.attention_store import RetiredShares
from tonne.apps.workspace.overview_page import RemovalShare, figures_of, removal_share
from tonne.platform.web.visitor import DEFAULT
from tonne.selling.accounts.set_target import YearlyTarget
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.totals.totals import OrderTotal
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
ANN = "ann@ours.test"


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in(ANN)
    return ann


async def text_of(person: Person, path: str) -> str:
    """The page as a reader sees it, without tags."""
    answer = await person.get(path)
    assert answer.status_code == 200
    text = re.sub(r"<[^>]+>", " ", answer.text.partition('<main id="content">')[2])
    return " ".join(text.replace("\u00a0", " ").split())


async def execute(services: Services, sql: str, *values: object) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(sql, *values)


async def test_the_overview_is_where_a_member_arrives(ann: Person, base: str) -> None:
    assert (await ann.get(base)).headers["location"] == f"{base}/overview"


async def test_the_menu_marks_the_page_that_is_shown(ann: Person, base: str) -> None:
    assert await unmarked_entries(ann, base, ORGANISATION_MENU) == []


async def test_a_new_organisation_is_told_what_to_do_first(ann: Person, base: str) -> None:
    page = await text_of(ann, f"{base}/overview")
    assert "There are no orders in test mode yet." in page
    assert "Buy your first offsets." in page
    assert "Tonnes per month" not in page


async def test_orders_are_shown_in_their_mode_only(
    services: Services, world: World, ann: Person, base: str, clock: ManualClock
) -> None:
    order = await bring_to(services, world.ours_test.scope, OrderStatus.COMPLETE, clock())
    await place(services, world.ours_test.scope, clock())
    await bring_to(services, world.ours_test.scope, OrderStatus.FAILED, clock())
    await place(services, world.theirs_test.scope, clock())
    assert order.priced is not None
    page = await text_of(ann, f"{base}/overview")
    assert f"Tonnes in {clock().year} 2.21 t" in page
    assert f"Spend in {clock().year} €{2 * order.priced.total_cost_minor / 100:.2f}" in page
    assert "Open orders 1 1.11 t not retired yet." in page
    assert page.count("Show as a table") == 2
    live = await text_of(ann, f"{base.replace('/test/', '/live/')}/overview")
    assert "There are no orders in live mode yet." in live
    assert "2.21" not in live


async def test_a_target_and_a_budget_are_set_and_audited(
    services: Services, world: World, ann: Person, base: str, clock: ManualClock
) -> None:
    await place(services, world.ours_test.scope, clock())
    fields = {"tonnes": "4,5", "budget": "1000", "currency": "EUR"}
    answer = await ann.submit(f"{base}/overview/target", **fields)
    assert answer.headers["location"] == f"{base}/overview?done=target"
    page = await text_of(ann, f"{base}/overview?done=target")
    assert "The target and the budget are saved." in page
    assert "25 % of your target of 4.5 t" in page
    assert "% of your budget of €1,000.00" in page
    form = (await ann.get(f"{base}/overview/target")).text
    assert 'value="4.5"' in form
    assert 'value="1000.00"' in form
    await ann.submit(f"{base}/overview/target", tonnes="", budget="", currency="EUR")
    assert "No target set." in await text_of(ann, f"{base}/overview")
    async with services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT actor, mode, before, after FROM audit_log WHERE action = 'organisation.target_changed' ORDER BY id"
        )
    assert [(row["actor"][:9], row["mode"]) for row in rows] == [("user:usr_", "test")] * 2
    assert '"target": "4.5"' in str(rows[0]["after"])
    assert '"target": "4.5"' in str(rows[1]["before"])


async def test_all_faults_of_the_target_are_shown_and_nothing_is_saved(
    services: Services, ann: Person, base: str
) -> None:
    answer = await ann.submit(f"{base}/overview/target", tonnes="1.234,5", budget="0.001", currency="EUR")
    assert answer.status_code == 422
    assert "Enter a number of tonnes above zero" in answer.text
    assert "at most 2 decimals" in answer.text
    assert answer.text.count("autofocus") == 1
    for tonnes in ("1,000", "1.000", "1 000", "0", "-5", "1.1234567"):
        answer = await ann.submit(f"{base}/overview/target", tonnes=tonnes, budget="1.000", currency="EUR")
        assert "Enter a number of tonnes above zero" in answer.text, tonnes
        assert "at most 2 decimals" in answer.text
    answer = await ann.submit(f"{base}/overview/target", budget="5", currency="USD")
    assert "Choose the currency of one of your accounts." in answer.text
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM yearly_targets") == 0


async def test_the_target_is_for_people_who_may_spend(
    services: Services, world: World, person: MakePerson, base: str
) -> None:
    for role, status in ((Role.FINANCE, 303), (Role.DEVELOPER, 403), (Role.READ_ONLY, 403)):
        bob, email = person(), f"{role}@ours.test"
        await add_user(services, email, world.ours_test.scope.organisation_id, role)
        await bob.sign_in(email)
        assert ("/overview/target" in (await bob.get(f"{base}/overview")).text) == (status == 303)
        assert (await bob.submit(f"{base}/overview/target", tonnes="5")).status_code == status


WEBHOOK = """
INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, cursor_position,
                      next_attempt_at, failing_since)
VALUES ($1, 'test', 'wh_1', 'https://receiver.example/<b>', now(), '', 'abcd', 0, now(), $2)
"""
CARD = """
INSERT INTO account_cards (account_id, organisation_id, mode, gateway, customer, method, brand, last_four, expires,
                           fingerprint, created_at)
VALUES ($1, $2, 'test', 'simulated', 'cus', 'pm', 'Visa', '4242', $3, 'fp', now())
"""
LINK = "INSERT INTO card_links (account_id, organisation_id, mode, created_at) VALUES ($1, $2, 'test', now())"
DECLINED = """
INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, amount_minor, currency,
                     status, outcome, created_at, settled_at)
VALUES ($1, $2, $3, $4, 'test', $5, 'simulated', 'none', 100, 'EUR', $6, $7, now(), now())
"""
INVOICE = """
WITH document AS (
    INSERT INTO tax_documents (id, kind, mode, series, number, reference, organisation_id, currency, total_minor,
                               issued_on, record, tax_lines, buyer, created_at)
    VALUES ('inv_1', 'invoice', 'test', 'TN', 1, 'TN-TEST-1', $1, 'EUR', 100, $2, '', '{}', '', now())
    RETURNING *
)
INSERT INTO invoices (id, organisation_id, mode, number, reference, currency, total_minor, status, issued_on, due_on,
                      created_at)
SELECT id, organisation_id, mode, number, reference, currency, total_minor, 'open', issued_on, $3, now() FROM document
"""
GROUP = """
INSERT INTO billing_groups (id, organisation_id, mode, currency, billing, threshold_minor, order_count, exact_cost,
                            next_attempt_at)
VALUES ('bgr_1', $1, 'test', 'EUR', 'monthly', 0, 3, 123456000000, $2)
"""


async def test_what_needs_attention_is_listed(
    services: Services, world: World, ann: Person, base: str, clock: ManualClock
) -> None:
    scope, now = world.ours_test.scope, clock()
    order = await place(services, scope, now)
    organisation_id, today = scope.organisation_id, now.date()
    await execute(services, WEBHOOK, organisation_id, now - timedelta(days=3))
    await execute(services, CARD, scope.account_id, organisation_id, f"{now:%Y-%m}")
    await execute(services, LINK, scope.account_id, organisation_id)
    await execute(services, DECLINED, scope.account_id, "chg_1", order.id, organisation_id, 1, "failed", "declined")
    await execute(services, INVOICE, organisation_id, today - timedelta(days=40), today - timedelta(days=10))
    await execute(services, GROUP, organisation_id, now + timedelta(days=5))
    await execute(services, "UPDATE orders SET hold_reason = 'credit_limit_reached'")
    await execute(services, "UPDATE api_keys SET expires_at = $1", now + timedelta(days=3))
    answer = await ann.get(f"{base}/overview")
    assert "https://receiver.example/&lt;b&gt;" in answer.text
    page = await text_of(ann, f"{base}/overview")
    assert "was declined. The payer got a mail" in page
    assert "1 invoice is overdue. It was due on" in page
    assert "has been failing since" in page
    assert "1 order is on hold" in page
    assert "The Visa card ending in 4242 of the account" in page
    assert "The API key test key expires on" in page
    assert f'{base}/keys/{world.ours_test.key_id}"' in answer.text
    assert answer.text.count(f'{base}/accounts/{scope.account_id}"') == 2
    assert f'{base}/webhooks/wh_1"' in answer.text
    assert "Next invoice €1,234.56 so far, before tax, for 3 orders." in page
    # The last charge counts.
    await execute(services, DECLINED, scope.account_id, "chg_2", order.id, organisation_id, 2, "failed", "superseded")
    await execute(services, "UPDATE webhooks SET failing_since = NULL")
    await execute(services, "UPDATE orders SET hold_reason = NULL")
    page = await text_of(ann, f"{base}/overview")
    assert "was declined" not in page
    assert "failing since" not in page
    assert "on hold" not in page


def total(month: date, currency: str, status: OrderStatus, grams: int, minor: int) -> OrderTotal:
    return OrderTotal(month, currency, status, 1, grams, minor)


def test_currencies_are_never_added_up_and_last_year_does_not_count_as_this_year() -> None:
    november, january, last = date(2026, 11, 1), date(2026, 1, 1), date(2025, 12, 1)
    totals = [
        total(november, "EUR", OrderStatus.COMPLETE, 1_000_000, 100),
        total(january, "USD", OrderStatus.PAID, 2_000_000, 900),
        total(last, "EUR", OrderStatus.COMPLETE, 4_000_000, 50),
        total(november, "EUR", OrderStatus.CANCELLED, 8_000_000, 7),
        total(date(2020, 1, 1), "EUR", OrderStatus.RETIRING, 16_000_000, 7),
    ]
    figures = figures_of(totals, YearlyTarget(6_000_000, 50, "EUR"), DEFAULT, date(2026, 11, 16))
    assert figures.grams == 3_000_000
    assert [(spend.currency, spend.minor) for spend in figures.spend] == [("USD", 900), ("EUR", 100)]
    assert figures.progress is not None
    assert (figures.progress.part, figures.progress.width) == (50, 50.0)
    euro = figures.spend[1].progress
    assert euro is not None
    assert (euro.part, euro.width) == (200, 100.0)
    assert figures.spend[0].progress is None
    assert (figures.open_orders, figures.open_grams) == (2, 18_000_000)
    assert figures.tonnes.total == 7_000_000
    assert [(series.currency, series.total) for series in figures.spending] == [("EUR", 150), ("USD", 900)]
    assert len(figures.tonnes.months) == 12


def test_the_removal_share_leaves_out_projects_of_unknown_kind() -> None:
    assert removal_share(RetiredShares(0, 0, 0)) is None
    assert removal_share(RetiredShares(3, 1, 2)) == RemovalShare(33, 67)
    assert removal_share(RetiredShares(4, 1, 2)) == RemovalShare(25, 50)

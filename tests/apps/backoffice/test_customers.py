"""Customers: found, opened, limited, closed and reopened by the operator, each change in the audit log."""

import pytest

from tests.support.people import Person, add_user, last_mail
from tests.support.world import World
from tonne.apps.wiring.app import Services

LIST = "/operator/live/customers"


async def newest(services: Services) -> tuple[str, str]:
    async with services.database.connection() as connection:
        row = await connection.fetchrow("SELECT actor, action FROM audit_log ORDER BY id DESC LIMIT 1")
    assert row is not None
    return row["actor"].partition(":")[0], row["action"]


async def execute(services: Services, sql: str, *values: object) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(sql, *values)


@pytest.fixture
def page(world: World) -> str:
    return f"{LIST}/{world.ours_live.scope.organisation_id}"


async def test_customers_are_found_by_name_person_tax_number_and_id(
    olga: Person, services: Services, world: World
) -> None:
    ours = world.ours_live.scope
    await add_user(services, "ann@ours.test", ours.organisation_id)
    await execute(
        services, "INSERT INTO tax_profiles (organisation_id, tax_id) VALUES ($1, 'NO 123')", ours.organisation_id
    )
    assert "Theirs" in (await olga.get(LIST)).text
    for text in ("oUr", "ann@ours", "no123", ours.organisation_id, ours.account_id):
        found = (await olga.get(f"{LIST}?q={text}")).text
        assert (ours.organisation_id in found, ">Theirs<" in found) == (True, False), text
    assert "No customer matches" in (await olga.get(f"{LIST}?q=nobody%3Cb%3E")).text


async def test_a_check_of_the_vat_id_is_recorded_and_shown(olga: Person, services: Services, page: str) -> None:
    organisation_id = page.rpartition("/")[2]
    assert "Check of the VAT ID" not in (await olga.get(page)).text
    statement = "INSERT INTO tax_profiles (organisation_id, country, tax_id) VALUES ($1, 'FR', 'FR83404833048')"
    await execute(services, statement, organisation_id)
    assert "Never checked" in (await olga.get(page)).text
    answer = await olga.submit(f"{page}/vat-check", outcome="valid", consultation_number="WAPI7")
    assert answer.headers["location"].endswith("?done=vat_check_recorded")
    shown = (await olga.get(page)).text
    assert "Valid</span>" in shown
    assert 'by hand, <span class="id">WAPI7</span>' in shown
    assert await newest(services) == ("user", "vat_check.recorded")
    await olga.submit(f"{page}/vat-check", outcome="invalid", consultation_number="")
    assert "Invalid</span>" in (await olga.get(page)).text


async def test_the_list_has_pages(olga: Person, services: Services) -> None:
    await execute(
        services,
        "INSERT INTO organisations (id, name, fee_rate, created_at) SELECT 'org_' || lpad(number::text, 26, '0'), "
        "'Customer ' || number, 0.1, '2026-10-01'::timestamptz + number * interval '1 s' "
        "FROM generate_series(1, 30) AS number",
    )
    first = (await olga.get(f"{LIST}?q=Customer")).text
    assert (first.count("<bdi>Customer "), ">Customer 5<" in first, ">Customer 30<" in first) == (25, False, True)
    older = first.partition('">Older<')[0].rpartition('"')[2].replace("&amp;", "&")
    second = (await olga.get(older)).text
    assert (second.count("<bdi>Customer "), ">Customer 5<" in second, "Older" in second) == (5, True, False)
    assert (await olga.get(f"{LIST}?after=nonsense")).status_code == 400


async def test_a_new_customer_has_an_invited_owner(olga: Person, services: Services) -> None:
    answer = await olga.submit(f"{LIST}/new", name=" ", fee="150", email="nobody")
    assert answer.status_code == 422
    for part in ("Enter the name of the organisation.", "Enter a percentage", "Enter an e-mail address"):
        assert part in answer.text
    answer = await olga.submit(f"{LIST}/new", name="Fjord Bakery", fee="7.5", email="Kari@fjord.test")
    assert answer.headers["location"].endswith("?done=customer_opened")
    recipient, text = await last_mail(services)
    assert recipient == "kari@fjord.test"
    assert "Fjord Bakery, with the role Owner" in text
    shown = (await olga.get(answer.headers["location"])).text
    for part in ("Fjord Bakery", "kari@fjord.test", "Invited", 'value="7.5"', "organisation.opened", "member.invited"):
        assert part in shown
    assert await newest(services) == ("user", "member.invited")


async def test_the_page_of_a_customer_shows_no_secret_and_only_its_mode(
    olga: Person, services: Services, world: World, page: str
) -> None:
    ours = world.ours_live.scope
    await add_user(services, "ann@ours.test", ours.organisation_id, name="<i>Ann</i>")
    await execute(
        services,
        "INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, "
        "failing_since, failures, cursor_position, next_attempt_at) "
        "VALUES ($1, 'live', 'wh_1', 'https://shop.example/hook', now(), 'x', 'abcd', now(), 7, 0, now())",
        ours.organisation_id,
    )
    live = (await olga.get(page)).text
    for part in ("&lt;i&gt;Ann&lt;/i&gt;", "https://shop.example/hook", "Failing", "account live", "test key"):
        assert part in live
    assert world.ours_live.key not in live
    assert "account test" not in live
    test = (await olga.get(page.replace("/live/", "/test/"))).text
    assert ("account test" in test, "https://shop.example/hook" in test) == (True, False)
    for missing in ("org_0000000000000000000000000x", "x"):
        assert (await olga.get(f"{LIST}/{missing}")).status_code == 404


async def test_changes_of_a_customer_are_audited(olga: Person, services: Services, page: str) -> None:
    assert "Enter a percentage" in (await olga.submit(f"{page}/fee", fee="-1")).text
    assert (await olga.submit(f"{page}/fee", fee="12,5 %")).headers["location"] == f"{page}?done=fee"
    assert await newest(services) == ("user", "organisation.fee_set")
    assert "12.5%" in (await olga.get(LIST)).text
    await olga.submit(f"{page}/admins", admin="bills@ours.test")
    assert await newest(services) == ("user", "organisation.admin_added")
    assert "bills@ours.test" in (await olga.get(page)).text
    await olga.submit(f"{page}/admins/remove", email="bills@ours.test")
    assert await newest(services) == ("user", "organisation.admin_removed")
    assert "is not an admin" in (await olga.submit(f"{page}/admins/remove", email="bills@ours.test")).text
    assert (await olga.submit(f"{page}/admins", admin="x")).status_code == 422


async def test_limits_of_accounts_and_keys(olga: Person, services: Services, world: World, page: str) -> None:
    account = f"{page}/accounts/{world.ours_live.scope.account_id}"
    assert (await olga.get(account)).status_code == 200
    answer = await olga.submit(account, monthly_limit="much", minimum_order="-1", on_credit="1", credit_limit="")
    assert answer.status_code == 422
    assert answer.text.count("Enter an amount in EUR") == 2
    assert "Enter the most that may be unpaid" in answer.text
    answer = await olga.submit(account, monthly_limit="5000", minimum_order="", on_credit="1", credit_limit="2500.50")
    assert answer.headers["location"] == f"{page}?done=limits"
    assert await newest(services) == ("user", "account.limits_changed")
    shown = (await olga.get(page)).text
    assert ("€5,000.00" in shown, "€2,500.50" in shown) == (True, True)
    assert 'value="5000.00"' in (await olga.get(account)).text
    assert "Enter tonnes" in (await olga.submit(account, hold_quota="much")).text
    await olga.submit(account, monthly_limit="5000", hold_quota="12.5")
    assert await newest(services) == ("user", "hold_quota.changed")
    assert 'value="12.5"' in (await olga.get(account)).text
    key = f"{page}/keys/{world.ours_live.key_id}"
    assert (await olga.submit(key, monthly_limit="ten")).status_code == 422
    await olga.submit(key, monthly_limit="10")
    assert await newest(services) == ("user", "api_key.limit_changed")
    assert 'value="10.00"' in (await olga.get(key)).text
    await olga.submit(key, monthly_limit="")
    assert "€10.00" not in (await olga.get(page)).text
    for path in (f"accounts/{world.ours_test.scope.account_id}", f"keys/{world.ours_test.key_id}", "accounts/acc_1"):
        assert (await olga.get(f"{page}/{path}")).status_code == 404, path


async def test_a_customer_is_closed_with_a_reason_and_reopened(olga: Person, services: Services, page: str) -> None:
    assert "stop working within 5 seconds" in (await olga.get(f"{page}/close")).text
    assert "Say why" in (await olga.submit(f"{page}/close", reason=" ")).text
    answer = await olga.submit(f"{page}/close", reason="Unpaid since May", disable_pages="1")
    assert answer.headers["location"] == f"{page}?done=customer_closed"
    assert await newest(services) == ("user", "organisation.closed")
    assert "Unpaid since May" in (await olga.get(page)).text
    assert "already closed" in (await olga.submit(f"{page}/close", reason="Again")).text
    assert (await olga.get(f"{page}/reopen")).status_code == 200
    assert (await olga.submit(f"{page}/reopen")).headers["location"] == f"{page}?done=customer_reopened"
    assert await newest(services) == ("user", "organisation.reopened")
    assert "is not closed" in (await olga.submit(f"{page}/reopen")).text

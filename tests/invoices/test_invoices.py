"""From a placed order to its invoice, its reminder and its end: stories with dates."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import product

import msgspec
import pytest

from tests.invoices.billing import ADA, Clock, Office, pdf_of, text_of
from tests.support.world import World, open_tenant
from tonne.base.mass import format_tonnes
from tonne.base.scope import Mode
from tonne.base.settings import Settings, SettingsError, load_settings
from tonne.db.pool import Database
from tonne.invoices.model import FollowUpSchedule, InvoiceStatus

GRACE = "grace@ours.test"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings,
        seller_name="Offsets & Söhne",
        seller_address="Hafenstraße 7; 20457 Hamburg;Germany",
        seller_tax_id="DE123456789",
        seller_email="billing@seller.test",
        bank_iban="DE89 3704 0044 0532 0130 00",
        bank_bic="COBADEFFXXX",
        bank_name="Example Bank",
    )


@pytest.fixture
async def office(furnished_db: Database, settings: Settings, world: World) -> Office:
    office = Office(furnished_db, settings, Clock())
    await office.add_admins(world.ours_live.scope.organisation_id, ADA, GRACE)
    return office


async def test_an_invoice_that_nobody_pays(office: Office, world: World) -> None:
    """Placed on 1 March, due on the 31st, reminded of on 3 April, cancelled on the 14th."""
    order = await office.place(world.ours_live.scope)
    await office.work()
    [first] = await office.mails()
    assert (first["To"], first["Subject"]) == (
        "ada@ours.test, grace@ours.test",
        "Invoice TN-LIVE-000001: 13.95 EUR, due 31 March 2026",
    )
    for words in ("DE89 3704 0044 0532 0130 00", "COBADEFFXXX", "TN-LIVE-000001", order.id, "before 14 April 2026"):
        assert words in text_of(first)
    assert "13.95" in pdf_of(first)

    for month, day in ((3, 1), (3, 31), (4, 2)):
        office.clock.turn_to(month, day, 23)
        await office.work()
    assert len(await office.mails()) == 1
    assert await office.status(order) == "placed"

    office.clock.turn_to(4, 3, 0)
    await office.work()
    _, reminder = await office.mails()
    assert reminder["Subject"].startswith("Reminder: invoice TN-LIVE-000001")
    assert "before 14 April 2026" in text_of(reminder)
    assert "13.95" in pdf_of(reminder)

    office.clock.turn_to(4, 13, 23)
    await office.work()
    assert await office.status(order) == "placed"
    office.clock.turn_to(4, 14, 0)
    await office.work()
    *_, farewell = await office.mails()
    assert farewell["Subject"] == "Invoice TN-LIVE-000001 has been cancelled"
    assert "do not pay" in text_of(farewell)
    assert len(await office.mails()) == 3
    assert (await office.status(order), (await office.invoice(order)).status) == ("cancelled", "cancelled")
    [row] = await office.fetch("SELECT cancelled_by, cancel_reason FROM orders")
    assert row["cancelled_by"] == "unpaid invoice"
    assert "31 March 2026" in row["cancel_reason"]
    office.clock.turn_to(12, 24)
    assert not await office.follow_up.run_once()
    await office.check_nothing_is_broken()


async def test_an_invoice_that_is_paid_after_the_reminder(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.work()
    office.clock.turn_to(4, 3)
    await office.work()
    office.clock.turn_to(4, 5)
    await office.settle(order)
    office.clock.turn_to(4, 14)
    await office.work()
    assert (await office.status(order), (await office.invoice(order)).status) == ("paid", "paid")
    assert len(await office.mails()) == 2
    [entry] = await office.fetch("SELECT actor, details FROM audit_log WHERE action = 'invoice.settled'")
    assert entry["actor"] == "test"
    assert "TN-LIVE-000001" in entry["details"]
    await office.check_nothing_is_broken()


async def test_a_worker_that_was_away_for_two_months_does_not_remind_and_cancel_in_one_day(
    office: Office, world: World
) -> None:
    order = await office.place(world.ours_live.scope)
    await office.issue.run_once()
    office.clock.turn_to(5, 10)
    await office.work()
    assert len(await office.mails()) == 1
    office.clock.turn_to(5, 13)
    await office.work()
    _, reminder = await office.mails()
    assert "before 24 May 2026" in text_of(reminder)
    office.clock.turn_to(5, 23)
    await office.work()
    assert await office.status(order) == "placed"
    office.clock.turn_to(5, 24)
    await office.work()
    assert await office.status(order) == "cancelled"


async def test_a_late_reminder_states_the_day_on_which_the_order_is_cancelled(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.work()
    office.clock.turn_to(5, 10)
    await office.work()
    _, reminder = await office.mails()
    assert "before 21 May 2026" in text_of(reminder)
    office.clock.turn_to(5, 20)
    await office.work()
    assert await office.status(order) == "placed"
    office.clock.turn_to(5, 21)
    await office.work()
    assert await office.status(order) == "cancelled"


async def test_between_two_steps_there_is_always_time_to_pay(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.issue.run_once()
    invoice, today = await office.invoice(order), date(2026, 3, 1)
    days = (None, 1, 31, 35, 70)
    moments = [None if day is None else office.clock.now + timedelta(days=day) for day in days]
    for plan, mailed_at, reminded_at in product(
        (FollowUpSchedule(3, 14), FollowUpSchedule(1, 1), FollowUpSchedule(30, 40)), moments, moments
    ):
        chased = replace(invoice, mailed_at=mailed_at, reminded_at=reminded_at)
        remind_on, cancel_on = plan.remind_on(chased, today), plan.cancel_on(chased, today)
        assert remind_on - chased.due_on >= timedelta(days=plan.reminder_days)
        assert mailed_at is None or remind_on - mailed_at.date() >= timedelta(days=plan.reminder_days)
        reminded_on = remind_on if reminded_at is None else reminded_at.date()
        assert cancel_on - reminded_on >= timedelta(days=plan.cancel_days - plan.reminder_days)
        assert cancel_on - chased.due_on >= timedelta(days=plan.cancel_days)


async def test_in_test_mode_an_invoice_settles_itself_once_it_is_mailed(office: Office, world: World) -> None:
    order = await office.place(world.ours_test.scope)
    await office.work()
    [mail] = await office.mails()
    assert mail["Subject"].startswith("[TEST] Invoice TN-TEST-000001")
    assert "Do not send money" in text_of(mail)
    assert await office.status(order) == "paid"
    assert (await office.invoice(order)).settled_by == "test mode"
    await office.check_nothing_is_broken()


async def test_a_test_account_that_waits_gets_no_invoice_until_it_is_helped(office: Office, world: World) -> None:
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", world.ours_test.scope.account_id)
    order = await office.place(world.ours_test.scope)
    office.clock.turn_to(12, 24)
    await office.work()
    assert await office.status(order) == "placed"


async def test_a_test_account_that_waits_keeps_an_open_invoice_open(office: Office, world: World) -> None:
    order = await office.place(world.ours_test.scope)
    await office.issue.run_once()
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", world.ours_test.scope.account_id)
    await office.work()
    assert await office.status(order) == "placed"
    assert (await office.invoice(order)).status is InvoiceStatus.OPEN


async def test_who_has_nothing_to_pay_gets_no_invoice_and_is_paid(office: Office, world: World) -> None:
    free = await office.place(world.ours_live.scope)
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE orders SET offset_cost_minor = 0, commission_minor = 0, total_cost_minor = 0")
        await tx.execute("UPDATE order_lines SET offset_cost_minor = 0")
    billed = await office.place(world.ours_live.scope)
    await office.work()
    assert [await office.status(order) for order in (free, billed)] == ["paid", "placed"]
    assert (await office.invoice(billed)).number == 1
    await office.check_nothing_is_broken()


@pytest.mark.parametrize(("currency", "total"), [("JPY", "2259 JPY"), ("KWD", "4.630 KWD")])
async def test_amounts_have_their_currencys_decimals(office: Office, world: World, currency: str, total: str) -> None:
    async with office.database.transaction() as tx:
        tenant = await open_tenant(tx, world.ours_live.scope.organisation_id, Mode.LIVE, currency)
    order = await office.place(tenant.scope)
    await office.work()
    [mail] = await office.mails()
    assert f": {total}, due" in mail["Subject"]
    assert total in text_of(mail)
    assert total.split(maxsplit=1)[0] in pdf_of(mail)
    assert (await office.invoice(order)).total == total
    await office.check_nothing_is_broken()


async def test_an_invoice_stays_as_it_was_sent(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.work()
    before = (await office.invoice(order)).record
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET name = 'Renamed', address = 'Elsewhere'")
        await tx.execute("UPDATE order_lines SET bundle_name = 'Renamed'")
    office.clock.turn_to(4, 3)
    await office.work()
    assert (await office.invoice(order)).record == before
    assert "Renamed" not in pdf_of((await office.mails())[1])


async def test_the_lines_the_fee_and_the_total_of_an_invoice_are_the_orders(office: Office, world: World) -> None:
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET address = E'Pier 3\\n\\n 1011 Amsterdam '")
    order = await office.place(world.ours_live.scope, value_minor=5000)
    await office.work()
    record = (await office.invoice(order)).read_record()
    assert order.priced is not None
    assert [(line.description, line.quantity) for line in record.lines] == [
        (line.bundle_name, format_tonnes(line.quantity_grams)) for line in order.priced.lines
    ]
    assert len(record.lines) == 2
    cents = [int(amount.replace(".", "")) for amount in (*(line.amount for line in record.lines), record.fee.amount)]
    assert sum(cents) == int(record.total.replace(".", "")) == order.priced.total_cost_minor
    assert record.seller.address_lines == ["Hafenstraße 7", "20457 Hamburg", "Germany"]
    assert record.buyer.address_lines == ["Pier 3", "1011 Amsterdam"]
    assert (record.due_on, record.bank.account_holder) == ("2026-03-31", "Offsets & Söhne")


async def test_orders_paid_by_card_get_no_invoice(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE orders SET payment_method = 'card'")
    assert not await office.issue.run_once()
    assert await office.fetch("SELECT FROM invoices WHERE order_id = $1", order.id) == []


async def test_an_organisation_without_admins_is_billed_all_the_same(
    office: Office, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    order = await office.place(world.theirs_test.scope)
    await office.work()
    assert await office.mails() == []
    assert (await office.invoice(order)).mailed_at == office.clock.now
    assert await office.status(order) == "paid"
    assert "invoice_without_recipient" in capsys.readouterr().out


@pytest.mark.parametrize("iban", ["DE89370400440532013000", "gb29 nwbk 6016 1331 9268 19", "NO93 8601 1117 947"])
def test_an_iban_is_taken_however_it_is_spaced(iban: str) -> None:
    assert load_settings({"TONNE_BANK_IBAN": iban}).bank_iban == iban


@pytest.mark.parametrize("iban", ["DE89370400440532013001", "DE98370400440532013000", "DE89", "12345678", "DE89 ü"])
def test_an_iban_with_a_slip_in_it_is_refused(iban: str) -> None:
    with pytest.raises(SettingsError, match="TONNE_BANK_IBAN"):
        load_settings({"TONNE_BANK_IBAN": iban})


def test_an_order_cannot_be_cancelled_before_its_reminder() -> None:
    with pytest.raises(SettingsError, match="TONNE_INVOICE_CANCEL_DAYS"):
        load_settings({"TONNE_INVOICE_REMINDER_DAYS": "15"})

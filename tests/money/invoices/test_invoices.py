"""From a placed order to its invoice, reminder and cancellation, with dates."""

from datetime import date, timedelta
from itertools import product

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_of, text_of
from tests.support.world import TESTER, World, open_tenant
from tonne.money.invoices.model import FollowUpSchedule, InvoiceStatus
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode, replace

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
async def billing(billing: Billing, world: World) -> Billing:
    await billing.add_admins(world.ours_live.scope.organisation_id, GRACE)
    return billing


async def test_an_unpaid_invoice_is_mailed_reminded_of_and_cancelled(billing: Billing, world: World) -> None:
    """Placed on 1 March, due on 31 March, reminded of on 3 April, cancelled on 14 April."""
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    [first] = await billing.mails()
    assert (first["To"], first["Subject"]) == (
        "ada@ours.test, grace@ours.test",
        "Invoice TN-LIVE-000001: €13.95, due 31 March 2026",
    )
    for words in ("DE89 3704 0044 0532 0130 00", "COBADEFFXXX", "TN-LIVE-000001", order.id, "before 14 April 2026"):
        assert words in text_of(first)
    assert "13.95" in pdf_of(first)

    for month, day in ((3, 1), (3, 31), (4, 2)):
        billing.clock.turn_to(month, day, 23)
        await billing.work()
    assert len(await billing.mails()) == 1
    assert await billing.status(order) == "placed"

    billing.clock.turn_to(4, 3, 0)
    await billing.work()
    _, reminder = await billing.mails()
    assert reminder["Subject"].startswith("Reminder: invoice TN-LIVE-000001")
    assert "before 14 April 2026" in text_of(reminder)
    assert "13.95" in pdf_of(reminder)

    billing.clock.turn_to(4, 13, 23)
    await billing.work()
    assert await billing.status(order) == "placed"
    billing.clock.turn_to(4, 14, 0)
    await billing.work()
    *_, farewell = await billing.mails()
    assert farewell["Subject"] == "Invoice TN-LIVE-000001 has been cancelled"
    assert "do not pay" in text_of(farewell)
    assert len(await billing.mails()) == 3
    assert (await billing.status(order), (await billing.invoice(order)).status) == ("cancelled", "cancelled")
    [row] = await billing.fetch("SELECT cancelled_by, cancel_reason FROM orders")
    assert row["cancelled_by"] == "system:follow_up_invoices"
    assert "31 March 2026" in row["cancel_reason"]
    billing.clock.turn_to(12, 24)
    assert not await billing.follow_up.run_once()
    await billing.check_invariants()


async def test_an_invoice_that_is_paid_after_the_reminder(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    billing.clock.turn_to(4, 3)
    await billing.work()
    billing.clock.turn_to(4, 5)
    await billing.settle(order)
    billing.clock.turn_to(4, 14)
    await billing.work()
    assert (await billing.status(order), (await billing.invoice(order)).status) == ("paid", "paid")
    assert len(await billing.mails()) == 2
    [entry] = await billing.fetch("SELECT actor, details FROM audit_log WHERE action = 'invoice.settled'")
    assert entry["actor"] == str(TESTER)
    assert "TN-LIVE-000001" in entry["details"]
    await billing.check_invariants()


async def test_after_an_outage_reminder_and_cancellation_keep_their_distance(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    billing.clock.turn_to(5, 10)
    await billing.work()
    assert len(await billing.mails()) == 1
    billing.clock.turn_to(5, 13)
    await billing.work()
    _, reminder = await billing.mails()
    assert "before 24 May 2026" in text_of(reminder)
    billing.clock.turn_to(5, 23)
    await billing.work()
    assert await billing.status(order) == "placed"
    billing.clock.turn_to(5, 24)
    await billing.work()
    assert await billing.status(order) == "cancelled"


async def test_a_late_reminder_states_the_day_on_which_the_order_is_cancelled(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    billing.clock.turn_to(5, 10)
    await billing.work()
    _, reminder = await billing.mails()
    assert "before 21 May 2026" in text_of(reminder)
    billing.clock.turn_to(5, 20)
    await billing.work()
    assert await billing.status(order) == "placed"
    billing.clock.turn_to(5, 21)
    await billing.work()
    assert await billing.status(order) == "cancelled"


async def test_between_two_steps_there_is_always_time_to_pay(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    invoice, today = await billing.invoice(order), date(2026, 3, 1)
    days = (None, 1, 31, 35, 70)
    moments = [None if day is None else billing.clock.now + timedelta(days=day) for day in days]
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


async def test_a_test_invoice_is_settled_once_it_is_mailed(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_test.scope)
    await billing.work()
    [mail] = await billing.mails()
    assert mail["Subject"].startswith("[TEST] Invoice TN-TEST-000001")
    assert "Do not send money" in text_of(mail)
    assert await billing.status(order) == "paid"
    assert (await billing.invoice(order)).settled_by == "system:follow_up_invoices"
    await billing.check_invariants()


async def test_a_waiting_test_account_gets_no_invoice_without_a_helper(billing: Billing, world: World) -> None:
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", world.ours_test.scope.account_id)
    order = await billing.place_order(world.ours_test.scope)
    billing.clock.turn_to(12, 24)
    await billing.work()
    assert await billing.status(order) == "placed"


async def test_an_open_invoice_of_a_waiting_test_account_stays_open(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_test.scope)
    await billing.issue.run_once()
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", world.ours_test.scope.account_id)
    await billing.work()
    assert await billing.status(order) == "placed"
    assert (await billing.invoice(order)).status is InvoiceStatus.OPEN


async def test_zero_total_orders_skip_invoicing_and_are_marked_as_paid(billing: Billing, world: World) -> None:
    free = await billing.place_order(world.ours_live.scope)
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE orders SET offset_cost_minor = 0, commission_minor = 0, total_cost_minor = 0")
        await tx.execute("UPDATE order_lines SET offset_cost_minor = 0")
    billed = await billing.place_order(world.ours_live.scope)
    await billing.work()
    assert [await billing.status(order) for order in (free, billed)] == ["paid", "placed"]
    assert (await billing.invoice(billed)).number == 1
    await billing.check_invariants()


@pytest.mark.parametrize(("currency", "total", "decimal"), [("JPY", "JP¥2,259", "2259"), ("KWD", "KWD 4.630", "4.630")])
async def test_amounts_have_the_decimals_of_their_currency(
    billing: Billing, world: World, currency: str, total: str, decimal: str
) -> None:
    async with billing.database.transaction() as tx:
        tenant = await open_tenant(tx, world.ours_live.scope.organisation_id, Mode.LIVE, currency)
    await billing.renew_rates()
    order = await billing.place_order(tenant.scope)
    await billing.work()
    [mail] = await billing.mails()
    assert f": {total}, due" in mail["Subject"]
    assert total in text_of(mail).replace("\xa0", " ")
    assert decimal in pdf_of(mail)
    assert (await billing.invoice(order)).total == f"{decimal} {currency}"
    await billing.check_invariants()


async def test_an_issued_invoice_never_changes(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    before = (await billing.invoice(order)).record
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET name = 'Renamed', address = 'Elsewhere'")
        await tx.execute("UPDATE order_lines SET bundle_name = 'Renamed'")
    billing.clock.turn_to(4, 3)
    await billing.work()
    assert (await billing.invoice(order)).record == before
    assert "Renamed" not in pdf_of((await billing.mails())[1])


async def test_lines_fee_and_total_are_those_of_the_order(billing: Billing, world: World) -> None:
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET address = E'Pier 3\\n\\n 1011 Amsterdam '")
    order = await billing.place_order(world.ours_live.scope, value_minor=5000)
    await billing.work()
    record = (await billing.invoice(order)).read_record()
    assert order.priced is not None
    assert [(line.description, line.quantity) for line in record.lines] == [
        (f"Retirement of carbon credits: {line.bundle_name}", format_tonnes(line.quantity_grams))
        for line in order.priced.lines
    ]
    assert len(record.lines) == 2
    cents = [int(amount.replace(".", "")) for amount in (*(line.amount for line in record.lines), record.fee.amount)]
    assert sum(cents) == int(record.total.replace(".", "")) == order.priced.total_cost_minor
    assert record.seller.address_lines == ["Hafenstraße 7", "20457 Hamburg", "Germany"]
    assert record.buyer.address_lines == ["Pier 3", "1011 Amsterdam"]
    assert (record.due_on, record.bank.account_holder) == ("2026-03-31", "Offsets & Söhne")


async def test_orders_paid_by_card_get_no_invoice(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE orders SET payment_method = 'card'")
    assert not await billing.issue.run_once()
    assert await billing.fetch("SELECT FROM invoice_orders WHERE order_id = $1", order.id) == []


async def test_an_organisation_without_admins_is_billed_too(
    billing: Billing, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    order = await billing.place_order(world.theirs_test.scope)
    await billing.work()
    assert await billing.mails() == []
    assert (await billing.invoice(order)).mailed_at == billing.clock.now
    assert await billing.status(order) == "paid"
    assert "invoice_without_recipient" in capsys.readouterr().out


async def test_money_22_a_live_order_is_not_cancelled_because_of_mails_that_nobody_got(
    billing: Billing, world: World
) -> None:
    organisation_id = world.ours_live.scope.organisation_id
    await billing.execute("DELETE FROM organisation_admins")
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    assert (await billing.invoice(order)).mailed_at is None
    billing.clock.turn_to(9, 1)
    await billing.work()
    assert await billing.status(order) == "placed", "long after all deadlines"
    await billing.add_admins(organisation_id, ADA)
    billing.clock.advance(minutes=5)
    await billing.work()
    [mail] = await billing.mails()
    assert mail["To"] == ADA
    # The reminder waits in the same way.
    await billing.execute("DELETE FROM organisation_admins")
    billing.clock.advance(days=60)
    await billing.work()
    assert (await billing.invoice(order)).reminded_at is None
    assert await billing.status(order) == "placed"
    await billing.add_admins(organisation_id, ADA)
    billing.clock.advance(minutes=5)
    await billing.work()
    assert "Reminder" in (await billing.mails())[-1]["Subject"]
    billing.clock.advance(days=12)
    await billing.work()
    assert await billing.status(order) == "cancelled"
    await billing.check_invariants()


@pytest.mark.parametrize("iban", ["DE89370400440532013000", "gb29 nwbk 6016 1331 9268 19", "NO93 8601 1117 947"])
def test_an_iban_may_contain_spaces(iban: str) -> None:
    assert load_settings({"TONNE_BANK_IBAN": iban}).bank_iban == iban


@pytest.mark.parametrize("iban", ["DE89370400440532013001", "DE98370400440532013000", "DE89", "12345678", "DE89 ü"])
def test_an_iban_with_a_wrong_checksum_is_refused(iban: str) -> None:
    with pytest.raises(SettingsError, match="TONNE_BANK_IBAN"):
        load_settings({"TONNE_BANK_IBAN": iban})


def test_an_order_cannot_be_cancelled_before_its_reminder() -> None:
    with pytest.raises(SettingsError, match="TONNE_INVOICE_CANCEL_DAYS"):
        load_settings({"TONNE_INVOICE_REMINDER_DAYS": "15"})

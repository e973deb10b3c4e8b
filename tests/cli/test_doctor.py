"""What `tonne doctor` warns of: each check names what waits too long, and not before it is too long."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.support.clock import ManualClock
from tests.support.command import Operator, refusal_of, tonne
from tests.support.orders import bring_to, receive
from tests.support.scene import Scene
from tests.support.world import SELLER, World, add_account
from tonne.app import Services
from tonne.base.clock import Clock
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.cli.doctor import ALL_WAITING, WARNINGS_CODE, find_waiting
from tonne.invoices.waiting import WAITING as INVOICES_WAITING
from tonne.orders.model import Order, OrderStatus
from tonne.refunds.waiting import WAITING as REFUNDS_WAITING

PAID = OrderStatus.PAID
# Creates what a check finds, and returns a word that names it.
Arrange = Callable[["Desk"], Awaitable[str]]


class Desk(Scene):
    """Orders of the live account, and rows that refer to them."""

    def __init__(self, services: Services, clock: ManualClock, world: World) -> None:
        super().__init__(services, clock)
        self.world = world

    async def order(self, status: OrderStatus) -> Order:
        return await bring_to(self.services, self.world.ours_live.scope, status, self.clock())

    async def invoice(self, *, mailed: bool = True) -> Order:
        order = await self.place_order(self.world.ours_live.scope)
        await self.run_jobs(self.services.issue_invoices)
        if mailed:
            await self.execute("UPDATE invoices SET mailed_at = $1", self.clock())
        return order

    async def transfer(self, order: Order, state: str, amount_minor: int = 100) -> None:
        await self.execute(
            "INSERT INTO bank_transfers (id, mode, booked_on, amount_minor, currency, payer, reference, "
            "state, invoice_id, imported_at, imported_by) "
            "VALUES ('trf_1', 'live', $1, $2, 'EUR', 'Ada', 'a transfer', $3, "
            "(SELECT invoice_id FROM invoice_orders WHERE order_id = $4), $5, 'test')",
            *(self.clock().date(), amount_minor, state, order.id, self.clock()),
        )
        if state == "part_payment":
            values = "'asg_1', id, invoice_id, amount_minor, false, NULL, '', imported_at, imported_by"
            await self.execute(f"INSERT INTO transfer_assignments SELECT {values} FROM bank_transfers")  # noqa: S608

    async def charge(self, status: str) -> None:
        order = await self.order(OrderStatus.PLACED)
        await self.execute(
            "INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, "
            "amount_minor, currency, status, reference, created_at, settled_at, next_attempt_at) "
            "VALUES ($1, 'chg_1', $2, $3, 'live', 1, 'stripe', 'hosted_page', 100, 'EUR', $4::text, "
            "CASE WHEN $4 = 'pending' THEN NULL ELSE 'pi_1' END, $5::timestamptz, "
            "CASE WHEN $4 = 'pending' THEN NULL ELSE $5 END, $5)",
            *(order.scope.account_id, order.id, order.scope.organisation_id, status, self.clock()),
        )

    async def webhook(self, **columns: object) -> None:
        await self.execute(
            "INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, "
            "cursor_position, next_attempt_at, failing_since, failures) "
            "VALUES ($1, 'live', 'whk_1', 'https://a.test', $2, '', 'abcd', 0, $2, $3, 3)",
            *(self.world.ours_live.scope.organisation_id, self.clock(), columns.get("failing_since")),
        )

    async def waiting(self, **changes: object) -> dict[str, list[str]]:
        settings = msgspec.structs.replace(self.settings, **COMPLETE | changes)
        async with self.database.transaction() as tx:
            return await find_waiting(tx, settings, self.clock())


# Settings with which nothing is missing.
COMPLETE: dict[str, object] = {
    **SELLER,
    "seller_email": "ada@tonne.test",
    "bank_account_holder": "Tonne",
    "stripe_secret_key": "sk_live_1",
    "smtp_url": "smtp://mail.test",
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
def clock() -> Clock:
    return ManualClock()


@pytest.fixture
def desk(services: Services, clock: ManualClock, world: World) -> Desk:
    return Desk(services, clock, world)


async def _unpriced(desk: Desk) -> str:
    return (await receive(desk.services, desk.world.ours_live.scope, desk.clock())).id


async def _unsupplied(desk: Desk) -> str:
    order = await desk.order(PAID)
    await desk.execute("UPDATE orders SET next_attempt_at = $1 WHERE id = $2", desk.clock(), order.id)
    return order.id


async def _unbilled(desk: Desk) -> str:
    order = await desk.order(OrderStatus.PLACED)
    await desk.execute(
        "INSERT INTO billing_groups (id, organisation_id, mode, currency, billing, threshold_minor, order_count, "
        "total_minor) SELECT 'bgr_1', organisation_id, mode, currency, 'monthly', 0, 1, total_cost_minor FROM orders"
    )
    await desk.execute(
        "INSERT INTO unbilled_orders (account_id, order_id, group_id, reference, placed_at, quantity_grams, "
        "offset_minor, fee_minor, total_minor) SELECT account_id, id, 'bgr_1', 'x', $1, quantity_grams, "
        "offset_cost_minor, commission_minor, total_cost_minor FROM orders",
        desk.clock(),
    )
    return order.scope.organisation_id


async def _fulfilled_on_credit(desk: Desk) -> str:
    await desk.invoice()
    await desk.execute("UPDATE orders SET status = 'retiring'")
    return "TN-LIVE-000001"


async def _pending(desk: Desk) -> str:
    await desk.charge("pending")
    return "chg_1"


async def _unconfirmed(desk: Desk) -> str:
    """Its payer has a week to confirm it."""
    await desk.charge("pending")
    until = desk.clock() + timedelta(days=7)
    await desk.execute("UPDATE charges SET outcome = 'authentication_required', confirm_until = $1", until)
    return "chg_1"


async def _unmailed(desk: Desk) -> str:
    await desk.invoice(mailed=False)
    return "TN-LIVE-000001"


async def _partly_paid(desk: Desk) -> str:
    await desk.transfer(await desk.invoice(), "part_payment")
    return "TN-LIVE-000001"


async def _open_unit(desk: Desk) -> str:
    """The order is small: all its parcels are pooled units. One of them stays."""
    await desk.order(PAID)
    await desk.execute("UPDATE orders SET next_attempt_at = $1", desk.clock())
    await desk.execute("UPDATE lots SET status = 'held', retirement_url = NULL, retired_on = NULL")
    await desk.run_jobs(desk.services.allocate_orders)
    await desk.execute("DELETE FROM shares WHERE parcel_id <> (SELECT min(parcel_id) FROM shares)")
    await desk.execute("DELETE FROM parcels WHERE id NOT IN (SELECT parcel_id FROM shares)")
    desk.clock.advance(days=desk.settings.pool_wait_days - 3)
    return str(await desk.fetchval("SELECT id FROM parcels WHERE status = 'open'"))


async def _unmatched(desk: Desk) -> str:
    await desk.transfer(await desk.invoice(), "unmatched")
    return "trf_1"


async def _unpaid_return(desk: Desk) -> str:
    await desk.transfer(await desk.invoice(), "to_return")
    await desk.execute(
        "INSERT INTO transfer_returns (id, transfer_id, amount_minor, to_iban, to_bic, to_name, reason, status, "
        "to_other_account, created_at, created_by) "
        "VALUES ('ret_1', 'trf_1', 100, '', '', 'Ada', 'x', 'planned', false, $1, '')",
        desk.clock(),
    )
    return "ret_1"


async def _doubtful_line(desk: Desk) -> str:
    await desk.transfer(await desk.invoice(), "matched")
    await desk.execute(
        "INSERT INTO doubtful_lines (id, transfer_id, fingerprint, mode, format, line, imported_at, imported_by) "
        "VALUES ('dbt_1', 'trf_1', '', 'live', 'csv', '{}', $1, '')",
        desk.clock(),
    )
    return "dbt_1"


async def _held_mail(desk: Desk) -> str:
    await desk.execute(
        "INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at, last_error) "
        "VALUES ('mail_1', 'org_1', '{a@b.test}', '', $1, $1, 'busy')",
        desk.clock(),
    )
    return "mail_1"


async def _to_retire(desk: Desk) -> str:
    word = await _open_unit(desk)
    desk.clock.advance(days=3)
    await desk.run_jobs(desk.services.close_units)
    return word


async def _failing_webhook(desk: Desk) -> str:
    await desk.webhook(failing_since=desk.clock())
    return "whk_1"


async def _parked_account(desk: Desk) -> str:
    await desk.webhook()
    organisation_id = desk.world.ours_live.scope.organisation_id
    await desk.execute(
        "INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, "
        "next_attempt_at) VALUES ($1, 'whk_1', 'acc_1', 1, 3, $2, $2)",
        *(organisation_id, desk.clock()),
    )
    return "acc_1"


async def _aging_rate(desk: Desk) -> str:
    async with desk.database.transaction() as tx:
        await add_account(tx, desk.world.ours_live.scope.organisation_id, Mode.LIVE, currency="NOK")
        await tx.execute(
            "INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source) "
            "VALUES ('live', 'EUR', 'NOK', $1, 11.8, 'test'), ('live', 'EUR', 'NOK', '2099-01-01', 11.8, 'test')",
            desk.clock(),
        )
    return f"EUR to NOK: the newest rate is of {desk.clock():%Y-%m-%d}"


# Each check that needs time to pass, and how much.
LATE: list[tuple[Arrange, timedelta, str]] = [
    # Three quarters of 31 days: early enough to import a new rate before orders wait.
    (_aging_rate, timedelta(days=23, hours=6), "live accounts have a recent exchange rate"),
    (_unpriced, timedelta(hours=1), "live orders get a price within an hour"),
    # Since 1 November, 9:00.
    (_unbilled, timedelta(days=29, hours=17), "live consolidated invoices are issued within an hour"),
    (
        _fulfilled_on_credit,
        timedelta(days=60, hours=15),
        "live invoices of fulfilled orders are paid within 30 days of their due date",
    ),
    (_pending, timedelta(days=2), "live charges have an outcome within two days"),
    (_unconfirmed, timedelta(days=5), "live payments are confirmed at least two days before the end"),
    (_unmailed, timedelta(hours=1), "live invoices are mailed within an hour"),
    (_partly_paid, timedelta(days=7), "partly paid invoices are paid in full within a week"),
    (_unmatched, timedelta(days=3), "unmatched live bank transfers are resolved within three days"),
    (_unpaid_return, timedelta(days=3), "live bank refunds are made within three days"),
    (_doubtful_line, timedelta(days=3), "doubtful lines of bank statements are decided within three days"),
    (_held_mail, timedelta(hours=6), "mails are sent within six hours"),
    (_unsupplied, timedelta(days=1), "paid live orders get supply within a day"),
    (_to_retire, timedelta(days=7), "live retirements are confirmed within TONNE_RETIREMENT_DAYS"),
    (_open_unit, timedelta(), "no pooled live unit is retired within three days with a rest that nobody bought"),
    (_failing_webhook, timedelta(hours=1), "live webhooks deliver"),
    (_parked_account, timedelta(hours=1), "no account of a live webhook is parked for an hour"),
]


@pytest.mark.parametrize(("arrange", "after", "name"), LATE, ids=[name for _, _, name in LATE])
async def test_money_d6_what_waits_too_long_is_named(desk: Desk, arrange: Arrange, after: timedelta, name: str) -> None:
    word = await arrange(desk)
    desk.clock.now += after - timedelta(minutes=1)
    assert name not in await desk.waiting()
    desk.clock.advance(minutes=2)
    [place] = (await desk.waiting())[name]
    assert word in place


async def test_money_d6_orders_of_test_accounts_are_not_reported(desk: Desk) -> None:
    await receive(desk.services, desk.world.ours_test.scope, desk.clock())
    await bring_to(desk.services, desk.world.ours_test.scope, PAID, desk.clock())
    await desk.execute("UPDATE orders SET next_attempt_at = $1", desk.clock())
    desk.clock.advance(days=90)
    assert await desk.waiting() == {}


async def test_nobody_was_mailed_about_a_declined_card(desk: Desk) -> None:
    await desk.charge("pending")
    await desk.execute("UPDATE charges SET status = 'failed', settled_at = $1, next_attempt_at = NULL", desk.clock())
    await desk.execute(
        "INSERT INTO card_links (account_id, organisation_id, mode, token_box, token_hash, created_at) "
        "SELECT account_id, organisation_id, mode, '', decode(repeat('00', 32), 'hex'), $1 FROM charges",
        desk.clock(),
    )
    name = "someone is mailed about problems with live cards"
    [place] = (await desk.waiting())[name]
    assert desk.world.ours_live.scope.account_id in place
    await desk.execute("UPDATE accounts SET card_email = 'ada@ours.test'")
    assert name not in await desk.waiting()


async def test_missing_settings_are_named_once_they_matter(desk: Desk) -> None:
    nothing = dict.fromkeys(COMPLETE, "")
    assert await desk.waiting(**nothing) == {}
    await desk.invoice()
    found = await desk.waiting(**nothing)
    named = " ".join(found[INVOICES_WAITING[0].name])
    assert "a mail server is set for live orders" in found
    assert all(name in named for name in ("TONNE_SELLER_ADDRESS", "TONNE_BANK_IBAN", "TONNE_SELLER_EMAIL"))
    await desk.execute(
        "UPDATE accounts SET payment_method = 'card' WHERE id = $1", desk.world.ours_live.scope.account_id
    )
    found = await desk.waiting(**nothing)
    assert desk.world.ours_live.scope.account_id in found["a gateway is set for live orders by card"][0]
    assert await desk.waiting() == {}


async def test_money_11_a_currency_of_a_live_account_without_a_rate_is_named(desk: Desk) -> None:
    async with desk.database.transaction() as tx:
        for mode, currency in ((Mode.LIVE, "NOK"), (Mode.LIVE, "EUR"), (Mode.TEST, "PLN")):
            await add_account(tx, desk.world.ours_live.scope.organisation_id, mode, currency=currency)
    found = await desk.waiting()
    assert found == {"live accounts have a recent exchange rate": ["EUR to NOK: there is no rate"]}


async def test_money_22_an_organisation_without_an_admin_is_named(desk: Desk) -> None:
    name = "organisations with open live invoices have an admin"
    await desk.invoice()
    desk.clock.advance(minutes=1)
    organisation_id = desk.world.ours_live.scope.organisation_id
    [place] = (await desk.waiting())[name]
    assert place == f"organisation {organisation_id}: 1 open, the oldest is TN-LIVE-000001"
    await desk.execute(
        "INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, 'ada@ours.test', $2)",
        *(organisation_id, desk.clock()),
    )
    assert name not in await desk.waiting()


async def test_a_mail_that_was_given_up_is_retried_or_discarded(desk: Desk, operator: Operator) -> None:
    for number in (1, 2):
        await desk.execute(
            "INSERT INTO mails (id, organisation_id, recipients, message, created_at, attempts, last_error) "
            "VALUES ($1, 'org_1', '{a@b.test}', '', $2, 8, 'no such user')",
            *(f"mail_{number}", desk.clock()),
        )
    name = "no mail was given up"
    assert ["no such user" in place for place in (await desk.waiting())[name]] == [True, True]
    assert operator.does("mail", "list", "--state", "failed").count("mail_") == 2
    assert operator.does("mail", "retry", "mail_1") == "mail_1 will be sent again."
    assert operator.does("mail", "discard", "mail_2") == "mail_2 is discarded."
    assert name not in await desk.waiting()
    assert "mail_1" in operator.does("mail", "list", "--state", "waiting")
    assert "mail_2" in operator.does("mail", "list", "--state", "discarded")
    assert "mail_" not in operator.does("mail", "list", "--state", "failed")
    for words in (("retry", "mail_1"), ("discard", "mail_2"), ("retry", "mail_3")):
        assert "is not a failed mail" in refusal_of("mail", *words, database_url=operator.url)
    actions = await desk.fetch("SELECT action FROM audit_log WHERE subject_id LIKE 'mail_%' ORDER BY action")
    assert [row["action"] for row in actions] == ["mail.discarded", "mail.retried"]


async def test_a_key_that_is_not_configured_is_named(desk: Desk) -> None:
    await desk.execute("INSERT INTO secret_keys (id) VALUES ('0123456789abcdef')")
    assert "0123456789abcdef" in (await desk.waiting())["all secret keys of this database are configured"][0]


def test_every_check_is_tested_and_says_what_to_do() -> None:
    tested = {name for _, _, name in LATE} | {
        "organisations with open live invoices have an admin",
        "a gateway is set for live orders by card",
        "live invoices name the seller and the bank account",
        "all secret keys of this database are configured",
        "a mail server is set for live orders",
        "no mail was given up",
    }
    elsewhere = {check.name for check in ALL_WAITING} - tested
    assert elsewhere <= ELSEWHERE
    for check in ALL_WAITING:
        assert check.meaning.endswith(".")
        assert check.remedy.endswith(".")
        assert any(word in check.remedy for word in ("`tonne ", "TONNE_", "gateway")), check.name


# Checks whose tests are with their package.
ELSEWHERE = {
    *(check.name for check in REFUNDS_WAITING),
    "someone is mailed about problems with live cards",
    "live orders are within the credit limits of their accounts",
    "live invoices are not held back by missing settings",
    "all open offset links can be paid",
    "live certificates of invalid lots are decided about",
    "live orders of invalid lots get other credits within an hour",
    "live units are closed at the end of their waiting time",
}


async def test_the_exit_code_distinguishes_warnings_from_broken_invariants(operator: Operator, desk: Desk) -> None:
    done = tonne("doctor", database_url=operator.url, smtp_url="smtp://mail.test")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All checks passed.")
    desk.clock.advance(days=-400)
    order_id = await _unpriced(desk)

    done = tonne("doctor", database_url=operator.url, smtp_url="smtp://mail.test")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (WARNINGS_CODE, "1 warning. See above.")
    assert "WARN    live orders get a price within an hour" in done.stdout
    assert order_id in done.stdout
    assert "tonne catalogue import" in done.stdout
    report = _report(operator, WARNINGS_CODE)
    assert report["status"] == "warning"
    [check] = [check for check in report["checks"] if check["status"] != "ok"]
    assert check["name"] == "live orders get a price within an hour"
    assert order_id in check["found"][0]

    await desk.execute("UPDATE event_streams SET last_position = last_position + 1")
    done = tonne("doctor", database_url=operator.url, smtp_url="smtp://mail.test")
    assert done.returncode == 1
    assert "1 warning." in done.stderr
    assert _report(operator, 1)["status"] == "broken"


def _report(operator: Operator, code: int) -> dict[str, Any]:
    done = tonne("doctor", "--json", database_url=operator.url, smtp_url="smtp://mail.test")
    assert done.returncode == code
    report: dict[str, Any] = json.loads(done.stdout)
    return report

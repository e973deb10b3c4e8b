"""Rows of the live account that wait too long, each with the check of `tonne doctor` that names it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from tests.support.clock import ManualClock
from tests.support.orders import bring_to, place, receive
from tests.support.scene import Scene
from tests.support.world import SELLER, World, add_account
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order, OrderStatus

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
            self.clock().date(),
            amount_minor,
            state,
            order.id,
            self.clock(),
        )
        if state == "part_payment":
            await self.execute(
                "INSERT INTO transfer_assignments (id, transfer_id, invoice_id, amount_minor, by_operator, created_at, "
                "created_by, day, invoice_reference, organisation_id, mode, currency, invoice_paid) "
                "SELECT 'asg_1', transfer.id, invoices.id, transfer.amount_minor, false, imported_at, imported_by, "
                "booked_on, invoices.reference, invoices.organisation_id, invoices.mode, invoices.currency, false "
                "FROM bank_transfers transfer JOIN invoices ON invoices.id = transfer.invoice_id"
            )

    async def charge(self, status: str) -> None:
        order = await self.order(OrderStatus.PLACED)
        await self.execute(
            "INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, "
            "amount_minor, currency, status, reference, created_at, settled_at, next_attempt_at) "
            "VALUES ($1, 'chg_1', $2, $3, 'live', 1, 'stripe', 'hosted_page', 100, 'EUR', $4::text, "
            "CASE WHEN $4 = 'pending' THEN NULL ELSE 'pi_1' END, $5::timestamptz, "
            "CASE WHEN $4 = 'pending' THEN NULL ELSE $5 END, $5)",
            order.scope.account_id,
            order.id,
            order.scope.organisation_id,
            status,
            self.clock(),
        )

    async def webhook(self, **columns: object) -> None:
        await self.execute(
            "INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, "
            "cursor_position, next_attempt_at, failing_since, failures) "
            "VALUES ($1, 'live', 'whk_1', 'https://a.test', $2, '', 'abcd', 0, $2, $3, 3)",
            self.world.ours_live.scope.organisation_id,
            self.clock(),
            columns.get("failing_since"),
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


async def unpriced(desk: Desk) -> str:
    return (await receive(desk.services, desk.world.ours_live.scope, desk.clock())).id


async def _unsupplied(desk: Desk) -> str:
    order = await desk.order(PAID)
    await desk.execute("UPDATE orders SET next_attempt_at = $1 WHERE id = $2", desk.clock(), order.id)
    return order.id


async def _unbilled(desk: Desk) -> str:
    order = await desk.order(OrderStatus.PLACED)
    await desk.execute(
        "INSERT INTO billing_groups (id, organisation_id, mode, currency, billing, threshold_minor, order_count, "
        "exact_cost) SELECT 'bgr_1', organisation_id, mode, currency, 'monthly', 0, 1, total_cost_minor FROM orders"
    )
    await desk.execute(
        "INSERT INTO unbilled_orders (account_id, order_id, group_id, reference, placed_at, joins_at, "
        "quantity_grams, total_minor, exact_cost, exact_fee) SELECT account_id, id, 'bgr_1', 'x', $1, $1, "
        "quantity_grams, total_cost_minor, total_cost_minor, 0 FROM orders",
        desk.clock(),
    )
    return order.scope.organisation_id


async def _unjoined(desk: Desk) -> str:
    await _unbilled(desk)
    await desk.execute("UPDATE unbilled_orders SET group_id = NULL")
    await desk.execute("DELETE FROM billing_groups")
    order_id: str = await desk.fetchval("SELECT id FROM orders")
    return order_id


async def _fulfilled_on_credit(desk: Desk) -> str:
    await desk.invoice()
    await desk.execute("UPDATE orders SET status = 'retiring'")
    return "TN-LIVE-000001"


async def _unapproved_write_off(desk: Desk) -> str:
    await desk.invoice()
    await desk.execute(
        "INSERT INTO write_offs (id, invoice_id, amount_minor, reason, releases_credit, state, requested_at, "
        "requested_by) SELECT 'wof_1', id, 100, 'x', false, 'approval', $1, '' FROM invoices",
        desk.clock(),
    )
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


async def _undocumented(desk: Desk) -> str:
    order = await desk.order(PAID)
    await desk.execute(
        "INSERT INTO due_documents (account_id, order_id, organisation_id, mode, paid_at, next_attempt_at) "
        "SELECT account_id, id, organisation_id, mode, $1, $1 FROM orders ON CONFLICT DO NOTHING",
        desk.clock(),
    )
    return order.id


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


async def _unconnected_mail(desk: Desk) -> str:
    await desk.execute(
        "INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at, last_error) "
        "VALUES ('mail_1', 'org_1', '{a@b.test}', '', $1, $1, 'no connection to the mail server: refused')",
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
        organisation_id,
        desk.clock(),
    )
    return "acc_1"


async def _unanswered_einvoice(desk: Desk) -> str:
    await desk.invoice()
    await desk.execute(
        "INSERT INTO einvoice_deliveries (document_id, organisation_id, mode, number, format, receiver, state, "
        "created_at) SELECT id, organisation_id, mode, reference, 'peppol', '9930:DE1', 'unknown', $1 "
        "FROM tax_documents",
        desk.clock(),
    )
    return "TN-LIVE-000001 to 9930:DE1, without an answer"


async def _request_in_doubt(desk: Desk) -> str:
    async with desk.database.transaction() as tx:
        # No account is live yet: without foreign keys.
        await tx.execute("SET LOCAL session_replication_role = replica")
        await tx.execute(
            "INSERT INTO registry_instructions (mode, id, registry_account, lot_id, holding_id, units, unit_count, "
            "beneficiary, reference, state, in_doubt, recorded_at, sent_at, next_attempt_at) "
            "VALUES ('live', 'rin_1', 'registry', 'lot_1', 'lot_1', '1 to 2', 2, 'Ada', 'T-1', 'asked', 1, $1, $1, $1)",
            desk.clock(),
        )
    return "request rin_1 (T-1) to registry: 2 units of lot lot_1"


async def _drift(desk: Desk) -> str:
    await desk.execute("INSERT INTO registry_accounts (id, mode, adapter) VALUES ('desk-verra', 'live', 'desk')")
    sql = (
        "INSERT INTO registry_drifts (mode, id, registry_account, cause, lot_id, units, unit_grams, seen_at, "
        "confirmed_at) VALUES ('live', 'drf_1', 'desk-verra', 'difference', 'lot_1', 1, 1000000, $1, $1)"
    )
    await desk.execute(sql, desk.clock())
    return "drf_1 at desk-verra: difference of 1 units of lot lot_1"


async def _uncomposed(desk: Desk) -> str:
    order = await place(desk.services, desk.world.ours_live.scope, desk.clock())
    await desk.execute(
        "INSERT INTO order_mails (account_id, order_id, kind, cause, organisation_id, mode, amount_minor, created_at) "
        "SELECT account_id, id, 'receipt', 'chg_1', organisation_id, mode, 1, $1 FROM orders",
        desk.clock(),
    )
    return f"receipt of order {order.id}"


async def _aging_rate(desk: Desk) -> str:
    async with desk.database.transaction() as tx:
        await add_account(tx, desk.world.ours_live.scope.organisation_id, Mode.LIVE, currency="NOK")
        await tx.execute(
            "INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source) "
            "VALUES ('live', 'EUR', 'NOK', $1, 11.8, 'test'), ('live', 'EUR', 'NOK', '2099-01-01', 11.8, 'test')",
            desk.clock(),
        )
    return f"EUR to NOK: the newest rate is of {desk.clock():%Y-%m-%d}"


async def _late_price(desk: Desk) -> str:
    await desk.execute(
        "INSERT INTO price_changes (id, mode, bundle_id, unit_price_minor, starts_at, created_at, created_by, "
        "next_attempt_at) VALUES ('pch_1', 'live', $1, 1234, $2, $2, 'cli:test', $2)",
        next(iter(desk.world.bundles_live.values())),
        desk.clock(),
    )
    return "pch_1"


# Each check that needs time to pass, and how much.
LATE: list[tuple[Arrange, timedelta, str]] = [
    # Three quarters of 31 days: early enough to import a new rate before orders wait.
    (_aging_rate, timedelta(days=23, hours=6), "live accounts have a recent exchange rate"),
    (_late_price, timedelta(hours=1), "scheduled live prices are applied within an hour"),
    (unpriced, timedelta(hours=1), "live orders get a price within an hour"),
    # Since 1 November, 9:00.
    (_unbilled, timedelta(days=29, hours=17), "live consolidated invoices are issued within an hour"),
    (_unjoined, timedelta(hours=1), "live consolidated invoices are issued within an hour"),
    (
        _fulfilled_on_credit,
        timedelta(days=44, hours=15),
        "live invoices of fulfilled orders are paid before others would be cancelled",
    ),
    (_unapproved_write_off, timedelta(days=3), "write-offs are approved within three days"),
    (_pending, timedelta(days=2), "live charges have an outcome within two days"),
    (_unconfirmed, timedelta(days=5), "live payments are confirmed at least two days before the end"),
    (_unmailed, timedelta(hours=1), "live invoices are mailed within an hour"),
    (_undocumented, timedelta(hours=1), "live card payments have their document within an hour"),
    (_partly_paid, timedelta(days=7), "partly paid invoices are paid in full within a week"),
    (_unmatched, timedelta(days=3), "unmatched live bank transfers are resolved within three days"),
    (_unpaid_return, timedelta(days=3), "live bank refunds are made within three days"),
    (_doubtful_line, timedelta(days=3), "doubtful lines of bank statements are decided within three days"),
    (_held_mail, timedelta(hours=6), "mails are sent within six hours"),
    (_unconnected_mail, timedelta(minutes=10), "the mail server is reached within ten minutes"),
    (_uncomposed, timedelta(minutes=10), "mails about payments are composed within ten minutes"),
    (_unsupplied, timedelta(days=1), "paid live orders get supply within a day"),
    (_to_retire, timedelta(days=7), "live retirements are confirmed within TONNE_RETIREMENT_DAYS"),
    (_open_unit, timedelta(), "no pooled live unit is retired within three days with a rest that nobody bought"),
    (_unanswered_einvoice, timedelta(days=3), "electronic invoices were accepted"),
    (_request_in_doubt, timedelta(minutes=15), "registries answer within 15 minutes whether live credits are retired"),
    (_drift, timedelta(), "no registry contradicts the books of live credits"),
    (_failing_webhook, timedelta(hours=1), "live webhooks deliver"),
    (_parked_account, timedelta(hours=1), "no account of a live webhook is parked for an hour"),
]

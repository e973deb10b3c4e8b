"""A month of orders that wait for consolidated invoices: many accounts, in organisations of ten."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from bench.copies import BULK, column_names, literal, without_flushing, without_indexes
from bench.environment import SECRET_KEY, Environment, open_environment
from bench.pace import BillingPace
from bench.recount import count_copied_orders
from bench.tenants import MODE
from tests.support.orders import place
from tests.support.world import ADDRESS, TESTER, add_account
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.read_journal import Period
from tonne.money.invoices.issuing.collect_orders import start_of_month
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.model import AccountKind, Billing
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

ACCOUNTS_EACH = 10
SETTINGS: dict[str, Any] = {
    "tax_treatment": "standard",
    "tax_rate": "19",
    "seller_country": "DE",
    "seller_vat_id": "DE136695976",
}
# Longer than any month: every round is billed and booked in a month of its own.
ROUND = timedelta(days=31)
TABLES = ("orders", "order_lines", "unbilled_orders")


@dataclass(slots=True)
class Month:
    """`rounds` numbers the orders of each filling, which have ids of their own."""

    environment: Environment
    database: Database
    settings: Settings
    accounts: list[Scope]
    template_id: str
    rounds: int = 0

    def clock(self) -> datetime:
        return utc_now() + self.rounds * ROUND

    def period(self) -> Period:
        start = start_of_month(self.clock())
        return Period(MODE, start, start_of_month(start + ROUND))

    def order_ids(self) -> str:
        """A LIKE pattern for the orders of this round."""
        return f"ord\\_bench{self.rounds}\\_%"

    async def fill(self, orders_each: int) -> None:
        """Let this many orders of each account wait, as `issue_invoices` would."""
        self.rounds += 1
        is_bulk = orders_each * len(self.accounts) >= BULK
        connection = self.environment.connection
        async with connection() as one, connection() as two, without_flushing(one):
            # Skip the foreign key triggers: the copies are correct by construction.
            await one.execute("SET session_replication_role = replica")
            await one.execute(COPIES, orders_each, self.rounds, [each.account_id for each in self.accounts])
            async with without_indexes(one, two, TABLES if is_bulk else ()):
                for table, column in (("orders", "id"), ("order_lines", "order_id")):
                    await _copy(one, table, column, self.template_id)
                await one.execute("ANALYZE orders")
                await one.execute(GROUPS, self.clock(), MODE, self.order_ids())
                await one.execute(UNBILLED, self.order_ids())
            await one.execute("DROP TABLE bench_orders")
            await count_copied_orders(one)
            await one.execute("VACUUM ANALYZE")

    async def complete(self) -> None:
        """Complete the billed orders of this round in its month, so that its journal has an entry for each."""
        async with self.environment.connection() as connection, without_flushing(connection):
            await connection.execute(COMPLETE, self.clock(), self.order_ids())
            await connection.execute("VACUUM ANALYZE orders")


COPIES = """
CREATE TEMPORARY TABLE bench_orders AS
SELECT accounts.organisation_id, accounts.id AS account_id,
       format('ord_bench%s_%s_%s', $2::integer, right(accounts.id, 12), n) AS order_id
FROM accounts CROSS JOIN generate_series(1, $1::integer) AS n WHERE accounts.id = ANY ($3::text[])
"""
# The exact cost and fee of each order, of all its lines.
_EXACT = """
CROSS JOIN LATERAL (
    SELECT sum(line.quantity_grams::numeric * line.gross_unit_price_minor) AS cost,
           sum(line.quantity_grams::numeric * (line.gross_unit_price_minor - line.unit_price_minor)) AS fee
    FROM order_lines line WHERE line.account_id = orders.account_id AND line.order_id = orders.id
) AS exact
"""
GROUPS = f"""
INSERT INTO billing_groups (id, organisation_id, mode, currency, billing, threshold_minor, order_count, exact_cost,
                            next_attempt_at)
SELECT 'bgr_' || orders.organisation_id, orders.organisation_id, $2, 'EUR', 'monthly', 0, count(*),
       sum(exact.cost), $1::timestamptz - interval '1 s'
FROM orders {_EXACT}
WHERE orders.id LIKE $3 GROUP BY orders.organisation_id
ON CONFLICT (organisation_id, mode, currency, billing, threshold_minor, account_id) DO UPDATE SET
    order_count = excluded.order_count, exact_cost = excluded.exact_cost, next_attempt_at = excluded.next_attempt_at
"""
UNBILLED = f"""
INSERT INTO unbilled_orders (account_id, order_id, group_id, reference, placed_at, joins_at, quantity_grams,
                             total_minor, exact_cost, exact_fee)
SELECT orders.account_id, orders.id, 'bgr_' || orders.organisation_id, orders.idempotency_key, orders.created_at,
       orders.created_at, orders.quantity_grams, orders.total_cost_minor, exact.cost, exact.fee
FROM orders {_EXACT}
WHERE orders.id LIKE $1
"""
COMPLETE = "UPDATE orders SET status = 'complete', status_changed_at = $1 WHERE id LIKE $2"


async def _copy(connection: Connection, table: str, id_column: str, template_id: str) -> None:
    own_document = f"replace(convert_from(template.wire_document, 'UTF8'), {literal(template_id)}, copy.order_id)"
    changes = {
        id_column: "copy.order_id",
        "account_id": "copy.account_id",
        "organisation_id": "copy.organisation_id",
        "idempotency_key": "copy.order_id",
        "wire_document": f"convert_to({own_document}, 'UTF8')",
    }
    names = list(await column_names(connection, table))
    values = [changes.get(name, f"template.{name}") for name in names]
    await connection.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} "
        f"FROM bench_orders copy CROSS JOIN {table} template WHERE template.{id_column} = $1",
        template_id,
    )


@contextlib.asynccontextmanager
async def open_month(pace: BillingPace) -> AsyncIterator[Month]:
    async with open_environment() as environment:
        settings = msgspec.structs.replace(Settings(), secret_key=SECRET_KEY, **SETTINGS)
        database = await Database(environment.url, settings).open()
        try:
            async with database.transaction() as tx:
                accounts = [scope for n in range(pace.accounts // ACCOUNTS_EACH) for scope in await _open(tx, n)]
            services = Services(database, settings, utc_now)
            last_month = start_of_month(utc_now()) - timedelta(days=3)
            template = await place(services, accounts[0], last_month)
            async with environment.connection() as connection:
                await connection.execute("UPDATE orders SET next_attempt_at = NULL WHERE id = $1", template.id)
            yield Month(environment, database, settings, accounts, template.id)
        finally:
            await database.close()


async def _open(tx: Connection, number: int) -> list[Scope]:
    now = utc_now()
    organisation = await open_organisation(tx, f"Billed {number}", DEFAULT_FEE_RATE, by=TESTER.at(now))
    await set_tax_profile(tx, organisation.id, ADDRESS, by=TESTER.at(now))
    kinds = [AccountKind.ACCOUNT, *[AccountKind.CLIENT_ACCOUNT] * (ACCOUNTS_EACH - 1)]
    scopes = [await add_account(tx, organisation.id, MODE, kind=kind) for kind in kinds]
    for scope in scopes:
        change = AccountChange(billing=BillingChange(billing=Billing.MONTHLY))
        await change_account(tx, scope, change, by=TESTER.at(now))
    return scopes

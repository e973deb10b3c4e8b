"""SQL about customers, for the operator: search, and numbers of one."""

from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Tenant
from tonne.platform.values.paging import Position

# More invoices are not added up: the page says so.
MAX_INVOICES = 1_000


class Customer(Struct, frozen=True):
    id: str
    name: str
    fee_rate: Fraction
    created_at: datetime
    closed_at: datetime | None
    closed_reason: str | None


_CUSTOMER = """
organisation.id, organisation.name, organisation.fee_rate, organisation.created_at, organisation.closed_at,
organisation.closed_reason
"""
# The text is a part of the name or of a person's address, or the whole id, account id or tax id.
SEARCH_CUSTOMERS = f"""
SELECT {_CUSTOMER} FROM organisations organisation
WHERE (organisation.created_at, organisation.id) < ($1, $2)
  AND ($3 = '' OR organisation.id = $3 OR strpos(lower(organisation.name), lower($3)) > 0
       OR organisation.id IN (SELECT member.organisation_id FROM memberships member
                              JOIN users ON users.id = member.user_id WHERE strpos(users.email, lower($3)) > 0)
       OR organisation.id IN (SELECT admin.organisation_id FROM organisation_admins admin
                              WHERE strpos(lower(admin.email), lower($3)) > 0)
       OR organisation.id IN (SELECT account.organisation_id FROM accounts account WHERE account.id = $3)
       OR organisation.id IN (SELECT profile.organisation_id FROM tax_profiles profile
                              WHERE upper(replace(profile.tax_id, ' ', '')) = upper(replace($3, ' ', ''))))
ORDER BY organisation.created_at DESC, organisation.id DESC LIMIT $4
"""  # noqa: S608 - columns above


async def search_customers_any_account(
    connection: Connection, text: str, start: Position, limit: int
) -> list[Customer]:
    """Newest first. An empty text finds all."""
    rows = await connection.fetch(SEARCH_CUSTOMERS, start.created_at, start.id, text, limit)
    return [Customer(**{**row, "fee_rate": Fraction(row["fee_rate"])}) for row in rows]


FIND_CUSTOMER = f"SELECT {_CUSTOMER} FROM organisations organisation WHERE organisation.id = $1"  # noqa: S608 - columns above


async def find_customer(connection: Connection, organisation_id: str) -> Customer | None:
    row = await connection.fetchrow(FIND_CUSTOMER, organisation_id)
    return None if row is None else Customer(**{**row, "fee_rate": Fraction(row["fee_rate"])})


class CustomerAccount(Struct, frozen=True):
    """An account in the list of a customer's accounts. `ordered_at` is when its last order was placed."""

    id: str
    name: str
    kind: str
    currency: str
    payment_method: str
    monthly_limit_minor: int | None
    credit_limit_minor: int | None
    fulfil: str
    closed_at: datetime | None
    created_at: datetime
    ordered_at: datetime | None


LIST_CUSTOMER_ACCOUNTS = """
SELECT account.id, account.name, account.kind, account.currency, account.payment_method, account.monthly_limit_minor,
       account.credit_limit_minor, account.fulfil, account.closed_at, account.created_at,
       (SELECT orders.created_at FROM orders WHERE orders.account_id = account.id
        ORDER BY orders.created_at DESC, orders.id DESC LIMIT 1) AS ordered_at
FROM accounts account
WHERE account.organisation_id = $1 AND account.mode = $2 AND (account.created_at, account.id) < ($3, $4)
ORDER BY account.created_at DESC, account.id DESC LIMIT $5
"""


async def list_customer_accounts(
    connection: Connection, tenant: Tenant, start: Position, limit: int
) -> list[CustomerAccount]:
    rows = await connection.fetch(LIST_CUSTOMER_ACCOUNTS, *tenant, start.created_at, start.id, limit)
    return [CustomerAccount(**row) for row in rows]


class OpenInvoices(Struct, frozen=True):
    """In one currency: how many are open, what they sum up to, and what of it is overdue."""

    currency: str
    count: int
    total_minor: int
    overdue_minor: int


SUM_OPEN_INVOICES = """
SELECT currency, count(*) AS count, sum(open_minor)::bigint AS total_minor,
       coalesce(sum(open_minor) FILTER (WHERE due_on < $3), 0)::bigint AS overdue_minor
FROM (SELECT invoices.currency, invoices.due_on, invoices.total_minor - invoices.credited_minor AS open_minor
      FROM invoices
      WHERE invoices.organisation_id = $1 AND invoices.mode = $2 AND invoices.status = 'open'
        AND invoices.written_off_at IS NULL
      LIMIT $4) AS each
GROUP BY currency ORDER BY currency
"""


async def sum_open_invoices(connection: Connection, tenant: Tenant, today: date) -> Sequence[OpenInvoices]:
    rows = await connection.fetch(SUM_OPEN_INVOICES, *tenant, today, MAX_INVOICES)
    return [OpenInvoices(**row) for row in rows]


SUM_RETIRED = """
SELECT coalesce(sum(total.grams), 0)::bigint FROM accounts account
JOIN retired_totals total ON total.account_id = account.id
WHERE account.organisation_id = $1 AND account.mode = $2
"""


async def sum_retired_grams(connection: Connection, tenant: Tenant) -> int:
    grams: int = await connection.fetchval(SUM_RETIRED, *tenant)
    return grams

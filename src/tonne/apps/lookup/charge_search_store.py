"""Finds charges of all organisations, for the operator."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of

_CHARGE = """
id, order_id,
(SELECT string_agg(document.reference, ', ' ORDER BY document.reference) FROM charge_invoices document
 WHERE document.account_id = charges.account_id AND document.charge_id = charges.id) AS invoice, mode,
attempt, gateway, source, amount_minor, currency, status, outcome, reference, code, message, created_at, settled_at,
refunded_at, next_attempt_at, account_id, organisation_id
"""


class ChargeSearch(Struct, frozen=True):
    """All that are set must match. `since` is included, `until` is not. `reference` is the gateway's.

    `order_id` also finds the charges for the invoice of the order, `invoice` those for the invoice with this number.
    """

    order_id: str | None = None
    invoice: str | None = None
    reference: str | None = None
    status: str | None = None
    mode: str | None = None
    organisation_id: str | None = None
    account_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


# In the order of the parameters below.
_SEARCH = "order_id, reference, status, mode, organisation_id, account_id, since, until, invoice"


class FoundCharge(Struct, frozen=True, kw_only=True):
    id: str
    # Exactly one of them is set. Invoices are named by their numbers.
    order_id: str | None
    invoice: str | None
    mode: str
    attempt: int
    gateway: str
    source: str
    amount_minor: int
    currency: str
    status: str
    outcome: str | None
    reference: str | None
    code: str | None
    message: str | None
    created_at: datetime
    settled_at: datetime | None
    refunded_at: datetime | None
    next_attempt_at: datetime | None
    account_id: str
    organisation_id: str


SEARCH_CHARGES = f"""
SELECT {_CHARGE} FROM charges
WHERE ($1::text IS NULL OR order_id = $1
       OR id IN (SELECT document.charge_id FROM charge_invoices document
                 JOIN invoice_orders billed ON billed.invoice_id = document.invoice_id WHERE billed.order_id = $1))
  AND ($2::text IS NULL OR reference = $2) AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR mode::text = $4) AND ($5::text IS NULL OR organisation_id = $5)
  AND ($6::text IS NULL OR account_id = $6) AND ($7::timestamptz IS NULL OR created_at >= $7)
  AND ($8::timestamptz IS NULL OR created_at < $8)
  AND ($9::text IS NULL OR id IN (SELECT document.charge_id FROM charge_invoices document
                                  JOIN invoices ON invoices.id = document.invoice_id WHERE invoices.reference = $9))
ORDER BY created_at DESC, id DESC LIMIT $10
"""  # noqa: S608 - columns above


async def search_charges_any_account(connection: Connection, search: ChargeSearch, limit: int) -> list[FoundCharge]:
    """Newest first."""
    rows = await connection.fetch(SEARCH_CHARGES, *parameters_of(search, _SEARCH), limit)
    return [FoundCharge(**row) for row in rows]


FIND_CHARGE = f"SELECT {_CHARGE} FROM charges WHERE id = $1 OR reference = $1"  # noqa: S608 - columns above


async def find_charge_any_account(connection: Connection, name: str) -> FoundCharge | None:
    """By its id or the gateway's reference."""
    row = await connection.fetchrow(FIND_CHARGE, name)
    return None if row is None else FoundCharge(**row)

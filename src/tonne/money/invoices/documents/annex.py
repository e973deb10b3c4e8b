"""The annex of a consolidated invoice: its orders, by account."""

from datetime import UTC

import msgspec

from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money, format_tonnes


class AnnexOrder(msgspec.Struct, frozen=True):
    """`reference` is the client's own. `amount` contains the fee, but no tax."""

    order_id: str
    placed_on: str
    reference: str
    quantity: str
    amount: str


class AnnexAccount(msgspec.Struct, frozen=True):
    name: str
    orders: list[AnnexOrder]
    amount: str


Annex = list[AnnexAccount]

LIST_ANNEX = """
SELECT billed.account_id, accounts.name, billed.order_id, billed.placed_at, billed.reference, billed.quantity_grams,
       billed.offset_minor + billed.fee_minor AS net_minor
FROM invoice_orders billed JOIN accounts ON accounts.id = billed.account_id
WHERE billed.invoice_id = $1 ORDER BY accounts.name, billed.account_id, billed.placed_at, billed.order_id
"""


async def load_annex(connection: Connection, invoice: Invoice) -> Annex:
    """Empty for an invoice of one order. What was billed never changes, so neither does the annex."""
    if invoice.order_count == 1:
        return []
    accounts: dict[str, tuple[str, list[AnnexOrder], list[int]]] = {}
    for row in await connection.fetch(LIST_ANNEX, invoice.id):
        _, orders, amounts = accounts.setdefault(row["account_id"], (row["name"], [], []))
        amounts.append(row["net_minor"])
        orders.append(
            AnnexOrder(
                order_id=row["order_id"],
                placed_on=row["placed_at"].astimezone(UTC).date().isoformat(),
                reference=row["reference"],
                quantity=format_tonnes(row["quantity_grams"]),
                amount=format_money(row["net_minor"], invoice.currency),
            )
        )
    return [
        AnnexAccount(name, orders, format_money(sum(amounts), invoice.currency))
        for name, orders, amounts in accounts.values()
    ]

"""What an order that was reduced would have of the sums of its invoice."""

from msgspec import Struct

from tonne.money.invoices.documents.billed_sums import ExactOrder, OrderShare, SummedLine, sum_billed
from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import TaxTerms, charge_unit
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order
from tonne.selling.orders.store import tax_columns

# Of the orders with the same tax terms, without the order itself.
_OTHERS = """
FROM invoice_orders billed
JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
JOIN order_lines line ON line.account_id = billed.account_id AND line.order_id = billed.order_id
WHERE billed.invoice_id = $1 AND billed.order_id <> $2 AND orders.tax_treatment = $3 AND orders.tax_rate = $4"""
SUM_OTHERS = f"""
SELECT line.bundle_id, line.unit_price_minor, line.gross_unit_price_minor,
       sum(line.quantity_grams)::bigint AS quantity_grams {_OTHERS}
GROUP BY line.bundle_id, line.unit_price_minor, line.gross_unit_price_minor
"""
LIST_OTHERS = f"""
SELECT sum(line.quantity_grams::numeric * line.gross_unit_price_minor) AS exact_cost,
       sum(line.quantity_grams::numeric * (line.gross_unit_price_minor - line.unit_price_minor)) AS exact_fee {_OTHERS}
GROUP BY billed.account_id, billed.order_id ORDER BY billed.account_id, billed.order_id
"""


class _Price(Struct, frozen=True):
    bundle_id: str
    unit_price_minor: int
    gross_unit_price_minor: int


async def share_of_reduced(tx: Connection, invoice: Invoice, reduced: Order) -> OrderShare:
    """As if the invoice of a group were issued now. The other orders keep what they were billed."""
    others = (invoice.id, reduced.id, *tax_columns(reduced.tax)[:2])
    grams = {_Price(*row[:3]): row["quantity_grams"] for row in await tx.fetch(SUM_OTHERS, *others)}
    for line in reduced.lines:
        price = _Price(line.bundle_id, line.unit_price_minor, line.gross_unit_price_minor)
        grams[price] = grams.get(price, 0) + line.quantity_grams
    lines = [SummedLine(mass, each.unit_price_minor, each.gross_unit_price_minor) for each, mass in grams.items()]
    orders = [ExactOrder(int(row["exact_cost"]), int(row["exact_fee"])) for row in await tx.fetch(LIST_OTHERS, *others)]
    own = ExactOrder(reduced.exact_cost, reduced.exact_fee)
    unit = charge_unit(invoice.currency) if invoice.payment_method is PaymentMethod.CARD else 1
    return sum_billed(lines, [own, *orders], TaxTerms(reduced.tax.treatment, reduced.tax.rate), unit=unit).shares[0]

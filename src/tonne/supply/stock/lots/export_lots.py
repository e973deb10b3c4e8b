"""Lots as a file with the columns of lots.csv, to be corrected and imported again."""

import csv
import io
from collections.abc import Iterable

from tonne.platform.values.amounts import format_tonnes
from tonne.supply.stock.lots.lot_store import ListedLot
from tonne_verify.formulas import escape_formula

# The columns of lots.csv.
LOT_COLUMNS = (
    *("lot_id", "registry", "registry_project_id", "vintage", "serial", "quantity"),
    *("status", "retirement_url", "retired_on", "country", "methodology", "unit_cost", "cost_currency"),
)


def export_lots(lots: Iterable[ListedLot]) -> bytes:
    """CSV with a byte order mark."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(LOT_COLUMNS)
    for each in lots:
        computed = {"lot_id": each.id, "quantity": format_tonnes(each.quantity_grams)}
        cells = {name: computed.get(name) or getattr(each, name) for name in LOT_COLUMNS}
        writer.writerow([escape_formula("" if cells[name] is None else str(cells[name])) for name in LOT_COLUMNS])
    return text.getvalue().encode("utf-8-sig")

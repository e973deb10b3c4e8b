"""Lots as a file with the columns of lots.csv, to be corrected and imported again."""

import csv
import io
from collections.abc import Iterable

from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.supply.stock.lots.lot_store import ListedLot

# The columns of lots.csv.
LOT_COLUMNS = (
    *("lot_id", "registry", "registry_project_id", "vintage", "serial_block", "first_number", "last_number"),
    *("status", "retirement_url", "retired_on", "country", "methodology", "unit_cost", "cost_currency"),
)


def export_lots(lots: Iterable[ListedLot]) -> bytes:
    """CSV with a byte order mark."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(LOT_COLUMNS)
    for each in lots:
        cells = {"lot_id": each.id, **{name: getattr(each, name) for name in LOT_COLUMNS if name != "lot_id"}}
        writer.writerow([escape_formula("" if cells[name] is None else str(cells[name])) for name in LOT_COLUMNS])
    return text.getvalue().encode("utf-8-sig")

"""Cells of exported CSV files that a spreadsheet would run as formulas."""

import re
import string
import unicodedata

# Also U+2212, which some programs read as a minus sign.
_STARTS = frozenset("=+-@\N{MINUS SIGN}")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*", re.ASCII)
# Most cells begin with one of these, which no formula does: an export has many.
_HARMLESS = frozenset(string.ascii_letters + string.digits)
# Programs may drop these at the start of a cell and run the rest: spaces, control and invisible characters.
_IGNORED = ("Z", "C")


def escape_formula(cell: str) -> str:
    """Prefix a quote mark to text that a spreadsheet would run as a formula. Numbers stay, also negative ones."""
    if not cell or cell[0] in _HARMLESS or _NUMBER.fullmatch(cell):
        return cell
    first = next((c for c in cell if not unicodedata.category(c).startswith(_IGNORED)), "")
    # Full-width and small forms of the signs count, too. A tab or line break at the start may begin another cell.
    is_formula = unicodedata.normalize("NFKC", first)[:1] in _STARTS if first else False
    return f"'{cell}" if is_formula or cell[0] in "\t\r\n" else cell

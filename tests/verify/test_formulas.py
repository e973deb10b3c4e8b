"""Exported cells are never run as formulas."""

import pytest

from tonne_verify.formulas import escape_formula

FORMULAS = (
    *("=1", "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\tplain", "\rplain", "\nplain"),
    *(" =1", "   @x", "\u00a0=1", "\u200b=1", "\ufeff=1", "\u2060+A1", " \u200b\t=1", "\x00=1", "\x1b=1"),
    *("＝1+1", "＋A1", "－A1", "＠SUM", "﹦1", "﹢A1", "﹣A1", "﹫A1", " ＝1", "\u2212A1"),
    *("+49 30 1234", "-", "--1", "-1e", "+1-1", "=", "-1,5,x", "1\n=2"[1:]),
)
HARMLESS = ("", "Ada", "1-2", "'=1", "a@b", "a=b", " Ada", "\u200bAda", " ", "1", "0", "12.50", "3e5", "VCS-1 = x")
NUMBERS = ("-1", "+1", "-12.50", "-1,234.50", "-1.234,50", "+0")


@pytest.mark.parametrize("cell", FORMULAS, ids=ascii)
def test_security_22_a_formula_is_escaped(cell: str) -> None:
    assert escape_formula(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", [*HARMLESS, *NUMBERS], ids=ascii)
def test_text_and_numbers_stay(cell: str) -> None:
    assert escape_formula(cell) == cell

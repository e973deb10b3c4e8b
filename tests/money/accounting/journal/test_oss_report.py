"""The report of sales with the tax of other countries: per country and rate, less credit notes, in euros."""

from datetime import date
from decimal import Decimal

import msgspec

from tonne.money.accounting.reports.oss_report import OssSums
from tonne.money.accounting.reports.sales_list import SalesDocument
from tonne.selling.catalogue.prices.reference_rates import HomeRate


def document(kind: str, currency: str, *taxes: tuple[str, str, str, str]) -> SalesDocument:
    lines = [
        {"code": code, "treatment": "standard", "rate": rate, "net": net, "tax": tax} for code, rate, net, tax in taxes
    ]
    return SalesDocument(
        kind, "TN-1", date(2026, 11, 3), "org_1", currency, 1, 1, msgspec.json.encode({"taxes": lines})
    )


def test_sums_are_by_country_rate_and_currency() -> None:
    sums = OssSums()
    french, finnish = ("FR-S-20-OSS", "20", "10.00", "2.00"), ("FI-S-25-5-OSS", "25.5", "100.00", "25.50")
    sums.add(document("invoice", "EUR", french, ("DE-S-19", "19", "50.00", "9.50")))
    sums.add(document("simplified_invoice", "EUR", french))
    sums.add(document("credit_note", "EUR", ("FR-S-20-OSS", "20", "4.00", "0.80")))
    sums.add(document("invoice", "USD", finnish))
    rate = HomeRate("EUR", "USD", Decimal("1.25"), "ECB", date(2026, 12, 31))
    assert sums.rows({"USD": rate}) == [
        ("FI", "25.5", "USD", "100.00", "25.50", "2026-12-31", "80.00", "20.40"),
        ("FR", "20", "EUR", "16.00", "3.20", "", "16.00", "3.20"),
    ]
    assert sums.rows({})[0][-3:] == ("", "", "")

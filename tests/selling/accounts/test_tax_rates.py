"""Rates of VAT by country: those of the package, and those that were imported."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import eu_vat_rates_data
import pytest

from tests.support.command import Operator
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.countries import EU_COUNTRIES
from tonne.selling.accounts.tax.tax_rates import (
    SHIPPED_ON,
    find_tax_rate,
    rates_as_of,
    read_tax_rates,
    shipped_tax_rates,
)

DAY = date(2026, 11, 19)


def test_the_package_has_the_rates_of_the_published_data() -> None:
    published = {
        country: Decimal(str(known["standard"]))
        for country, known in eu_vat_rates_data.get_all_rates().items()
        if known["eu_member"]
    }
    assert {each.country: each.rate * 100 for each in shipped_tax_rates()} == published
    assert published.keys() == EU_COUNTRIES
    assert SHIPPED_ON.isoformat() == eu_vat_rates_data.data_version


async def test_imported_rates_replace_those_of_their_countries(db: Database, tmp_path: Path) -> None:
    operator, file = Operator(db._url), tmp_path / "rates.csv"
    file.write_text(
        "country,rate,valid_from,source\nFI,25.5,2024-09-01,Vero\nFI,26,2027-01-01,Vero\nGB,20,2011-01-04,HMRC\n"
    )
    assert "3 rates imported" in operator.does("tax", "rates", "import", str(file))
    async with db.connection() as connection:
        found = {
            (country, day): await find_tax_rate(connection, country, day)
            for country, day in [
                ("FI", DAY),
                ("FI", date(2027, 1, 1)),
                ("GB", DAY),
                ("DE", DAY),
                ("FI", date(2020, 1, 1)),
            ]
        }
        assert await rates_as_of(connection) >= max(SHIPPED_ON, datetime.now(UTC).date())
    assert list(found.values()) == [
        Decimal("0.255"),
        Decimal("0.26"),
        Decimal("0.2"),
        Decimal("0.19"),
        Decimal("0.255"),
    ]
    assert "FI,26,2027-01-01,Vero" in operator.does("tax", "rates", "show", "--csv")


def test_every_error_of_a_file_is_named() -> None:
    content = b"country,rate,valid_from,source\nXX,19,2026-01-01,a\nDE,19.1234,2026-01-01,a\nFR,20,soon,a\n"
    with pytest.raises(SheetInvalid) as failure:
        read_tax_rates(SheetFile("rates.csv", content))
    assert [(each.line, each.column) for each in failure.value.errors] == [
        (2, "country"),
        (3, "rate"),
        (4, "valid_from"),
    ]

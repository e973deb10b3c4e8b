"""The table of currencies."""

import pytest

from tonne.platform.values.amounts import DECIMALS


@pytest.mark.parametrize(
    ("currency", "decimals"),
    [
        ("EUR", 2),
        ("USD", 2),
        ("GBP", 2),
        ("CHF", 2),
        ("SEK", 2),
        ("MGA", 2),
        ("HUF", 2),
        ("JPY", 0),
        ("ISK", 0),
        ("KRW", 0),
        ("KWD", 3),
        ("TND", 3),
    ],
)
def test_decimals_are_those_of_iso_4217(currency: str, decimals: int) -> None:
    assert DECIMALS[currency] == decimals


def test_every_entry_is_a_code_with_a_number_of_decimals_that_amounts_can_have() -> None:
    assert all(len(code) == 3 and code.isascii() and code.isupper() for code in DECIMALS)
    assert set(DECIMALS.values()) == {0, 2, 3}


def test_each_currency_is_listed_once() -> None:
    """A code listed twice would silently get the decimals of the later row."""
    from tonne.platform.values import amounts as table  # noqa: PLC0415 - the rows, not what is made of them

    rows = [*table._DECIMALS_0.split(), *table._DECIMALS_2.split(), *table._DECIMALS_3.split()]
    assert len(rows) == len(set(rows)) == len(DECIMALS)


@pytest.mark.parametrize("code", ["XXX", "XTS", "XAU", "XDR", "DEM", "HRK", "eur", "BTC", ""])
def test_codes_that_are_not_money_are_not_listed(code: str) -> None:
    assert code not in DECIMALS

"""Tax ids: VAT numbers are validated where the rules of the country are known."""

import stdnum
from stdnum.eu import vat as eu_vat
from stdnum.exceptions import ValidationError

from tonne.platform.values.countries import EU_COUNTRIES

MAX_TAX_ID = 50


def parse_tax_id(text: str, country: str | None) -> str:
    """The tax id in its canonical spelling. Raises ValueError with what is wrong.

    For a country of the EU it must be that country's VAT number. Elsewhere the rules of the country apply if they
    are known. A validated number gets the prefix of its country (EL in Greece).
    """
    plain = " ".join(text.split())
    if not plain or len(plain) > MAX_TAX_ID or not plain.isprintable():
        raise ValueError(f"A tax id has 1 to {MAX_TAX_ID} printable characters.")
    if country in EU_COUNTRIES:
        return _parse_eu_vat(plain, country or "")
    rules = None if country is None else stdnum.get_cc_module(country.lower(), "vat")
    if rules is None:
        return plain
    try:
        number = str(rules.validate(plain))
    except ValidationError as error:
        raise ValueError(f"{plain} is not a valid VAT number of {country}: {error}") from error
    return number if number.startswith(country or "") else f"{country}{number}"


def is_eu_vat(text: str) -> bool:
    """Whether it is a VAT number of an EU country, with its prefix."""
    return bool(eu_vat.is_valid(text))


def has_vat_prefix(text: str, country: str | None) -> bool:
    """Whether it begins as the VAT numbers of the country do: with its code, or EL in Greece."""
    return country is not None and text[:2] == ("EL" if country == "GR" else country)


def country_of_vat(text: str) -> str:
    """The country of a VAT number of the EU. Raises ValueError if it is none."""
    if not is_eu_vat(text):
        raise ValueError(f"{text} is not a VAT number of a country of the EU, such as DE123456789.")
    return "GR" if text[:2].upper() == "EL" else text[:2].upper()


def _parse_eu_vat(text: str, country: str) -> str:
    prefix = "EL" if country == "GR" else country
    for candidate in (text, prefix + text):
        try:
            number = str(eu_vat.validate(candidate))
        except ValidationError:
            continue
        if number.startswith(prefix):
            return number
        raise ValueError(f"{text} is a VAT number of {number[:2]}, not of {country}.")
    raise ValueError(f"{text} is not a valid VAT number of {country}. Check it for typing errors.")

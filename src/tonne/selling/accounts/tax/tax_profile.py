"""The tax profile of an organisation: how its orders are taxed, and what its invoices state about it."""

from decimal import Decimal
from fractions import Fraction

from msgspec import Struct

from tonne.platform.values.amounts import TaxTerms, TaxTreatment
from tonne.platform.values.countries import alpha_2
from tonne.platform.values.tax_ids import parse_tax_id
from tonne.selling.accounts.errors import TaxProfileInvalid

_MAX_LENGTHS = {"legal_note": 500, "buyer_reference": 100, "street": 200, "postcode": 20, "city": 100}
# Rates have at most 3 decimals in per cent.
_RATE_DIGITS = 5


class TaxProfile(Struct, frozen=True, kw_only=True):
    """Without a treatment, the seller's default applies. `rate` is a share, and set only for `standard`."""

    treatment: TaxTreatment | None = None
    rate: Decimal | None = None
    country: str | None = None
    tax_id: str | None = None
    legal_note: str | None = None
    buyer_reference: str | None = None
    street: str | None = None
    postcode: str | None = None
    city: str | None = None

    def terms(self, seller_tax: TaxTerms) -> TaxTerms:
        if self.treatment is None:
            return seller_tax
        return TaxTerms(self.treatment, Fraction(self.rate or 0))


PROFILE_FIELDS = TaxProfile.__struct_fields__


def check_tax_profile(profile: TaxProfile) -> TaxProfile:
    """The profile in its canonical spelling. Raises TaxProfileInvalid with what is wrong."""
    texts = {name: _text(name, getattr(profile, name), longest) for name, longest in _MAX_LENGTHS.items()}
    country = None if profile.country is None else alpha_2(profile.country)
    if country is None and profile.country is not None:
        raise TaxProfileInvalid(f"{profile.country} is not a country. Use an ISO 3166 code, such as DE or DEU.")
    treatment, rate = profile.treatment, profile.rate
    if treatment is TaxTreatment.STANDARD:
        if rate is None or not is_tax_rate(rate):
            raise TaxProfileInvalid(
                "The treatment `standard` needs a rate above 0 and up to 100 per cent, with at most 3 decimals."
            )
    elif rate is not None:
        raise TaxProfileInvalid("Only the treatment `standard` has a rate.")
    try:
        tax_id = None if profile.tax_id is None else parse_tax_id(profile.tax_id, country)
    except ValueError as error:
        raise TaxProfileInvalid(str(error)) from error
    if treatment is TaxTreatment.REVERSE_CHARGE and (tax_id is None or country is None):
        raise TaxProfileInvalid("The treatment `reverse_charge` needs the country and the tax id of the buyer.")
    return TaxProfile(treatment=treatment, rate=rate, country=country, tax_id=tax_id, **texts)


def is_tax_rate(share: Decimal) -> bool:
    return 0 < share <= 1 and share == round(share, _RATE_DIGITS)


def _text(name: str, text: str | None, longest: int) -> str | None:
    plain = None if text is None else text.strip()
    if not plain:
        return None
    if len(plain) > longest or not plain.isprintable():
        spelled = name.replace("_", " ")
        raise TaxProfileInvalid(f"The {spelled} must have at most {longest} printable characters on one line.")
    return plain

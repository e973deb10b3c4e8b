"""The tax profile of an organisation: how its orders are taxed, what its invoices state about it, and changing it."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from tonne.platform.db.database import Connection, value_of
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import TaxTerms, TaxTreatment
from tonne.platform.values.context import By, replace
from tonne.platform.values.countries import alpha_2
from tonne.platform.values.einvoice import EInvoiceFormat, parse_endpoint
from tonne.platform.values.tax_ids import has_vat_prefix, parse_tax_id
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import TaxProfileInvalid
from tonne.selling.accounts.lookup import require_organisation

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
    # The electronic invoice that is wanted beside the PDF, and the electronic address to which it goes.
    einvoice: EInvoiceFormat | None = None
    endpoint: str | None = None

    @property
    def has_vat_id(self) -> bool:
        return self.tax_id is not None and has_vat_prefix(self.tax_id, self.country)

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
    try:
        endpoint = None if profile.endpoint is None else parse_endpoint(profile.endpoint)
    except ValueError as error:
        raise TaxProfileInvalid(str(error)) from error
    return TaxProfile(
        treatment=treatment,
        rate=rate,
        country=country,
        tax_id=tax_id,
        einvoice=profile.einvoice,
        endpoint=endpoint,
        **texts,
    )


def changed_profile(old: TaxProfile, changes: dict[str, Any]) -> TaxProfile:
    """A change of the treatment clears the rate unless `changes` has one, because only `standard` has a rate.

    Raises TaxProfileInvalid.
    """
    if changes.get("treatment", TaxTreatment.STANDARD) is not TaxTreatment.STANDARD:
        changes = {"rate": None, **changes}
    return check_tax_profile(replace(old, **changes))


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


FIND_TAX_PROFILE = """
SELECT treatment, rate, country, tax_id, legal_note, buyer_reference, street, postcode, city, einvoice, endpoint
FROM tax_profiles WHERE organisation_id = $1
"""


async def find_tax_profile(connection: Connection, organisation_id: str) -> TaxProfile:
    """An empty profile if the organisation has none."""
    row = await connection.fetchrow(FIND_TAX_PROFILE, organisation_id)
    if row is None:
        return TaxProfile()
    return value_of(TaxProfile, row)


SAVE_TAX_PROFILE = """
INSERT INTO tax_profiles (organisation_id, treatment, rate, country, tax_id, legal_note, buyer_reference, street,
                          postcode, city, einvoice, endpoint)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (organisation_id) DO UPDATE SET
    treatment = excluded.treatment, rate = excluded.rate, country = excluded.country, tax_id = excluded.tax_id,
    legal_note = excluded.legal_note, buyer_reference = excluded.buyer_reference, street = excluded.street,
    postcode = excluded.postcode, city = excluded.city, einvoice = excluded.einvoice, endpoint = excluded.endpoint
"""


async def save_tax_profile(tx: Connection, organisation_id: str, profile: TaxProfile) -> None:
    await tx.execute(SAVE_TAX_PROFILE, organisation_id, *(getattr(profile, name) for name in PROFILE_FIELDS))


async def read_tax_profile(connection: Connection, organisation_id: str) -> TaxProfile:
    """Raises OrganisationNotFound."""
    await require_organisation(connection, organisation_id)
    return await find_tax_profile(connection, organisation_id)


async def set_tax_profile(tx: Connection, organisation_id: str, changes: dict[str, Any], *, by: By) -> TaxProfile:
    """Change the given fields; None clears one. Orders that have a price keep their tax. Raises TaxProfileInvalid."""
    await store.lock_organisation(tx, organisation_id)
    old = await read_tax_profile(tx, organisation_id)
    new = changed_profile(old, changes)
    await save_tax_profile(tx, organisation_id, new)
    action, before, after = "organisation.tax_set", _audited(old), _audited(new)
    await audit.record(tx, organisation_id, action, by=by, before=before, after=after)
    return new


def _audited(profile: TaxProfile) -> dict[str, Any]:
    rate = None if profile.rate is None else str(profile.rate.normalize())
    return asdict(profile) | {"rate": rate}

"""SQL of `tax_profiles`."""

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.accounts.tax.tax_profile import PROFILE_FIELDS, TaxProfile

FIND_TAX_PROFILE = """
SELECT treatment, rate, country, tax_id, legal_note, buyer_reference, street, postcode, city
FROM tax_profiles WHERE organisation_id = $1
"""


async def find_tax_profile(connection: Connection, organisation_id: str) -> TaxProfile:
    """An empty profile if the organisation has none."""
    row = await connection.fetchrow(FIND_TAX_PROFILE, organisation_id)
    if row is None:
        return TaxProfile()
    values = dict(row)
    treatment = values.pop("treatment")
    return TaxProfile(treatment=None if treatment is None else TaxTreatment(treatment), **values)


SAVE_TAX_PROFILE = """
INSERT INTO tax_profiles (organisation_id, treatment, rate, country, tax_id, legal_note, buyer_reference, street,
                          postcode, city)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (organisation_id) DO UPDATE SET
    treatment = excluded.treatment, rate = excluded.rate, country = excluded.country, tax_id = excluded.tax_id,
    legal_note = excluded.legal_note, buyer_reference = excluded.buyer_reference, street = excluded.street,
    postcode = excluded.postcode, city = excluded.city
"""


async def save_tax_profile(tx: Connection, organisation_id: str, profile: TaxProfile) -> None:
    await tx.execute(SAVE_TAX_PROFILE, organisation_id, *(getattr(profile, name) for name in PROFILE_FIELDS))

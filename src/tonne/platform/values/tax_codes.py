"""The code of a tax, by which documents, the journal and the exports name it: `DE-S-19`, `FR-S-20-OSS`, `DE-AE`, `E`.

It is frozen on each tax line of a document. Codes are parts of the names of ledger accounts, which have capital
letters, digits and dashes only.
"""

from fractions import Fraction

from tonne.platform.values.amounts import TaxTreatment, format_rate

NO_TAX_CODE = "N"
_WITHOUT_COUNTRY = {TaxTreatment.NONE: NO_TAX_CODE, TaxTreatment.EXEMPT: "E", TaxTreatment.OUTSIDE_SCOPE: "O"}


def code_of(country: str | None, treatment: TaxTreatment, rate: Fraction, *, oss: bool = False) -> str:
    """`country` is the one whose tax it is: the seller's, or with `oss` that of the customer.

    `rate` is a share. The code has no country if that is not known, which only documents in test mode may have.
    """
    if treatment in _WITHOUT_COUNTRY:
        return _WITHOUT_COUNTRY[treatment]
    if treatment is TaxTreatment.REVERSE_CHARGE:
        parts = [country, "AE"]
    else:
        parts = [country, "S", format_rate(rate).replace(".", "-"), "OSS" if oss else None]
    return "-".join(part for part in parts if part)

"""Electronic invoices that a customer can choose, and the electronic addresses to which they go."""

import re
from collections.abc import Callable
from enum import StrEnum

from stdnum import ean
from stdnum.au import abn
from stdnum.be import vat as be_vat
from stdnum.it import codicefiscale, iva
from stdnum.no import orgnr as no_orgnr
from stdnum.se import orgnr as se_orgnr


class EInvoiceFormat(StrEnum):
    """In UBL, beside the Factur-X in the PDF."""

    PEPPOL = "peppol"
    XRECHNUNG = "xrechnung"


# Schemes of electronic addresses (EAS) that the rules of Peppol BIS Billing 3 know. 9930 is a German VAT id, 0204 a
# Leitweg-ID, 0088 a GLN.
_SCHEMES = """
0002 0007 0009 0037 0060 0088 0096 0097 0106 0130 0135 0142 0151 0183 0184 0188 0190 0191 0192 0193 0195 0196 0198 0199
0200 0201 0202 0204 0208 0209 0210 0211 0212 0213 0215 0216 0218 0221 0230 9901 9910 9913 9914 9915 9918 9919 9920 9922
9923 9924 9925 9926 9927 9928 9929 9930 9931 9932 9933 9934 9935 9936 9937 9938 9939 9940 9941 9942 9943 9944 9945 9946
9947 9948 9949 9950 9951 9952 9953 9957 9959
"""
SCHEMES = frozenset(_SCHEMES.split())
# An e-mail address. Peppol refuses it, XRechnung does not.
MAIL_SCHEME = "EM"
# Schemes whose check digits those rules look at.
_CHECKED: dict[str, Callable[[str], bool]] = {
    "0007": se_orgnr.is_valid,
    "0088": ean.is_valid,
    "0151": abn.is_valid,
    "0184": lambda id_: re.fullmatch("DK[0-9]{8}", id_, re.ASCII) is not None,
    "0192": no_orgnr.is_valid,
    "0201": lambda id_: re.fullmatch("[A-Za-z0-9]{6}", id_, re.ASCII) is not None,
    "0208": be_vat.is_valid,
    "0210": codicefiscale.is_valid,
    "0211": lambda id_: id_.startswith("IT") and iva.is_valid(id_),
}
_ADDRESS = re.compile(r"([0-9A-Z]{2,4}):([!-~]{2,100})", re.ASCII)
_MAIL = re.compile(r"[^@\s.][^@\s]*@[^@\s]+[^@\s.]", re.ASCII)
_LEITWEG_ID = re.compile(r"[0-9]{2,12}(-[A-Z0-9]{1,30})?-[0-9]{2}", re.ASCII)


def parse_endpoint(text: str) -> str:
    """An electronic address as `9930:DE811569869`. Raises ValueError with what is wrong."""
    scheme, _, address = text.partition(":")
    spelled = f"{scheme.strip().upper()}:{address.strip()}"
    found = _ADDRESS.fullmatch(spelled)
    if found is None:
        raise ValueError("An electronic address is a scheme and an id, such as 9930:DE811569869.")
    scheme, address = found[1], found[2]
    if scheme == MAIL_SCHEME:
        if not _MAIL.fullmatch(address):
            raise ValueError(f"{address} is not an e-mail address.")
    elif scheme not in SCHEMES:
        raise ValueError(f"{scheme} is not a scheme of electronic addresses (EAS). 9930 is a German VAT id.")
    elif scheme in _CHECKED and not _CHECKED[scheme](address):
        raise ValueError(f"{address} has wrong check digits for the scheme {scheme}.")
    return spelled


def can_receive(endpoint: str | None, chosen: EInvoiceFormat) -> bool:
    """Whether documents in this format may name the address."""
    if endpoint is None or chosen is EInvoiceFormat.XRECHNUNG:
        return endpoint is not None
    return not endpoint.startswith(f"{MAIL_SCHEME}:")


def is_leitweg_id(reference: str) -> bool:
    """The address of a public buyer in Germany."""
    return _LEITWEG_ID.fullmatch(reference) is not None

"""Elements of electronic invoices: those of Factur-X (UN/CEFACT Cross Industry Invoice), and of UBL."""

import re
from decimal import Decimal

from lxml import etree

_BASE = "urn:un:unece:uncefact:data:standard:"
CII = {
    "rsm": f"{_BASE}CrossIndustryInvoice:100",
    "ram": f"{_BASE}ReusableAggregateBusinessInformationEntity:100",
    "qdt": f"{_BASE}QualifiedDataType:100",
    "udt": f"{_BASE}UnqualifiedDataType:100",
}
_OASIS = "urn:oasis:names:specification:ubl:schema:xsd:"
UBL = {"cac": f"{_OASIS}CommonAggregateComponents-2", "cbc": f"{_OASIS}CommonBasicComponents-2"}
UBL_ROOTS = {"credit_note": ("CreditNote", f"{_OASIS}CreditNote-2"), "invoice": ("Invoice", f"{_OASIS}Invoice-2")}
_NAMESPACES = CII | UBL
# What XML 1.0 has no spelling for, and characters that have no meaning in it.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def qualified(name: str) -> str:
    prefix, _, local = name.partition(":")
    return f"{{{_NAMESPACES[prefix]}}}{local}"


def add(parent: etree._Element, name: str, text: str | None = None) -> etree._Element:
    """Append an element. The standard forbids empty ones, so text that nothing is left of becomes a dash."""
    element = etree.SubElement(parent, qualified(name))
    if text is not None:
        element.text = " ".join(_FORBIDDEN.sub(" ", text).split()) or "-"
    return element


def add_amount(parent: etree._Element, name: str, amount: str | Decimal) -> etree._Element:
    return add(parent, name, f"{amount:f}" if isinstance(amount, Decimal) else amount)


def add_date(parent: etree._Element, day: str, *, prefix: str = "udt") -> None:
    """`day` is `YYYY-MM-DD`. Format 102 is YYYYMMDD."""
    add(parent, f"{prefix}:DateTimeString", day.replace("-", "")).set("format", "102")

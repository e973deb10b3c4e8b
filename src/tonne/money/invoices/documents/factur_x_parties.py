"""Seller and buyer in the XML of Factur-X."""

from lxml import etree

from tonne.money.invoices.documents.factur_x_xml import add
from tonne.money.invoices.documents.record import InvoiceBuyer, InvoiceSeller, PostalAddress


def add_seller(agreement: etree._Element, seller: InvoiceSeller, *, is_untaxed: bool) -> None:
    """The standard forbids VAT numbers in a document outside the scope of tax: `is_untaxed`. It then needs an id."""
    party = add(agreement, "ram:SellerTradeParty")
    vat_id = None if is_untaxed else seller.vat_id
    if vat_id is None and seller.registration is None:
        add(party, "ram:ID", seller.tax_id or seller.vat_id or seller.email or seller.name)
    add(party, "ram:Name", seller.name)
    if seller.registration is not None:
        add(add(party, "ram:SpecifiedLegalOrganization"), "ram:ID", seller.registration)
    _add_address(party, seller.postal)
    if seller.email is not None:
        address = add(add(party, "ram:URIUniversalCommunication"), "ram:URIID", seller.email)
        address.set("schemeID", "EM")
    if seller.tax_id is not None and seller.tax_id != seller.vat_id:
        _add_registration(party, seller.tax_id, "FC")
    if vat_id is not None:
        _add_registration(party, vat_id, "VA")


def add_buyer(agreement: etree._Element, buyer: InvoiceBuyer, *, is_untaxed: bool) -> None:
    party = add(agreement, "ram:BuyerTradeParty")
    add(party, "ram:Name", buyer.name)
    is_vat_id = buyer.tax_id is not None and _has_prefix(buyer.tax_id, buyer.postal)
    if buyer.tax_id is not None and (is_untaxed or not is_vat_id):
        add(add(party, "ram:SpecifiedLegalOrganization"), "ram:ID", buyer.tax_id)
    _add_address(party, buyer.postal)
    if buyer.tax_id is not None and is_vat_id and not is_untaxed:
        _add_registration(party, buyer.tax_id, "VA")


def _has_prefix(tax_id: str, postal: PostalAddress | None) -> bool:
    """VAT numbers begin with the code of their country, EL in Greece."""
    country = None if postal is None else postal.country
    return tax_id[:2] == ("EL" if country == "GR" else country)


def _add_registration(party: etree._Element, tax_id: str, scheme: str) -> None:
    add(add(party, "ram:SpecifiedTaxRegistration"), "ram:ID", tax_id).set("schemeID", scheme)


def _add_address(party: etree._Element, postal: PostalAddress | None) -> None:
    if postal is None:
        return
    address = add(party, "ram:PostalTradeAddress")
    parts = {"PostcodeCode": postal.postcode, "LineOne": postal.street, "CityName": postal.city}
    for name, text in parts.items():
        if text:
            add(address, f"ram:{name}", text)
    add(address, "ram:CountryID", postal.country)

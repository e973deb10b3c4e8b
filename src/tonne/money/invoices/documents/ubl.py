"""An invoice or credit note as UBL 2.1, for Peppol BIS Billing 3 and XRechnung 3.0.

The rules of both are checked in `tests/money/invoices/test_ubl.py`; what a record must have is in `einvoice_fields.py`.
"""

from collections.abc import Mapping
from decimal import Decimal

from lxml import etree

from tonne.money.invoices.documents.positions import (
    CARD,
    SEPA_TRANSFER,
    TRANSFER,
    TYPE_CODES,
    XmlAllowance,
    XmlParts,
    XmlPosition,
    XmlTax,
    XmlTotals,
    parts_of,
)
from tonne.money.invoices.documents.record import (
    InvoiceBuyer,
    InvoiceRecord,
    InvoiceSeller,
    PostalAddress,
    TaxRepresentative,
)
from tonne.money.invoices.documents.xml_elements import UBL, UBL_ROOTS, add
from tonne.platform.values.einvoice import EInvoiceFormat

_BASE = "urn:cen.eu:en16931:2017#compliant#urn:"
_CUSTOMIZATIONS = {
    EInvoiceFormat.PEPPOL: f"{_BASE}fdc:peppol.eu:2017:poacc:billing:3.0",
    EInvoiceFormat.XRECHNUNG: f"{_BASE}xeinkauf.de:kosit:xrechnung_3.0",
}
_PROFILE = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
# UNTDID 4461. XRechnung demands digits of the card for code 48 (BR-DE-24-a), which a record does not have.
_ONLINE_SERVICE, _NOT_DEFINED = "68", "1"


def ubl_xml(record: InvoiceRecord, chosen: EInvoiceFormat) -> bytes:
    """The XML of a record of which nothing is missing for the format: see `missing_fields`."""
    is_credit = record.document == "credit_note"
    name, namespace = UBL_ROOTS["credit_note" if is_credit else "invoice"]
    root = etree.Element(f"{{{namespace}}}{name}", nsmap={None: namespace, **UBL})  # type: ignore[dict-item]
    parts = parts_of(record)
    _add_header(root, record, parts, chosen)
    _add_seller(root, record.seller, is_untaxed=parts.is_untaxed)
    _add_buyer(root, record.buyer, is_untaxed=parts.is_untaxed)
    if record.seller.representative is not None and not parts.is_untaxed:
        _add_representative(root, record.seller.representative)
    if record.supplied_on is not None:
        add(add(root, "cac:Delivery"), "cbc:ActualDeliveryDate", record.supplied_on)
    _add_payment_means(root, record, chosen)
    if is_credit:
        add(add(root, "cac:PaymentTerms"), "cbc:Note", "Credited to the buyer. Nothing is due.")
    for allowance in parts.allowances:
        _add_allowance(root, allowance, record.currency)
    _add_taxes(root, record, parts)
    _add_totals(root, record, parts.totals)
    for number, position in enumerate(parts.positions, start=1):
        _add_position(root, number, position, record.currency, is_credit=is_credit)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def _add_header(root: etree._Element, record: InvoiceRecord, parts: XmlParts, chosen: EInvoiceFormat) -> None:
    is_credit = record.document == "credit_note"
    add(root, "cbc:CustomizationID", _CUSTOMIZATIONS[chosen])
    add(root, "cbc:ProfileID", _PROFILE)
    add(root, "cbc:ID", record.number)
    add(root, "cbc:IssueDate", record.issued_on)
    if not is_credit:
        add(root, "cbc:DueDate", record.due_on)
    add(root, f"cbc:{'CreditNote' if is_credit else 'Invoice'}TypeCode", TYPE_CODES[record.document])
    if parts.notes:
        # Peppol takes one note only.
        add(root, "cbc:Note", " / ".join(parts.notes))
    add(root, "cbc:DocumentCurrencyCode", record.currency)
    if record.home is not None:
        add(root, "cbc:TaxCurrencyCode", record.home.currency)
    if record.buyer.reference:
        add(root, "cbc:BuyerReference", record.buyer.reference)
    if record.supply is not None:
        period = add(root, "cac:InvoicePeriod")
        add(period, "cbc:StartDate", record.supply.first_day)
        add(period, "cbc:EndDate", record.supply.last_day)
    if parts.order_number or record.order_id:
        order = add(root, "cac:OrderReference")
        # The schema demands a number of the buyer, and Peppol says how to state that there is none.
        add(order, "cbc:ID", parts.order_number or "NA")
        if record.order_id:
            add(order, "cbc:SalesOrderID", record.order_id)
    if (preceding := record.corrects or record.replaces) is not None:
        corrected = add(add(root, "cac:BillingReference"), "cac:InvoiceDocumentReference")
        add(corrected, "cbc:ID", preceding.number)
        add(corrected, "cbc:IssueDate", preceding.issued_on)


def _add_seller(root: etree._Element, seller: InvoiceSeller, *, is_untaxed: bool) -> None:
    """The standard forbids VAT numbers in a document outside the scope of tax: `is_untaxed`. It then needs an id."""
    party = add(add(root, "cac:AccountingSupplierParty"), "cac:Party")
    _add_endpoint(party, seller.endpoint)
    vat_id = None if is_untaxed else seller.vat_id
    if vat_id is None and seller.registration is None:
        own = seller.tax_id or seller.vat_id or seller.email or seller.name
        add(add(party, "cac:PartyIdentification"), "cbc:ID", own)
    _add_address(party, seller.postal)
    if vat_id is not None:
        _add_tax_scheme(party, vat_id, "VAT")
    if seller.tax_id is not None and seller.tax_id != seller.vat_id:
        _add_tax_scheme(party, seller.tax_id, "FC")
    legal = add(party, "cac:PartyLegalEntity")
    add(legal, "cbc:RegistrationName", seller.name)
    if seller.registration is not None:
        add(legal, "cbc:CompanyID", seller.registration)
    known = {"Name": seller.contact_name, "Telephone": seller.phone, "ElectronicMail": seller.email}
    if any(known.values()):
        _add_texts(add(party, "cac:Contact"), known)


def _add_buyer(root: etree._Element, buyer: InvoiceBuyer, *, is_untaxed: bool) -> None:
    party = add(add(root, "cac:AccountingCustomerParty"), "cac:Party")
    _add_endpoint(party, buyer.endpoint)
    _add_address(party, buyer.postal)
    vat_id = None if is_untaxed else buyer.vat_id
    if vat_id is not None:
        _add_tax_scheme(party, vat_id, "VAT")
    legal = add(party, "cac:PartyLegalEntity")
    add(legal, "cbc:RegistrationName", buyer.name)
    if vat_id is None and buyer.tax_id is not None:
        add(legal, "cbc:CompanyID", buyer.tax_id)


def _add_representative(root: etree._Element, representative: TaxRepresentative) -> None:
    party = add(root, "cac:TaxRepresentativeParty")
    add(add(party, "cac:PartyName"), "cbc:Name", representative.name)
    address = add(party, "cac:PostalAddress")
    first, second, third = [*representative.three_lines, None, None, None][:3]
    _add_texts(address, {"StreetName": first, "AdditionalStreetName": second})
    if third:
        add(add(address, "cac:AddressLine"), "cbc:Line", third)
    add(add(address, "cac:Country"), "cbc:IdentificationCode", representative.country)
    _add_tax_scheme(party, representative.vat_id, "VAT")


def _add_endpoint(party: etree._Element, endpoint: str | None) -> None:
    scheme, _, address = (endpoint or "").partition(":")
    add(party, "cbc:EndpointID", address).set("schemeID", scheme)


def _add_texts(parent: etree._Element, texts: Mapping[str, str | None]) -> None:
    for name, text in texts.items():
        if text:
            add(parent, f"cbc:{name}", text)


def _add_tax_scheme(party: etree._Element, id_: str, scheme: str) -> None:
    element = add(party, "cac:PartyTaxScheme")
    add(element, "cbc:CompanyID", id_)
    add(add(element, "cac:TaxScheme"), "cbc:ID", scheme)


def _add_address(party: etree._Element, postal: PostalAddress | None) -> None:
    if postal is None:
        return
    address = add(party, "cac:PostalAddress")
    _add_texts(address, {"StreetName": postal.street, "CityName": postal.city, "PostalZone": postal.postcode})
    add(add(address, "cac:Country"), "cbc:IdentificationCode", postal.country)


def _add_payment_means(root: etree._Element, record: InvoiceRecord, chosen: EInvoiceFormat) -> None:
    bank, is_credit = record.bank, record.document == "credit_note"
    code = _NOT_DEFINED
    if record.paid_by_card and not is_credit:
        code = CARD if chosen is EInvoiceFormat.PEPPOL else _ONLINE_SERVICE
    elif bank.iban is not None and not is_credit:
        code = SEPA_TRANSFER if record.currency == "EUR" else TRANSFER
    means = add(root, "cac:PaymentMeans")
    add(means, "cbc:PaymentMeansCode", code)
    add(means, "cbc:PaymentID", record.reference)
    if code in {SEPA_TRANSFER, TRANSFER} and bank.iban is not None:
        account = add(means, "cac:PayeeFinancialAccount")
        add(account, "cbc:ID", bank.iban.replace(" ", ""))
        add(account, "cbc:Name", bank.account_holder)
        if bank.bic is not None:
            add(add(account, "cac:FinancialInstitutionBranch"), "cbc:ID", bank.bic.replace(" ", ""))


def _add_allowance(root: etree._Element, allowance: XmlAllowance, currency: str) -> None:
    element = add(root, "cac:AllowanceCharge")
    add(element, "cbc:ChargeIndicator", "false")
    add(element, "cbc:AllowanceChargeReason", allowance.reason)
    _add_amount(element, "cbc:Amount", allowance.amount, currency)
    _add_category(element, "cac:TaxCategory", allowance.category, allowance.rate)


def _add_taxes(root: etree._Element, record: InvoiceRecord, parts: XmlParts) -> None:
    total = add(root, "cac:TaxTotal")
    _add_amount(total, "cbc:TaxAmount", parts.totals.tax, record.currency)
    for group in parts.taxes:
        part = add(total, "cac:TaxSubtotal")
        _add_amount(part, "cbc:TaxableAmount", group.net, record.currency)
        _add_amount(part, "cbc:TaxAmount", group.tax, record.currency)
        _add_category(part, "cac:TaxCategory", group.category, group.rate, group)
    if record.home is not None:
        _add_amount(add(root, "cac:TaxTotal"), "cbc:TaxAmount", record.home.tax, record.home.currency)


def _add_category(
    parent: etree._Element, name: str, category: str, rate: str | None, group: XmlTax | None = None
) -> None:
    element = add(parent, name)
    add(element, "cbc:ID", category)
    # XRechnung demands a rate of every group (BR-DE-14). The standard forbids one on lines outside the scope of tax.
    if category != "O" or group is not None:
        add(element, "cbc:Percent", rate or "0")
    if group is not None and group.reason_code is not None:
        add(element, "cbc:TaxExemptionReasonCode", group.reason_code)
    if group is not None and group.reason is not None:
        add(element, "cbc:TaxExemptionReason", group.reason)
    add(add(element, "cac:TaxScheme"), "cbc:ID", "VAT")


def _add_totals(root: etree._Element, record: InvoiceRecord, totals: XmlTotals) -> None:
    total, currency = add(root, "cac:LegalMonetaryTotal"), record.currency
    _add_amount(total, "cbc:LineExtensionAmount", totals.lines, currency)
    _add_amount(total, "cbc:TaxExclusiveAmount", totals.net, currency)
    _add_amount(total, "cbc:TaxInclusiveAmount", totals.total, currency)
    if totals.allowances:
        _add_amount(total, "cbc:AllowanceTotalAmount", totals.allowances, currency)
    if totals.prepaid:
        _add_amount(total, "cbc:PrepaidAmount", totals.prepaid, currency)
    _add_amount(total, "cbc:PayableAmount", totals.due, currency)


def _add_position(root: etree._Element, number: int, position: XmlPosition, currency: str, *, is_credit: bool) -> None:
    kind = "Credited" if is_credit else "Invoiced"
    line = add(root, f"cac:{'CreditNote' if is_credit else 'Invoice'}Line")
    add(line, "cbc:ID", str(number))
    add(line, f"cbc:{kind}Quantity", position.quantity).set("unitCode", position.unit)
    _add_amount(line, "cbc:LineExtensionAmount", position.amount, currency)
    if position.order_id is not None:
        reference = add(line, "cac:DocumentReference")
        add(reference, "cbc:ID", position.order_id)
        add(reference, "cbc:DocumentTypeCode", "130")
    item = add(line, "cac:Item")
    if position.description is not None:
        add(item, "cbc:Description", position.description)
    add(item, "cbc:Name", position.name)
    _add_category(item, "cac:ClassifiedTaxCategory", position.category, position.rate)
    price = add(line, "cac:Price")
    _add_amount(price, "cbc:PriceAmount", position.price, currency)
    if position.base_quantity is not None:
        add(price, "cbc:BaseQuantity", position.base_quantity).set("unitCode", position.unit)


def _add_amount(parent: etree._Element, name: str, amount: str | Decimal, currency: str) -> None:
    text = f"{amount:f}" if isinstance(amount, Decimal) else amount
    add(parent, name, text).set("currencyID", currency)

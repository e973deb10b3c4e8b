"""The electronic part of an invoice or credit note: Factur-X with the profile EN 16931, as XML.

All amounts are those of the record. `tests/money/invoices/test_factur_x.py` checks the XML by the official schema and
rules.
"""

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
from tonne.money.invoices.documents.xml_elements import CII, add, add_amount, add_date, qualified


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
    if buyer.tax_id is not None and (is_untaxed or buyer.vat_id is None):
        add(add(party, "ram:SpecifiedLegalOrganization"), "ram:ID", buyer.tax_id)
    _add_address(party, buyer.postal)
    if buyer.vat_id is not None and not is_untaxed:
        _add_registration(party, buyer.vat_id, "VA")


def _add_representative(agreement: etree._Element, representative: TaxRepresentative) -> None:
    party = add(agreement, "ram:SellerTaxRepresentativeTradeParty")
    add(party, "ram:Name", representative.name)
    address = add(party, "ram:PostalTradeAddress")
    for name, text in zip(("One", "Two", "Three"), representative.three_lines, strict=False):
        add(address, f"ram:Line{name}", text)
    add(address, "ram:CountryID", representative.country)
    _add_registration(party, representative.vat_id, "VA")


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


PROFILE = "urn:cen.eu:en16931:2017"


def factur_x_xml(record: InvoiceRecord) -> bytes:
    """The XML of a record for which `is_electronic` holds, with what was due at issue."""
    root = etree.Element(qualified("rsm:CrossIndustryInvoice"), nsmap=CII)
    context = add(root, "rsm:ExchangedDocumentContext")
    add(add(context, "ram:GuidelineSpecifiedDocumentContextParameter"), "ram:ID", PROFILE)
    parts = parts_of(record)
    _add_header(root, record, parts)
    transaction = add(root, "rsm:SupplyChainTradeTransaction")
    for number, position in enumerate(parts.positions, start=1):
        _add_position(transaction, number, position)
    _add_agreement(transaction, record, parts)
    delivery = add(transaction, "ram:ApplicableHeaderTradeDelivery")
    if record.supplied_on is not None:
        event = add(delivery, "ram:ActualDeliverySupplyChainEvent")
        add_date(add(event, "ram:OccurrenceDateTime"), record.supplied_on)
    else:
        # The schema demands the element, and the rules of Peppol that it is not empty.
        add(add(delivery, "ram:ShipToTradeParty"), "ram:Name", record.buyer.name)
    _add_settlement(transaction, record, parts)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def _add_header(root: etree._Element, record: InvoiceRecord, parts: XmlParts) -> None:
    document = add(root, "rsm:ExchangedDocument")
    add(document, "ram:ID", record.number)
    add(document, "ram:TypeCode", TYPE_CODES[record.document])
    add_date(add(document, "ram:IssueDateTime"), record.issued_on)
    for note in parts.notes:
        add(add(document, "ram:IncludedNote"), "ram:Content", note)


def _add_position(transaction: etree._Element, number: int, position: XmlPosition) -> None:
    item = add(transaction, "ram:IncludedSupplyChainTradeLineItem")
    add(add(item, "ram:AssociatedDocumentLineDocument"), "ram:LineID", str(number))
    product = add(item, "ram:SpecifiedTradeProduct")
    add(product, "ram:Name", position.name)
    if position.description is not None:
        add(product, "ram:Description", position.description)
    price = add(add(item, "ram:SpecifiedLineTradeAgreement"), "ram:NetPriceProductTradePrice")
    add_amount(price, "ram:ChargeAmount", position.price)
    if position.base_quantity is not None:
        add(price, "ram:BasisQuantity", position.base_quantity).set("unitCode", position.unit)
    quantity = add(add(item, "ram:SpecifiedLineTradeDelivery"), "ram:BilledQuantity", position.quantity)
    quantity.set("unitCode", position.unit)
    settlement = add(item, "ram:SpecifiedLineTradeSettlement")
    tax = add(settlement, "ram:ApplicableTradeTax")
    add(tax, "ram:TypeCode", "VAT")
    add(tax, "ram:CategoryCode", position.category)
    _add_rate(tax, position.category, position.rate)
    summation = add(settlement, "ram:SpecifiedTradeSettlementLineMonetarySummation")
    add_amount(summation, "ram:LineTotalAmount", position.amount)
    if position.order_id is not None:
        reference = add(settlement, "ram:AdditionalReferencedDocument")
        add(reference, "ram:IssuerAssignedID", position.order_id)
        add(reference, "ram:TypeCode", "130")


def _add_rate(tax: etree._Element, category: str, rate: str | None) -> None:
    if category != "O":
        add(tax, "ram:RateApplicablePercent", rate or "0")


def _add_agreement(transaction: etree._Element, record: InvoiceRecord, parts: XmlParts) -> None:
    agreement = add(transaction, "ram:ApplicableHeaderTradeAgreement")
    reference = record.buyer.reference
    if reference:
        add(agreement, "ram:BuyerReference", reference)
    add_seller(agreement, record.seller, is_untaxed=parts.is_untaxed)
    add_buyer(agreement, record.buyer, is_untaxed=parts.is_untaxed)
    if record.seller.representative is not None and not parts.is_untaxed:
        _add_representative(agreement, record.seller.representative)
    if record.order_id:
        add(add(agreement, "ram:SellerOrderReferencedDocument"), "ram:IssuerAssignedID", record.order_id)
    if parts.order_number:
        add(add(agreement, "ram:BuyerOrderReferencedDocument"), "ram:IssuerAssignedID", parts.order_number)


def _add_settlement(transaction: etree._Element, record: InvoiceRecord, parts: XmlParts) -> None:
    settlement = add(transaction, "ram:ApplicableHeaderTradeSettlement")
    add(settlement, "ram:PaymentReference", record.reference)
    if record.home is not None:
        add(settlement, "ram:TaxCurrencyCode", record.home.currency)
    add(settlement, "ram:InvoiceCurrencyCode", record.currency)
    is_credit = record.document == "credit_note"
    if not is_credit:
        _add_payment_means(settlement, record)
    for group in parts.taxes:
        _add_tax(settlement, group)
    if record.supply is not None:
        period = add(settlement, "ram:BillingSpecifiedPeriod")
        add_date(add(period, "ram:StartDateTime"), record.supply.first_day)
        add_date(add(period, "ram:EndDateTime"), record.supply.last_day)
    for allowance in parts.allowances:
        _add_allowance(settlement, allowance)
    terms = add(settlement, "ram:SpecifiedTradePaymentTerms")
    if is_credit:
        add(terms, "ram:Description", "Credited to the buyer. Nothing is due.")
    else:
        add_date(add(terms, "ram:DueDateDateTime"), record.due_on)
    _add_totals(settlement, record, parts.totals)
    if (preceding := record.corrects or record.replaces) is not None:
        corrected = add(settlement, "ram:InvoiceReferencedDocument")
        add(corrected, "ram:IssuerAssignedID", preceding.number)
        add_date(add(corrected, "ram:FormattedIssueDateTime"), preceding.issued_on, prefix="qdt")


def _add_payment_means(settlement: etree._Element, record: InvoiceRecord) -> None:
    bank = record.bank
    if record.paid_by_card:
        add(add(settlement, "ram:SpecifiedTradeSettlementPaymentMeans"), "ram:TypeCode", CARD)
    if bank.iban is None:
        return
    means = add(settlement, "ram:SpecifiedTradeSettlementPaymentMeans")
    add(means, "ram:TypeCode", SEPA_TRANSFER if record.currency == "EUR" else TRANSFER)
    account = add(means, "ram:PayeePartyCreditorFinancialAccount")
    add(account, "ram:IBANID", bank.iban.replace(" ", ""))
    add(account, "ram:AccountName", bank.account_holder)
    if bank.bic is not None:
        add(add(means, "ram:PayeeSpecifiedCreditorFinancialInstitution"), "ram:BICID", bank.bic.replace(" ", ""))


def _add_tax(settlement: etree._Element, group: XmlTax) -> None:
    tax = add(settlement, "ram:ApplicableTradeTax")
    add_amount(tax, "ram:CalculatedAmount", group.tax)
    add(tax, "ram:TypeCode", "VAT")
    if group.reason is not None:
        add(tax, "ram:ExemptionReason", group.reason)
    add_amount(tax, "ram:BasisAmount", group.net)
    add(tax, "ram:CategoryCode", group.category)
    if group.reason_code is not None:
        add(tax, "ram:ExemptionReasonCode", group.reason_code)
    _add_rate(tax, group.category, group.rate)


def _add_allowance(settlement: etree._Element, allowance: XmlAllowance) -> None:
    element = add(settlement, "ram:SpecifiedTradeAllowanceCharge")
    add(add(element, "ram:ChargeIndicator"), "udt:Indicator", "false")
    add_amount(element, "ram:ActualAmount", allowance.amount)
    add(element, "ram:Reason", allowance.reason)
    tax = add(element, "ram:CategoryTradeTax")
    add(tax, "ram:TypeCode", "VAT")
    add(tax, "ram:CategoryCode", allowance.category)
    _add_rate(tax, allowance.category, allowance.rate)


def _add_totals(settlement: etree._Element, record: InvoiceRecord, totals: XmlTotals) -> None:
    summation = add(settlement, "ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    add_amount(summation, "ram:LineTotalAmount", totals.lines)
    if totals.allowances:
        add_amount(summation, "ram:AllowanceTotalAmount", totals.allowances)
    add_amount(summation, "ram:TaxBasisTotalAmount", totals.net)
    add_amount(summation, "ram:TaxTotalAmount", totals.tax).set("currencyID", record.currency)
    if record.home is not None:
        add_amount(summation, "ram:TaxTotalAmount", record.home.tax).set("currencyID", record.home.currency)
    add_amount(summation, "ram:GrandTotalAmount", totals.total)
    if record.paid_on is not None:
        add_amount(summation, "ram:TotalPrepaidAmount", totals.prepaid)
    add_amount(summation, "ram:DuePayableAmount", totals.due)

"""The electronic part of an invoice or credit note: Factur-X with the profile EN 16931, as XML.

All amounts are those of the record. `tests/money/invoices/test_factur_x.py` checks the XML by the official schema and
rules.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from lxml import etree
from msgspec import Struct

from tonne.money.invoices.documents.factur_x_xml import NAMESPACES, add, add_amount, add_date, qualified
from tonne.money.invoices.documents.record import (
    InvoiceBuyer,
    InvoiceFee,
    InvoiceLine,
    InvoiceRecord,
    InvoiceSeller,
    PostalAddress,
)
from tonne.platform.values.amounts import DECIMALS


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
# UNTDID 1001.
_TYPE_CODES = {"invoice": "380", "simplified_invoice": "380", "credit_note": "381"}
# UNTDID 5305 by treatment. The document does not mention tax if the treatment is `none`: the XML then says that the
# sale is not subject to tax.
_CATEGORIES = {"standard": "S", "reverse_charge": "AE", "exempt": "E", "outside_scope": "O", "none": "O"}
_REASON_CODES = {"AE": "VATEX-EU-AE", "O": "VATEX-EU-O"}
_REASONS = {"AE": "Reverse charge", "E": "Exempt from tax", "O": "Not subject to tax"}
_PIECE = "C62"
_UNITS = {"tonne": "TNE", "piece": _PIECE}
_SEPA_TRANSFER, _TRANSFER, _CARD = "58", "30", "48"
_MAX_DECIMALS = 2
_LEITWEG_ID = re.compile(r"[0-9]{2,12}(-[A-Z0-9]{1,30})?-[0-9]{2}", re.ASCII)


def is_electronic(record: InvoiceRecord) -> bool:
    """Whether the record has what the XML needs: the countries of both parties, and at most two decimals."""
    has_countries = record.seller.postal is not None and record.buyer.postal is not None
    return has_countries and DECIMALS[record.currency] <= _MAX_DECIMALS


def factur_x_xml(record: InvoiceRecord) -> bytes:
    """The XML of a record for which `is_electronic` holds, with what was due at issue."""
    root = etree.Element(qualified("rsm:CrossIndustryInvoice"), nsmap=NAMESPACES)
    context = add(root, "rsm:ExchangedDocumentContext")
    add(add(context, "ram:GuidelineSpecifiedDocumentContextParameter"), "ram:ID", PROFILE)
    _add_header(root, record)
    transaction = add(root, "rsm:SupplyChainTradeTransaction")
    parts = _parts(record)
    for number, position in enumerate(parts.positions, start=1):
        _add_position(transaction, number, position)
    _add_agreement(transaction, record, is_untaxed=parts.is_untaxed)
    delivery = add(transaction, "ram:ApplicableHeaderTradeDelivery")
    if record.supplied_on is not None:
        event = add(delivery, "ram:ActualDeliverySupplyChainEvent")
        add_date(add(event, "ram:OccurrenceDateTime"), record.supplied_on)
    else:
        # The schema demands the element, and the rules of Peppol that it is not empty.
        add(add(delivery, "ram:ShipToTradeParty"), "ram:Name", record.buyer.name)
    _add_settlement(transaction, record, parts)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


class _Position(Struct, frozen=True):
    """A line of the XML: a line or a fee of the record."""

    name: str
    quantity: str
    unit: str
    price: str
    amount: str
    category: str
    rate: str | None
    order_id: str | None = None
    description: str | None = None


class _Allowance(Struct, frozen=True):
    reason: str
    amount: str
    category: str
    rate: str | None


class _Parts(Struct, frozen=True):
    """What the total without tax is made of."""

    positions: list[_Position]
    allowances: list[_Allowance]

    @property
    def is_untaxed(self) -> bool:
        return {position.category for position in self.positions} == {"O"}


def _parts(record: InvoiceRecord) -> _Parts:
    fees = [fee for fee in (record.fee, *record.more_fees) if Decimal(fee.amount)]
    entries: list[InvoiceLine | InvoiceFee] = [*record.lines, *fees]
    categories = {_CATEGORIES[entry.treatment] for entry in entries}

    def category(entry: InvoiceLine | InvoiceFee) -> str:
        # The standard forbids O beside other categories.
        found = _CATEGORIES[entry.treatment]
        return "E" if found == "O" and categories != {"O"} else found

    lines = [
        _Position(
            line.description,
            line.quantity,
            _UNITS[line.unit],
            line.unit_price,
            line.amount,
            category(line),
            line.rate,
            order_id=line.order_id,
            description=f"Reference: {line.reference}" if line.reference else None,
        )
        for line in record.lines
    ]
    charged = [_Position(fee.label, "1", _PIECE, fee.amount, fee.amount, category(fee), fee.rate) for fee in fees]
    allowances = [_Allowance(each.label, each.amount, category(each), each.rate) for each in record.allowances]
    return _Parts([*lines, *charged], allowances)


def _add_header(root: etree._Element, record: InvoiceRecord) -> None:
    document = add(root, "rsm:ExchangedDocument")
    add(document, "ram:ID", record.number)
    add(document, "ram:TypeCode", _TYPE_CODES[record.document])
    add_date(add(document, "ram:IssueDateTime"), record.issued_on)
    notes = [record.note, *(tax.note for tax in record.taxes)]
    for note in dict.fromkeys(note for note in notes if note):
        add(add(document, "ram:IncludedNote"), "ram:Content", note)


def _add_position(transaction: etree._Element, number: int, position: _Position) -> None:
    item = add(transaction, "ram:IncludedSupplyChainTradeLineItem")
    add(add(item, "ram:AssociatedDocumentLineDocument"), "ram:LineID", str(number))
    product = add(item, "ram:SpecifiedTradeProduct")
    add(product, "ram:Name", position.name)
    if position.description is not None:
        add(product, "ram:Description", position.description)
    price = add(add(item, "ram:SpecifiedLineTradeAgreement"), "ram:NetPriceProductTradePrice")
    add_amount(price, "ram:ChargeAmount", position.price)
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


def _add_agreement(transaction: etree._Element, record: InvoiceRecord, *, is_untaxed: bool) -> None:
    agreement = add(transaction, "ram:ApplicableHeaderTradeAgreement")
    reference = record.buyer.reference
    if reference:
        add(agreement, "ram:BuyerReference", reference)
    add_seller(agreement, record.seller, is_untaxed=is_untaxed)
    add_buyer(agreement, record.buyer, is_untaxed=is_untaxed)
    if record.order_id:
        add(add(agreement, "ram:SellerOrderReferencedDocument"), "ram:IssuerAssignedID", record.order_id)
    order_number = record.order_reference
    if reference and not _LEITWEG_ID.fullmatch(reference):
        order_number = reference
    if order_number:
        add(add(agreement, "ram:BuyerOrderReferencedDocument"), "ram:IssuerAssignedID", order_number)


def _add_settlement(transaction: etree._Element, record: InvoiceRecord, parts: _Parts) -> None:
    settlement = add(transaction, "ram:ApplicableHeaderTradeSettlement")
    add(settlement, "ram:PaymentReference", record.reference)
    if record.home is not None:
        add(settlement, "ram:TaxCurrencyCode", record.home.currency)
    add(settlement, "ram:InvoiceCurrencyCode", record.currency)
    is_credit = record.document == "credit_note"
    if not is_credit:
        _add_payment_means(settlement, record)
    for group in _tax_groups(record, parts):
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
    _add_totals(settlement, record, parts)
    if record.corrects is not None:
        corrected = add(settlement, "ram:InvoiceReferencedDocument")
        add(corrected, "ram:IssuerAssignedID", record.corrects.number)
        add_date(add(corrected, "ram:FormattedIssueDateTime"), record.corrects.issued_on, prefix="qdt")


def _add_payment_means(settlement: etree._Element, record: InvoiceRecord) -> None:
    bank = record.bank
    if record.paid_by_card:
        add(add(settlement, "ram:SpecifiedTradeSettlementPaymentMeans"), "ram:TypeCode", _CARD)
    if bank.iban is None:
        return
    means = add(settlement, "ram:SpecifiedTradeSettlementPaymentMeans")
    add(means, "ram:TypeCode", _SEPA_TRANSFER if record.currency == "EUR" else _TRANSFER)
    account = add(means, "ram:PayeePartyCreditorFinancialAccount")
    add(account, "ram:IBANID", bank.iban.replace(" ", ""))
    add(account, "ram:AccountName", bank.account_holder)
    if bank.bic is not None:
        add(add(means, "ram:PayeeSpecifiedCreditorFinancialInstitution"), "ram:BICID", bank.bic.replace(" ", ""))


class _TaxGroup(Struct, frozen=True):
    category: str
    rate: str | None
    net: Decimal
    tax: Decimal
    reason: str | None


def _tax_groups(record: InvoiceRecord, parts: _Parts) -> Iterator[_TaxGroup]:
    """One per category and rate: treatments that share a category are added up."""
    nets: dict[tuple[str, str | None], Decimal] = {}
    for sign, each in ((1, parts.positions), (-1, parts.allowances)):
        for part in each:
            place = part.category, part.rate if part.category == "S" else None
            nets[place] = nets.get(place, Decimal(0)) + sign * Decimal(part.amount)
    for (category, rate), net in nets.items():
        taxes = [tax for tax in record.taxes if _CATEGORIES[tax.treatment] == category]
        tax = (
            sum((Decimal(tax.tax) for tax in taxes if tax.rate == rate), Decimal(0)) if category == "S" else Decimal(0)
        )
        reason = next((each.note for each in taxes if each.note), _REASONS.get(category))
        yield _TaxGroup(category, rate, net, tax, None if category == "S" else reason)


def _add_tax(settlement: etree._Element, group: _TaxGroup) -> None:
    tax = add(settlement, "ram:ApplicableTradeTax")
    add_amount(tax, "ram:CalculatedAmount", group.tax)
    add(tax, "ram:TypeCode", "VAT")
    if group.reason is not None:
        add(tax, "ram:ExemptionReason", group.reason)
    add_amount(tax, "ram:BasisAmount", group.net)
    add(tax, "ram:CategoryCode", group.category)
    if group.category in _REASON_CODES:
        add(tax, "ram:ExemptionReasonCode", _REASON_CODES[group.category])
    _add_rate(tax, group.category, group.rate)


def _add_allowance(settlement: etree._Element, allowance: _Allowance) -> None:
    element = add(settlement, "ram:SpecifiedTradeAllowanceCharge")
    add(add(element, "ram:ChargeIndicator"), "udt:Indicator", "false")
    add_amount(element, "ram:ActualAmount", allowance.amount)
    add(element, "ram:Reason", allowance.reason)
    tax = add(element, "ram:CategoryTradeTax")
    add(tax, "ram:TypeCode", "VAT")
    add(tax, "ram:CategoryCode", allowance.category)
    _add_rate(tax, allowance.category, allowance.rate)


def _add_totals(settlement: etree._Element, record: InvoiceRecord, parts: _Parts) -> None:
    lines, allowed = _sum(parts.positions), _sum(parts.allowances)
    tax = sum((Decimal(each.tax) for each in record.taxes), Decimal(0))
    summation = add(settlement, "ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    add_amount(summation, "ram:LineTotalAmount", lines)
    if parts.allowances:
        add_amount(summation, "ram:AllowanceTotalAmount", allowed)
    add_amount(summation, "ram:TaxBasisTotalAmount", lines - allowed)
    add_amount(summation, "ram:TaxTotalAmount", tax).set("currencyID", record.currency)
    if record.home is not None:
        add_amount(summation, "ram:TaxTotalAmount", record.home.tax).set("currencyID", record.home.currency)
    add_amount(summation, "ram:GrandTotalAmount", record.total)
    paid = "0" if record.paid_on is None else record.total
    if record.paid_on is not None:
        add_amount(summation, "ram:TotalPrepaidAmount", paid)
    add_amount(summation, "ram:DuePayableAmount", Decimal(record.total) - Decimal(paid))


def _sum(parts: Sequence[_Position | _Allowance]) -> Decimal:
    return sum((Decimal(part.amount) for part in parts), Decimal(0))

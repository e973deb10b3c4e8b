"""What every electronic format of a document states: positions, allowances, taxes and totals."""

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct

from tonne.money.invoices.documents.record import InvoiceFee, InvoiceLine, InvoiceRecord
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.einvoice import is_leitweg_id

# UNTDID 5305 by treatment. The document does not mention tax if the treatment is `none`: the XML then says that the
# sale is not subject to tax.
_CATEGORIES = {"standard": "S", "reverse_charge": "AE", "exempt": "E", "outside_scope": "O", "none": "O"}
_REASON_CODES = {"AE": "VATEX-EU-AE", "O": "VATEX-EU-O"}
_REASONS = {"AE": "Reverse charge", "E": "Exempt from tax", "O": "Not subject to tax"}
# UNTDID 1001.
TYPE_CODES = {"invoice": "380", "simplified_invoice": "380", "credit_note": "381"}
# UNTDID 4461.
SEPA_TRANSFER, TRANSFER, CARD = "58", "30", "48"
PIECE = "C62"
_UNITS = {"tonne": "TNE", "piece": PIECE}
_MAX_DECIMALS = 2
# Peppol takes an amount that differs by more from quantity times price for wrong (R120).
_SLACK = Decimal("0.01")


class XmlPosition(Struct, frozen=True):
    """A line or a fee of the record. `price` is that of `base_quantity`, or of one unit."""

    name: str
    quantity: str
    unit: str
    price: str
    amount: str
    category: str
    rate: str | None
    base_quantity: str | None = None
    order_id: str | None = None
    description: str | None = None


class XmlAllowance(Struct, frozen=True):
    reason: str
    amount: str
    category: str
    rate: str | None


class XmlTax(Struct, frozen=True):
    """One per category and rate: treatments that share a category are added up."""

    category: str
    rate: str | None
    net: Decimal
    tax: Decimal
    reason: str | None

    @property
    def reason_code(self) -> str | None:
        return _REASON_CODES.get(self.category)


class XmlTotals(Struct, frozen=True):
    """`due` is what is to be paid: the total less `prepaid`."""

    lines: Decimal
    allowances: Decimal
    net: Decimal
    tax: Decimal
    total: Decimal
    prepaid: Decimal
    due: Decimal


class XmlParts(Struct, frozen=True):
    positions: list[XmlPosition]
    allowances: list[XmlAllowance]
    taxes: list[XmlTax]
    totals: XmlTotals
    # Notes of the record and of its taxes, each once.
    notes: list[str]
    # The purchase order of the buyer, which is not a Leitweg-ID.
    order_number: str | None

    @property
    def is_untaxed(self) -> bool:
        return {position.category for position in self.positions} == {"O"}


def is_electronic(record: InvoiceRecord) -> bool:
    """Whether the record has what every format needs: the countries of both parties, and at most two decimals."""
    has_countries = record.seller.postal is not None and record.buyer.postal is not None
    return has_countries and DECIMALS[record.currency] <= _MAX_DECIMALS


def parts_of(record: InvoiceRecord) -> XmlParts:
    fees = [fee for fee in (record.fee, *record.more_fees) if Decimal(fee.amount)]
    entries: list[InvoiceLine | InvoiceFee] = [*record.lines, *fees]
    categories = {_CATEGORIES[entry.treatment] for entry in entries}

    def category(entry: InvoiceLine | InvoiceFee) -> str:
        # The standard forbids O beside other categories.
        found = _CATEGORIES[entry.treatment]
        return "E" if found == "O" and categories != {"O"} else found

    lines = [_position(line, category(line)) for line in record.lines]
    charged = [XmlPosition(fee.label, "1", PIECE, fee.amount, fee.amount, category(fee), fee.rate) for fee in fees]
    allowances = [XmlAllowance(each.label, each.amount, category(each), each.rate) for each in record.allowances]
    positions = [*lines, *charged]
    notes = [record.note, *(tax.note for tax in record.taxes)]
    return XmlParts(
        positions,
        allowances,
        _tax_groups(record, positions, allowances),
        _totals(record, positions, allowances),
        notes=list(dict.fromkeys(note for note in notes if note)),
        order_number=order_number_of(record.buyer.reference, record.order_reference),
    )


def order_number_of(buyer_reference: str | None, order_reference: str | None) -> str | None:
    if buyer_reference and not is_leitweg_id(buyer_reference):
        return buyer_reference
    return order_reference


def _position(line: InvoiceLine, category: str) -> XmlPosition:
    exact = Decimal(line.quantity) * Decimal(line.unit_price)
    is_exact = abs(exact - Decimal(line.amount)) <= _SLACK
    return XmlPosition(
        line.description,
        line.quantity,
        _UNITS[line.unit],
        line.unit_price if is_exact else line.amount,
        line.amount,
        category,
        line.rate,
        base_quantity=None if is_exact else line.quantity,
        order_id=line.order_id,
        description=f"Reference: {line.reference}" if line.reference else None,
    )


def _tax_groups(
    record: InvoiceRecord, positions: Sequence[XmlPosition], allowances: Sequence[XmlAllowance]
) -> list[XmlTax]:
    nets: dict[tuple[str, str | None], Decimal] = {}
    signed: list[tuple[int, XmlPosition | XmlAllowance]] = [(1, each) for each in positions]
    for sign, part in [*signed, *((-1, each) for each in allowances)]:
        place = part.category, part.rate if part.category == "S" else None
        nets[place] = nets.get(place, Decimal(0)) + sign * Decimal(part.amount)
    groups = []
    for (category, rate), net in nets.items():
        taxes = [tax for tax in record.taxes if _CATEGORIES[tax.treatment] == category]
        charged = [Decimal(tax.tax) for tax in taxes if category == "S" and tax.rate == rate]
        reason = next((each.note for each in taxes if each.note), _REASONS.get(category))
        groups.append(XmlTax(category, rate, net, sum(charged, Decimal(0)), None if category == "S" else reason))
    return groups


def _totals(record: InvoiceRecord, positions: Sequence[XmlPosition], allowances: Sequence[XmlAllowance]) -> XmlTotals:
    lines, allowed, total = _sum(positions), _sum(allowances), Decimal(record.total)
    due = Decimal(record.due)
    return XmlTotals(
        lines,
        allowed,
        lines - allowed,
        sum((Decimal(each.tax) for each in record.taxes), Decimal(0)),
        total,
        total - due,
        due,
    )


def _sum(parts: Sequence[XmlPosition | XmlAllowance]) -> Decimal:
    return sum((Decimal(part.amount) for part in parts), Decimal(0))

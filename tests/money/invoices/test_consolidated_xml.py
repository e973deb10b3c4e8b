"""The electronic part of invoices of many orders, and of their credit notes, by the official rules."""

import random
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.money.invoices.documents import BUYER, SELLER
from tests.money.invoices.factur_x_rules import broken_rules
from tests.support.rounds import ROUNDS
from tonne.money.invoices.credit_notes.credit_note import CreditCause, compose_credit_note, credit_in_full
from tonne.money.invoices.documents.consolidated import ConsolidatedDraft, compose_consolidated, divide_sums
from tonne.money.invoices.documents.electronic_credit_note import electronic_credit_note
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.parties import rate_text
from tonne.money.invoices.documents.record import InvoiceRecord
from tonne.money.invoices.issuing.billing_store import BillingGroup, LineTotal, OrderToBill
from tonne.money.invoices.model import BilledOrganisation, InvoiceBilling
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, charge_unit
from tonne.platform.values.context import Mode

_PRICES = (("Forest", 1265, 1406), ("Balanced", 1044, 1160), ("Wind", 690, 690))
_TERMS = (
    [(TaxTreatment.STANDARD, Fraction(19, 100))],
    [(TaxTreatment.STANDARD, Fraction(81, 1000))],
    [(TaxTreatment.REVERSE_CHARGE, Fraction(0))],
    [(TaxTreatment.STANDARD, Fraction(19, 100)), (TaxTreatment.STANDARD, Fraction(7, 100))],
)
_GROUP = BillingGroup("bgr_1", "org_1", Mode.LIVE, "EUR", InvoiceBilling.MONTHLY, 0, "", 0, 0)
_DAY = date(2026, 12, 1)


def _draft(chance: random.Random) -> ConsolidatedDraft:
    terms = chance.choice(_TERMS)
    orders, grams = [], dict[tuple[str, int, int, TaxTreatment, Fraction], int]()
    for number in range(chance.randint(2, 40)):
        name, unit, gross = chance.choice(_PRICES)
        treatment, rate = chance.choice(terms)
        # Never nothing.
        mass = chance.choice((100, 999, 2_400, 1_000, 333_333)) * chance.randint(1, 9) + (10**6 if number == 0 else 0)
        grams[name, unit, gross, treatment, rate] = grams.get((name, unit, gross, treatment, rate), 0) + mass
        orders.append(
            OrderToBill(
                account_id="acc_1",
                order_id=f"ord_{number}",
                reference=f"parcel {number}",
                placed_at=datetime(2026, 11, 3, tzinfo=UTC),
                quantity_grams=mass,
                total_minor=-(-mass * gross // 10**6),
                exact_cost=mass * gross,
                exact_fee=mass * (gross - unit),
                treatment=treatment,
                rate=rate,
            )
        )
    lines = [
        LineTotal(mass, unit, gross, description=name, treatment=treatment, rate=rate)
        for (name, unit, gross, treatment, rate), mass in grams.items()
    ]
    # Cards are charged whole ariary.
    group = _GROUP if chance.random() < 2 / 3 else msgspec.structs.replace(_GROUP, currency="MGA", account_id="acc_1")
    sums = divide_sums(orders, lines, unit=1 if group is _GROUP else charge_unit("MGA"))
    return ConsolidatedDraft(group, orders, sums, BilledOrganisation("Ada", "", []))


def _with_parties(record: InvoiceRecord) -> InvoiceRecord:
    return msgspec.structs.replace(record, seller=SELLER, buyer=BUYER)


def documents_of(seed: int) -> list[InvoiceRecord]:
    """A random invoice of many orders, and the records of the XML of two credit notes that take all of it back."""
    draft = _draft(random.Random(seed))  # noqa: S311 - repeatable on purpose
    invoice, billed = compose_consolidated(draft, Settings(), number=1, issued_on=_DAY)
    record = _with_parties(invoice.read_record())
    half, records = len(billed) // 2, [record]
    terms = {
        each.order_id: (each.treatment.value, rate_text(TaxTerms(each.treatment, each.rate))) for each in draft.orders
    }
    assert sum(each.total_minor for each in billed) == invoice.total_minor
    for part in (billed[:half], billed[half:]):
        credited = [credit_in_full(each) for each in part if each.total_minor]
        note = compose_credit_note(
            msgspec.structs.replace(invoice, record=msgspec.json.encode(record)),
            credited,
            1,
            _DAY,
            cause=CreditCause.CANCELLATION,
            reason=None,
            refund_id=None,
            issued_by="user:usr_1",
            cancels_invoice=False,
            terms=terms,
        )
        if credited:
            records.append(electronic_credit_note(note.read_record()))
    return records


@settings(max_examples=15 * ROUNDS, deadline=None)
@given(st.integers(0, 2**64))
def test_invoices_of_many_orders_and_their_credit_notes_keep_the_rules(seed: int) -> None:
    record, *notes = documents_of(seed)
    assert record.currency == "EUR" or record.total.endswith(".00")
    for line in record.lines:
        exact = Decimal(line.quantity) * Decimal(line.unit_price)
        assert Decimal(line.amount) == exact.quantize(Decimal("0.01"), ROUND_HALF_UP)
    for each in (record, *notes):
        assert broken_rules(factur_x_xml(each)) == []
    assert {(line.quantity, line.unit) for note in notes for line in note.lines} <= {("1", "piece")}

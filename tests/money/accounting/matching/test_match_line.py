"""Which invoices a line of a bank statement pays."""

from collections.abc import Sequence
from datetime import date
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tonne.money.accounting.matching.match_line import Match, NamedInvoice, match_line, named_references
from tonne.money.bank.formats.statement import StatementLine
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.reference import reference_of
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod

DAY = date(2026, 3, 5)


def invoice(
    number: int,
    minor: int,
    *,
    currency: str = "EUR",
    organisation: str = "org_a",
    status: InvoiceStatus = InvoiceStatus.OPEN,
    method: PaymentMethod = PaymentMethod.INVOICE,
) -> NamedInvoice:
    return NamedInvoice(
        Invoice(
            id=f"inv_{number}",
            organisation_id=organisation,
            mode=Mode.LIVE,
            number=number,
            reference=reference_of(Mode.LIVE, number),
            currency=currency,
            total_minor=minor,
            record=b"",
            issued_on=DAY,
            mailed_at=None,
            order_count=1,
            first_order_id="ord_1",
            status=status,
            due_on=DAY,
            payment_method=method,
        ),
        0,
    )


def match(minor: int, text: str, *known: NamedInvoice, currency: str = "EUR") -> Match:
    line = StatementLine(
        line=1, booked_on=DAY, amount_minor=minor, currency=currency, payer="Ada", reference=text, own_account=""
    )
    return match_line(line, Mode.LIVE, {each.invoice.reference: each for each in known})


def parts(found: Match) -> list[tuple[str, int, bool]]:
    return [(part.named.invoice.id, part.assigned_minor, part.settles) for part in found.parts]


def test_one_transfer_pays_all_invoices_that_it_names() -> None:
    known = invoice(1, 1000), invoice(2, 395), invoice(3, 7)
    found = match(1395, "TN-LIVE-000002 and TN-LIVE-000001, TN-LIVE-000001", *known)
    assert parts(found) == [("inv_1", 1000, True), ("inv_2", 395, True)]
    assert (found.named, found.references) == (None, "TN-LIVE-000001, TN-LIVE-000002")
    assert [each.missing_minor for each in known] == [0, 0, 7]


def test_what_is_not_certain_is_left_to_a_person() -> None:
    both = "TN-LIVE-000001 TN-LIVE-000002"
    cases: dict[str, Sequence[NamedInvoice]] = {
        "another sum": (invoice(1, 1000), invoice(2, 396)),
        "another organisation": (invoice(1, 1000), invoice(2, 395, organisation="org_b")),
        "another currency": (invoice(1, 1000), invoice(2, 395, currency="USD")),
        "paid": (invoice(1, 1395), invoice(2, 395, status=InvoiceStatus.PAID)),
        "paid by card": (invoice(1, 1000), invoice(2, 395, method=PaymentMethod.CARD)),
    }
    assert {name for name, known in cases.items() if match(1395, both, *known).parts} == set()


def test_an_unclear_spelling_counts_if_one_invoice_fits_the_sum() -> None:
    text = "TN-LIVE-123456 7"
    assert parts(match(500, text, invoice(123456, 400), invoice(1234567, 500))) == [("inv_1234567", 500, True)]
    assert not match(500, text, invoice(123456, 500), invoice(1234567, 500)).parts
    assert not match(450, text, invoice(123456, 400), invoice(1234567, 500)).parts


def test_a_text_with_too_many_unclear_numbers_is_left_to_a_person() -> None:
    # 2 candidates at 30 places are more combinations than anybody can try.
    numbers = range(100000, 100030)
    known = [invoice(each, 1) for each in numbers] + [invoice(each * 10 + 1, 2) for each in numbers]
    assert not match(30, " ".join(f"TN-LIVE-{each} 1;" for each in numbers), *known).parts


@given(
    st.dictionaries(st.sampled_from([123456, 1234567, 7, 70, 8, 9]), st.integers(1, 6), min_size=2),
    st.lists(st.sampled_from(["123456 7", "000007", "7 0", "8", "9"]), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_several_are_paid_only_by_the_one_combination_that_fits(
    amounts: dict[int, int], written: list[str], minor: int
) -> None:
    text = ", ".join(f"TN-LIVE-{each}" for each in written)
    known = {reference_of(Mode.LIVE, number): invoice(number, each) for number, each in amounts.items()}
    missing = {name: each.missing_minor for name, each in known.items()}
    found = match(minor, text, *known.values())
    line = StatementLine(
        line=1, booked_on=DAY, amount_minor=minor, currency="EUR", payer="", reference=text, own_account=""
    )
    places = [place & known.keys() for place in named_references(line)]
    combinations = {frozenset(names) for names in product(*places)}
    fitting = [names for names in combinations if sum(missing[name] for name in names) == minor]
    if len({name for place in places for name in place}) > 1:
        paid = {part.named.invoice.reference for part in found.parts}
        assert paid == (set(fitting[0]) if len(fitting) == 1 else set())
        assert not paid or sum(part.assigned_minor for part in found.parts) == minor
    # Nothing is assigned twice, and never more than an invoice misses.
    assert all(0 <= each.missing_minor <= missing[name] for name, each in known.items())
    assert sum(part.assigned_minor for part in found.parts) <= minor

"""Refunds and cancellations of an invoice, in any parts and any order, bring it to zero: net and tax of each rate."""

import os
import random
from collections import Counter
from typing import Any

from tests.money.invoices.documents import document, line
from tests.support.clock import MARCH
from tests.support.rounds import ROUNDS
from tonne.money.invoices.credit_notes.credit_note import credit_in_full, credit_in_part, credited_taxes, without
from tonne.money.invoices.documents.record import InvoiceTax
from tonne.money.invoices.model import BilledOrder
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import replace

RATES: tuple[Any, ...] = (("standard", "19"), ("standard", "8.1"), ("reverse_charge", None))


def test_credit_notes_bring_an_invoice_to_zero_exactly() -> None:
    seed = int(os.environ.get("CREDIT_SEED") or random.SystemRandom().getrandbits(32))
    print(f"CREDIT_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    for _ in range(2_000 * ROUNDS):
        _check_one(rng)


def _check_one(rng: random.Random) -> None:
    left, terms = dict[str, BilledOrder](), dict[str, Any]()
    net, tax = Counter[int](), Counter[int]()
    for number in range(rng.randint(1, 6)):
        rate, largest = rng.randrange(3), rng.choice((2, 10**4, 10**7))
        offset, fee = rng.randint(1, largest), rng.randint(0, largest)
        taxed = 0 if RATES[rate][1] is None else rng.randint(0, largest)
        order = BilledOrder(
            invoice_id="inv_1",
            account_id="acc_1",
            order_id=f"ord_{number}",
            reference="",
            placed_at=MARCH,
            quantity_grams=1,
            offset_minor=offset,
            fee_minor=fee,
            tax_minor=taxed,
            total_minor=offset + fee + taxed,
        )
        left[order.order_id], terms[order.order_id] = order, RATES[rate]
        net[rate] += offset + fee
        tax[rate] += taxed
    lines = [
        InvoiceTax(
            code=str(rate),
            treatment=RATES[rate][0],
            rate=RATES[rate][1],
            net=format_money(net[rate], "EUR"),
            tax=format_money(tax[rate], "EUR"),
        )
        for rate in sorted(net)
    ]
    issued = replace(document(line("standard", "19")), taxes=lines)
    while left:
        order = left.pop(rng.choice(sorted(left)))
        amount = rng.choice((order.total_minor, rng.randint(1, order.total_minor)))
        credited = credit_in_full(order) if amount == order.total_minor else credit_in_part(order, amount)
        for each in credited_taxes(issued, [credited], terms):
            net[int(each.code)] -= int(each.net.replace(".", ""))
            tax[int(each.code)] -= int(each.tax.replace(".", ""))
        rest = without(order, credited)
        assert min(rest.offset_minor, rest.fee_minor, rest.tax_minor or 0) >= 0
        if rest.total_minor:
            left[order.order_id] = rest
    assert not any(net.values())
    assert not any(tax.values())

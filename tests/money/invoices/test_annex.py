"""The annex of a consolidated invoice."""

import pytest

from tests.money.invoices.billing import pdf_text
from tests.money.invoices.documents import consolidated
from tonne.money.invoices.documents.pdf import AnnexAccount, AnnexOrder, invoice_pdf


@pytest.mark.parametrize(("count", "most_bytes_each"), [(500, 4_000), (501, 600)])
def test_it_lists_every_order_and_stays_small_with_many(count: int, most_bytes_each: int) -> None:
    orders = [AnnexOrder(f"ord_{n:026}", "2026-11-03", f"PO {n:06}", "1.105697", "13.95") for n in range(count)]
    record = consolidated(2)
    pdf = invoice_pdf(record, annex=[AnnexAccount("Ada", orders, "139.50")])
    text = pdf_text(pdf)
    assert [order.reference for order in orders if order.reference not in text] == []
    assert len(pdf) - len(invoice_pdf(record)) < count * most_bytes_each

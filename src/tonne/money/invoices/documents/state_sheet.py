"""What became of an invoice, as a PDF that is no tax document: a payment confirmation, or a reminder of the rest."""

from datetime import UTC, date, datetime, time
from typing import Literal

import msgspec
from msgspec import Struct

from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.documents.labels import state_labels
from tonne.money.invoices.documents.pdf import TEMPLATES
from tonne.money.invoices.documents.record import Closing, InvoiceRecord, Remaining
from tonne.platform.documents.pdf import label_inputs, render_pdf
from tonne.platform.web.translate import translator


class Credit(Struct, frozen=True):
    """A credit note of the invoice. `amount` without a currency."""

    number: str
    issued_on: str
    amount: str


class InvoiceState(Struct, frozen=True):
    """Amounts are decimal strings without a currency. `as_of` is a day."""

    as_of: str
    closing: Closing | None
    credits: list[Credit]
    received: str | None
    due: str

    @property
    def kind(self) -> Literal["confirmation", "state"]:
        return "confirmation" if self.closing is not None and self.closing.status == "paid" else "state"


def state_pdf(record: InvoiceRecord, state: InvoiceState, *, is_reminder: bool = False) -> bytes:
    """Rendered when it is asked for, and not signed. CPU-bound: call it through `asyncio.to_thread`."""
    _ = translator(record.language)
    note = None if record.note is None else _.text(record.note)
    printed = msgspec.to_builtins(record) | msgspec.to_builtins(state)
    printed |= {"kind": "reminder" if is_reminder else state.kind, "note": note}
    inputs = label_inputs(_, state_labels(_))
    rest = Remaining(state.received, None, state.due)
    if state.closing is None and (code := epc_qr_svg(record, rest)) is not None:
        inputs["qr"] = code
    issued_at = datetime.combine(date.fromisoformat(state.as_of), time(), UTC)
    return render_pdf(TEMPLATES / "state.typ", printed, issued_at=issued_at, inputs=inputs)

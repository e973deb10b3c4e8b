"""Find invoices for an operator, who names them by number."""

from collections.abc import Iterable

from tonne.money.invoices.document_numbers import find_by_references_any_account
from tonne.money.invoices.errors import InvoiceNotFound
from tonne.money.invoices.mail import find_recipients
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.reference import reference_of, references_in
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


async def find_by_number_any_account(connection: Connection, number: str, mode: Mode | None) -> Invoice:
    """`number` is a full reference, or digits together with `mode`. Raises InvoiceNotFound."""
    found = await find_by_references_any_account(connection, _references(number, mode))
    if len(found) != 1:
        raise InvoiceNotFound
    [invoice] = found
    if mode not in {None, invoice.mode}:
        raise InvoiceNotFound(f"{invoice.reference} is not an invoice of {mode} mode.")
    return invoice


def _references(number: str, mode: Mode | None) -> list[str]:
    if number.isdecimal():
        if mode is None:
            raise InvoiceNotFound("Each mode has its own numbers. Pass --mode or the full reference.")
        return [reference_of(mode, int(number))]
    names = [name for place in references_in(number) for name in place]
    return names if len(names) == 1 else []


async def organisations_without_recipient(connection: Connection, invoices: Iterable[Invoice]) -> list[str]:
    """The ids of the organisations that have open invoices among these, but no admin to mail them to."""
    billed = {invoice.organisation_id for invoice in invoices if invoice.status is InvoiceStatus.OPEN}
    return [id_ for id_ in sorted(billed) if not await find_recipients(connection, id_)]

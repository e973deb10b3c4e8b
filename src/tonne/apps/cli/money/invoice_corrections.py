"""The commands of `tonne invoice` that correct what an invoice asks for: credit notes and write-offs."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from tonne.apps.cli.database import ACTOR, run_connected, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE, OUTPUT, EnumChoice, check_text, parse_amount, write_file
from tonne.apps.cli.selling.login import approve_or_link
from tonne.apps.cli.supply.log import originals_of
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.credit_notes.store import find_credit_note_any_account
from tonne.money.invoices.errors import CreditNoteNotFound, InvoiceNotAvailable
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.originals.respond import NO_SUCH_FILE
from tonne.money.invoices.settle_invoice import approve_write_off, reinstate_invoice, write_off_invoice
from tonne.money.invoices.tax_documents import TaxDocument
from tonne.money.invoices.write_off_store import WriteOff, WriteOffState, list_write_offs_any_account
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.users.approvals import Approver

P = ParamSpec("P")
T = TypeVar("T")
MODE_OF_NUMBER = click.option("--mode", type=MODE, help="Mode of the invoice. Not needed with a full reference.")
FORMAT = click.option(
    "--format",
    "file_format",
    type=EnumChoice(FileFormat),
    default=FileFormat.PDF,
    help="pdf, cii: the electronic invoice in the PDF, or ubl: that for Peppol or XRechnung.",
)

WRITE_OFFS: tuple[ValueColumn[WriteOff], ...] = (
    ValueColumn("invoice", lambda w: w.invoice_reference),
    ValueColumn("state", lambda w: w.state),
    *columns("amount_minor", "recovered_minor", "booked_at: booked"),
    ValueColumn("reason", lambda w: w.reason, shrinks=True),
    *columns("requested_by", "requested_at", "approved_by", "releases_credit", "undone_at", in_table=False),
    *columns("undone_by", "undo_reason", "organisation_id", in_table=False),
)


async def read_original(
    connection: Connection, settings: Settings, document: TaxDocument, file_format: FileFormat
) -> bytes:
    file = await originals_of(connection, settings).file(document, file_format)
    if file is None:
        raise InvoiceNotAvailable(NO_SUCH_FILE)
    return file.read()


def run_for_invoice(
    number: str,
    mode: Mode | None,
    work: Callable[Concatenate[Connection, Invoice, P], Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `run_in_transaction`, with the invoice as the second argument of `work`."""

    async def with_invoice(tx: Connection) -> T:
        return await work(tx, await find_by_number_any_account(tx, number, mode), *args, **kwargs)

    return run_in_transaction(with_invoice)


@click.command("credit")
@click.argument("number")
@click.argument("amount")
@MODE_OF_NUMBER
@click.option("--order", "order_id", help="The order to credit, if the invoice bills several.")
@click.option("--reason", required=True, help="Why, for the credit note and the audit log.")
def credit(number: str, amount: str, mode: Mode | None, order_id: str | None, reason: str) -> None:
    """Reduce an open invoice by AMOUNT with a credit note. NUMBER is 123 or TN-LIVE-000123.

    The order itself does not change. To take an order off its invoice, use `tonne order cancel`; to return money that
    was paid, `tonne order refund`.
    """
    reason = check_text(reason, "--reason")

    async def work(tx: Connection, found: Invoice) -> CreditNote:
        amount_minor = parse_amount(amount, found.currency, "AMOUNT")
        return await correct_invoice(tx, found, order_id, amount_minor, reason=reason, by=ACTOR.now())

    note = run_for_invoice(number, mode, work)
    click.echo(f"Credit note {note.reference} for {note.total} is issued.")


@click.command("credit-pdf")
@click.argument("number")
@FORMAT
@OUTPUT
def credit_pdf(number: str, output: Path, *, file_format: FileFormat) -> None:
    """Write a credit note to a file, as it was issued. NUMBER is CN-LIVE-000123."""

    async def work(connection: Connection, settings: Settings) -> bytes:
        found = await find_credit_note_any_account(connection, number.strip().upper())
        if found is None:
            raise CreditNoteNotFound("There is no such credit note. `tonne invoice show` lists those of an invoice.")
        return await read_original(connection, settings, found, file_format)

    write_file(output, run_connected(work))


@click.command("write-off")
@click.argument("number")
@MODE_OF_NUMBER
@click.option("--reason", required=True, help="Why it is not expected to be paid, for the audit log.")
@click.option("--release-credit", is_flag=True, help="Its orders no longer use the credit limit of their account.")
def write_off(number: str, mode: Mode | None, reason: str, *, release_credit: bool) -> None:
    """Write off an invoice that nobody is expected to pay. NUMBER is 123 or TN-LIVE-000123.

    Its orders must have been fulfilled. The customer gets no mail and still owes the money: what arrives later pays the
    invoice. To reduce what is owed, and the tax, issue a credit note with `tonne invoice credit`. Above the setting
    refund_approval_above a second person must approve it.
    """
    reason = check_text(reason, "--reason")
    settings = settings_from_environment()

    made = run_for_invoice(
        number,
        mode,
        write_off_invoice,
        reason=reason,
        releases_credit=release_credit,
        settings=settings,
        by=ACTOR.now(),
    )
    if made.state is WriteOffState.APPROVAL:
        command = f"tonne invoice approve-write-off {made.invoice_reference}"
        click.echo(f"{made.amount} of invoice {made.invoice_reference} wait for a second person: {command}")
    else:
        click.echo(f"{made.amount} of invoice {made.invoice_reference} are written off.")


@click.command("approve-write-off")
@click.argument("number")
@MODE_OF_NUMBER
def approve(number: str, mode: Mode | None) -> None:
    """Print the link to approve a write-off. NUMBER is 123 or TN-LIVE-000123.

    With TONNE_APPROVALS_BY=token, and after `tonne login`, the command approves it.
    """

    async def find_page(tx: Connection) -> tuple[Mode, str]:
        found = await find_by_number_any_account(tx, number, mode)
        return found.mode, f"money/invoices/{found.reference}"

    async def work(tx: Connection, approver: Approver) -> WriteOff:
        found = await find_by_number_any_account(tx, number, mode)
        return await approve_write_off(tx, found, approver=approver, now=utc_now())

    made = approve_or_link(find_page, work)
    if made is not None:
        then = "are written off" if made.approved_by else "wait for another person, who must approve it, too"
        click.echo(f"{made.amount} of invoice {made.invoice_reference} {then}.")


@click.command("reinstate")
@click.argument("number")
@MODE_OF_NUMBER
@click.option("--reason", required=True, help="Why, for the audit log.")
def reinstate(number: str, mode: Mode | None, reason: str) -> None:
    """Undo a write-off, or withdraw one that waits. NUMBER is 123 or TN-LIVE-000123."""
    reason = check_text(reason, "--reason")
    undone = run_for_invoice(number, mode, reinstate_invoice, reason=reason, by=ACTOR.now())
    if undone.state is WriteOffState.APPROVAL:
        click.echo(f"Invoice {undone.invoice_reference} is not written off.")
    else:
        left = f"{format_money(undone.left_minor, undone.currency)} {undone.currency}"
        click.echo(f"{left} of invoice {undone.invoice_reference} are expected to be paid again.")


@click.command("write-offs")
@click.option("--mode", type=MODE, default=Mode.LIVE.value, show_default=True, help="Mode of the invoices.")
@click.option("--state", type=EnumChoice(WriteOffState), help="Show only those in this state.")
@click.option("--org", "organisation_id", help="Only this organisation.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number.")
@output_options
def write_offs(
    mode: Mode, state: WriteOffState | None, organisation_id: str | None, limit: int, output: Output
) -> None:
    """List written-off invoices and what was paid of them.

    Newest first.
    """
    found = run_in_transaction(
        list_write_offs_any_account, mode, state=state, organisation_id=organisation_id, limit=limit
    )
    output.print_rows(found, WRITE_OFFS, empty="No write-offs.")


CORRECTIONS = (credit, credit_pdf, write_off, approve, reinstate, write_offs)

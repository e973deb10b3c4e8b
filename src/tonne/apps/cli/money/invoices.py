"""tonne invoice"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tonne.apps.cli.database import ACTOR, plain_failures, run_connected, run_in_transaction, settings_from_environment
from tonne.apps.cli.money import invoice_corrections
from tonne.apps.cli.money.receivables import ageing, statement
from tonne.apps.cli.output import (
    STATUS_STYLES,
    MoneyColumn,
    Output,
    Table,
    ValueColumn,
    columns,
    output_options,
    print_table,
)
from tonne.apps.cli.parameters import (
    FILE,
    MODE,
    OUTPUT,
    EnumChoice,
    parse_amount,
    read_file,
    reported_errors,
    write_file,
)
from tonne.apps.lookup.charge_search_store import ChargeSearch, FoundCharge, search_charges_any_account
from tonne.money.accounting.matching.import_statement import BookedLine, StatementOptions, import_statement
from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.bank.formats.csv_statement import Spelling
from tonne.money.bank.formats.identity import Verdict
from tonne.money.bank.formats.local_numbers import DateOrder, DecimalMark
from tonne.money.bank.formats.read_statement import MAX_STATEMENT_BYTES
from tonne.money.bank.transfer_model import Transfer, TransferState
from tonne.money.bank.transfer_store import list_transfers_any_account
from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.credit_notes.store import list_credit_notes
from tonne.money.invoices.documents.held_back import held_back_by
from tonne.money.invoices.find_invoice import find_by_number_any_account, organisations_without_recipient
from tonne.money.invoices.follow_up_invoices import resend_invoice
from tonne.money.invoices.model import DifferenceKind, Invoice, InvoiceStatus
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.settle_difference import clear_settled, settle_with_difference
from tonne.money.invoices.settle_invoice import settle_invoice
from tonne.money.invoices.store import list_invoices_any_account, list_live_orders_without_invoice_any_account
from tonne.money.invoices.write_off_store import list_write_offs_of_invoice_any_account
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.platform.values.iban import is_iban
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.directory import Names, find_names_any_account
from tonne.selling.accounts.tax.tax_profile import TaxProfile

# A difference that corrects the tax.
CREDIT_NOTE = "credit_note"
# Orders named in a message.
SHOWN = 10

FACTS: tuple[ValueColumn[Invoice], ...] = (
    ValueColumn("number", lambda i: i.reference),
    *columns("status", "total_minor", "issued_on: issued", "due_on: due", "mailed_at: mailed"),
    *columns("reminded_at: reminded", "settled_at: settled", "settled_by"),
    ValueColumn(
        "order_id", lambda i: i.first_order_id if i.order_count == 1 else None, head="order", show=lambda i: _orders(i)
    ),
    ValueColumn("order_count", lambda i: i.order_count, in_table=False),
    *columns("organisation_id: organisation", "credited_minor", "billing", "written_off_at: written off"),
    *columns("payment_method: paid by"),
)
TRANSFERS: tuple[ValueColumn[Transfer], ...] = (
    *columns("id: transfer", "booked_on: booked", "amount_minor"),
    ValueColumn("payer", lambda t: t.payer, show=lambda t: quoted(t.payer), shrinks=True),
    ValueColumn("state", lambda t: t.state, styles=STATUS_STYLES),
)
CHARGES: tuple[ValueColumn[FoundCharge], ...] = (
    *columns("id: charge", "created_at: created", "amount_minor", "status"),
    ValueColumn("outcome", lambda c: c.code or c.outcome, shrinks=True),
)
# Charges of a card that `tonne invoice show` lists. More attempts than the schedule allows are not made.
MAX_CHARGES = 100
PAID_CHARGES = {"captured", "refunded"}
CREDIT_NOTES: tuple[ValueColumn[CreditNote], ...] = (
    ValueColumn("number", lambda n: n.reference),
    *columns("total_minor", "issued_on: issued", "mailed_at: mailed", "cause"),
    ValueColumn("reason", lambda n: n.reason, shrinks=True),
)


@click.group()
def invoice() -> None:
    """List, settle, credit, resend and export invoices."""


for _command in (*invoice_corrections.CORRECTIONS, ageing, statement):
    invoice.add_command(_command)


@invoice.command("list")
@click.option("--mode", type=MODE, help="Show only invoices of this mode.")
@click.option("--status", type=EnumChoice(InvoiceStatus), help="Show only invoices with this status.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number per mode."
)
@output_options
def list_(mode: Mode | None, status: InvoiceStatus | None, limit: int, output: Output) -> None:
    """List invoices, newest first."""

    with plain_failures():
        settings = settings_from_environment()
        missing = held_back_by(settings.seller_tax.treatment, TaxProfile(), settings, DEFAULT_LANGUAGE).settings

    async def work(tx: Connection) -> tuple[list[Invoice], Names, list[str], list[str]]:
        modes = Mode if mode is None else (mode,)
        found = [each for one in modes for each in await list_invoices_any_account(tx, one, status, limit)]
        is_asked = Mode.LIVE in modes and status in {None, InvoiceStatus.OPEN}
        held_back = await list_live_orders_without_invoice_any_account(tx) if missing and is_asked else []
        names = await find_names_any_account(tx, [each.organisation_id for each in found])
        return found, names, await organisations_without_recipient(tx, found), held_back

    invoices, names, unreachable, held_back = run_in_transaction(work)
    output.print_rows(invoices, _columns(names), empty="No invoices.")
    for organisation_id in unreachable:
        click.echo(
            f"{organisation_id} has no admin to mail its invoices to. Add one with `tonne org add-admin`, then run "
            "`tonne invoice resend`.",
            err=True,
        )
    if held_back:
        count = len(held_back)
        more = f" and {count - SHOWN:,} more" if count > SHOWN else ""
        waiting = "1 live order waits for its invoice" if count == 1 else f"{count:,} live orders wait for invoices"
        click.echo(
            f"{waiting}: {', '.join(held_back[:SHOWN])}{more}. Set "
            f"{', '.join(missing)} and restart Tonne: they are then issued and mailed.",
            err=True,
        )


@invoice.command("show")
@click.argument("number")
@invoice_corrections.MODE_OF_NUMBER
@output_options
def show_(number: str, mode: Mode | None, output: Output) -> None:
    """Show an invoice with payments, credits and write-offs. NUMBER is 123 or TN-LIVE-000123."""

    async def work(tx: Connection, found: Invoice) -> tuple[Invoice, int, list[Table[Any]]]:
        received = (await sum_received_any_account(tx, [found.id])).get(found.id, 0)
        charges = await search_charges_any_account(tx, ChargeSearch(invoice=found.reference), MAX_CHARGES)
        if any(each.status in PAID_CHARGES for each in charges):
            received = found.settled_minor or 0
        transfers = await list_transfers_any_account(tx, [*TransferState], invoice_id=found.id)
        tables: list[Table[Any]] = [
            Table("transfers", transfers, TRANSFERS),
            Table("charges", charges, CHARGES),
            Table("credit_notes", await list_credit_notes(tx, found), CREDIT_NOTES),
            Table(
                "write_offs",
                await list_write_offs_of_invoice_any_account(tx, found),
                invoice_corrections.WRITE_OFFS[1:],
            ),
        ]
        return found, received, tables

    found, received, tables = invoice_corrections.run_for_invoice(number, mode, work)
    left = max(found.due_minor - received, 0) if found.closing is None else 0
    sums: tuple[ValueColumn[Invoice], ...] = (
        MoneyColumn("received", lambda _: received, lambda i: i.currency),
        MoneyColumn("difference", lambda i: i.difference_minor, lambda i: i.currency),
        MoneyColumn("still_due", lambda _: left, lambda i: i.currency, head="still due"),
    )
    output.print_object(found, (*FACTS, *sums), tables)


@invoice.command("settle")
@click.argument("number")
@invoice_corrections.MODE_OF_NUMBER
@click.option("--note", default="", help="How it was paid, for the audit log.")
@click.option("--received", help="What arrived, if it is less than is due. Needs --difference.")
@click.option(
    "--difference", type=click.Choice([*map(str, DifferenceKind), CREDIT_NOTE]), help="How to book what is missing."
)
def settle(number: str, mode: Mode | None, note: str, received: str | None, difference: str | None) -> None:
    """Mark an invoice and its order as paid. NUMBER is 123 or TN-LIVE-000123.

    With --difference, what is missing of --received, or of the transfers that were matched, is booked as bank fees or
    as a small difference, which keep the tax, or given up with a credit note, which corrects it.
    """
    if received is not None and difference is None:
        raise click.UsageError("Say with --difference how to book what is missing.")
    kind = None if difference in {None, CREDIT_NOTE} else DifferenceKind(difference)
    settings = settings_from_environment()

    async def work(tx: Connection, found: Invoice) -> tuple[Invoice, int]:
        if difference is None:
            await settle_invoice(tx, found, by=ACTOR.now(), note=note)
            return found, 0
        minor = None if received is None else parse_amount(received, found.currency, "--received")
        reason, by = note or difference.replace("_", " "), ACTOR.now()
        return found, await settle_with_difference(tx, found, kind, minor, note=reason, settings=settings, by=by)

    settled, missing_minor = invoice_corrections.run_for_invoice(number, mode, work)
    missing = f" Missing, and booked: {settled.money(missing_minor)}." if missing_minor else ""
    click.echo(f"Invoice {settled.reference} for {settled.due} and {settled.orders_text} are marked as paid.{missing}")


@invoice.command("clear-settled")
@click.argument("number")
@invoice_corrections.MODE_OF_NUMBER
@click.option("--difference", type=EnumChoice(DifferenceKind), required=True, help="How to book what never arrived.")
@click.option("--note", default="", help="Why, for the audit log.")
def clear(number: str, mode: Mode | None, difference: DifferenceKind, note: str) -> None:
    """Book what never arrived after a settlement by hand. NUMBER is 123 or TN-LIVE-000123."""
    settings = settings_from_environment()

    async def work(tx: Connection, found: Invoice) -> tuple[Invoice, int]:
        return found, await clear_settled(tx, found, difference, note=note, settings=settings, by=ACTOR.now())

    found, left_minor = invoice_corrections.run_for_invoice(number, mode, work)
    click.echo(f"{found.money(left_minor)} of invoice {found.reference} are booked as {difference.replace('_', ' ')}.")


@invoice.command("resend")
@click.argument("number")
@invoice_corrections.MODE_OF_NUMBER
def resend(number: str, mode: Mode | None) -> None:
    """Mail an invoice again to the admins of the organisation. NUMBER is 123 or TN-LIVE-000123.

    The mail of a paid or cancelled invoice says so and does not ask for money.
    """
    settings = settings_from_environment()

    async def work(tx: Connection, found: Invoice) -> tuple[Invoice, list[str]]:
        return found, await resend_invoice(tx, found, settings=settings, by=ACTOR.now())

    found, recipients = invoice_corrections.run_for_invoice(number, mode, work)
    click.echo(f"{found.reference} will be mailed to {', '.join(recipients)}.")


@invoice.command("pdf")
@click.argument("number")
@invoice_corrections.MODE_OF_NUMBER
@invoice_corrections.FORMAT
@OUTPUT
def pdf(number: str, mode: Mode | None, output: Path, *, file_format: FileFormat) -> None:
    """Write an invoice to a file. NUMBER is 123 or TN-LIVE-000123.

    The file is the one that the customer got, also after the invoice was paid, reduced or cancelled: `tonne invoice
    show` says what became of it.
    """

    async def work(connection: Connection, settings: Settings) -> tuple[Invoice, bytes]:
        found = await find_by_number_any_account(connection, number, mode)
        return found, await invoice_corrections.read_original(connection, settings, found, file_format)

    found, content = run_connected(work)
    write_file(output, content)
    click.echo(f"{output}: invoice {found.reference} for {found.total}.")


@invoice.command("import-statement")
@FILE
@click.option("--mode", type=MODE, required=True, help="Mode of the invoices that the statement pays.")
@click.option("--dates", type=EnumChoice(DateOrder), help="Order of day, month and year in a CSV file.")
@click.option("--decimals", type=EnumChoice(DecimalMark), help="Decimal mark of amounts in a CSV file.")
@click.option("--iban", help="Your account that it is a statement of, if the file does not name it by its IBAN.")
def import_(file: Path, mode: Mode, dates: DateOrder | None, decimals: DecimalMark | None, iban: str | None) -> None:
    """Import a bank statement and settle the invoices it pays.

    The file is a camt.053 or MT940 statement, or CSV with the columns booked_on, amount, currency, payer and
    reference. Lines that were imported before are skipped, so statements may overlap.

    If the file has errors, all of them are listed, nothing is imported, and the exit code is 1.
    """
    upload = read_file(file, MAX_STATEMENT_BYTES)
    if iban is not None and not is_iban(iban):
        raise click.BadParameter("its check digits are wrong", param_hint="--iban")
    settings = settings_from_environment()
    options = StatementOptions(Spelling(dates, decimals), iban)
    with reported_errors():
        booked = run_in_transaction(import_statement, mode, upload, settings=settings, by=ACTOR.now(), options=options)
    _print_report(booked)


def _print_report(booked: list[BookedLine]) -> None:
    rows = [
        (str(b.line.line), b.outcome, b.reference or "-", b.line.amount, quoted(b.line.payer), b.message)
        for b in booked
    ]
    if rows:
        print_table(("line", "outcome", "invoice", "amount", "payer", ""), rows)
        click.echo()
    counts = Counter(each.outcome for each in booked)
    outcomes = (*TransferState, Verdict.DOUBTFUL, Verdict.KNOWN)
    parts = [f"{counts[outcome]} {outcome.replace('_', ' ')}" for outcome in outcomes if counts[outcome]]
    click.echo(f"{len(booked)} {'line' if len(booked) == 1 else 'lines'}{': ' if parts else '.'}{', '.join(parts)}")


def _orders(found: Invoice) -> str:
    return found.first_order_id if found.order_count == 1 else found.orders_text


def _columns(names: Names) -> tuple[ValueColumn[Invoice], ...]:
    return (
        *FACTS[:3],
        ValueColumn("organisation_name", lambda i: names.of(i.organisation_id), head="organisation", shrinks=True),
        *(replace(column, show=_day_of(column)) for column in FACTS[4:8]),
        *(replace(column, in_table=False) for column in (FACTS[3], *FACTS[8:])),
    )


def _day_of(column: ValueColumn[Invoice]) -> Callable[[Invoice], str]:
    """Days are enough in a list."""
    return lambda i: column.text(i).partition(" ")[0]

"""tonne invoice"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click

from tonne.accounts import audit
from tonne.base.clock import to_wire, utc_now
from tonne.base.scope import Mode
from tonne.cli.database import ACTOR, plain_failures, run_in_transaction, settings_from_environment
from tonne.cli.imports import FILE, read_file, reported_errors
from tonne.cli.output import print_table
from tonne.db.pool import Connection
from tonne.gateways.outbox import enqueue
from tonne.invoices import store as invoice_store
from tonne.invoices import transfer_store
from tonne.invoices.errors import InvoiceNotFound, InvoiceNotOpen
from tonne.invoices.import_statement import Booked, import_statement
from tonne.invoices.mail import compose_invoice_mail, usable
from tonne.invoices.model import Customer, Invoice, InvoiceStatus, Plan
from tonne.invoices.pdf import invoice_pdf
from tonne.invoices.reference import reference_of, references_in
from tonne.invoices.settle_invoice import settle_invoice
from tonne.invoices.transfer_store import Outcome, Transfer
from tonne.sheets.errors import quoted

_MODES = click.Choice([mode.value for mode in Mode])
_mode_of_number = click.option("--mode", type=_MODES, help="Whose number it is; a whole reference says so itself.")


@click.group()
def invoice() -> None:
    """List, settle, resend and export invoices."""


@invoice.command("list")
@click.option("--mode", type=_MODES, help="Only those of one mode.")
@click.option("--status", type=click.Choice([status.value for status in InvoiceStatus]), help="Only those that are so.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many of each mode.")
def list_(mode: str | None, status: str | None, limit: int) -> None:
    """List invoices, the newest first."""

    async def work(tx: Connection) -> tuple[list[Invoice], dict[str, Customer]]:
        found: list[Invoice] = []
        for one in Mode if mode is None else (Mode(mode),):
            wanted = None if status is None else InvoiceStatus(status)
            found += await invoice_store.list_invoices_any_account(tx, one, wanted, limit)
        organisations = sorted({each.scope.organisation_id for each in found if each.status is InvoiceStatus.OPEN})
        return found, {name: await invoice_store.find_customer(tx, name) for name in organisations}

    invoices, customers = run_in_transaction(work)
    rows = [
        (
            *(i.reference, i.status, i.total, str(i.due_on)),
            *map(_day, (i.mailed_at, i.reminded_at, i.settled_at)),
            *(i.scope.organisation_id, i.order_id),
        )
        for i in invoices
    ]
    heads = ("number", "status", "total", "due", "mailed", "reminded", "settled", "organisation", "order")
    print_table(heads, rows)
    for organisation_id, customer in customers.items():
        if not usable(customer.admins):
            click.echo(
                f"{organisation_id} has no admin who could get its invoices: name one with `tonne org add-admin`, then "
                "run `tonne invoice resend`.",
                err=True,
            )


@invoice.command("show")
@click.argument("number")
@_mode_of_number
def show_(number: str, mode: str | None) -> None:
    """Show an invoice and what came in for it. NUMBER is 123 or TN-LIVE-000123."""

    async def work(tx: Connection) -> tuple[Invoice, list[Transfer]]:
        found = await _find(tx, number, mode)
        return found, await transfer_store.list_transfers(tx, found.scope, found.order_id)

    found, transfers = run_in_transaction(work)
    facts = [
        ("number", found.reference),
        ("status", found.status.value),
        ("total", found.total),
        ("issued", str(found.issued_on)),
        ("due", str(found.due_on)),
        ("mailed", _moment(found.mailed_at)),
        ("reminded", _moment(found.reminded_at)),
        ("settled", _moment(found.settled_at) + (f" by {found.settled_by}" if found.settled_by else "")),
        ("order", found.order_id),
        ("account", found.scope.account_id),
        ("organisation", found.scope.organisation_id),
    ]
    for name, value in facts:
        click.echo(f"{name:<14}{value}")
    if transfers:
        click.echo()
        rows = [(str(t.line.booked_on), t.line.amount, quoted(t.line.payer), t.outcome) for t in transfers]
        print_table(("booked", "amount", "payer", "outcome"), rows)


@invoice.command("settle")
@click.argument("number")
@_mode_of_number
@click.option("--note", default="", help="How you know that it is paid, for the audit log.")
def settle(number: str, mode: str | None, note: str) -> None:
    """Say that an invoice is paid; its order then goes on. NUMBER is 123 or TN-LIVE-000123."""

    async def work(tx: Connection) -> Invoice:
        found = await _find(tx, number, mode)
        await settle_invoice(tx, found.scope, found.order_id, actor=ACTOR, now=utc_now(), note=note)
        return found

    settled = run_in_transaction(work)
    click.echo(f"{settled.reference} over {settled.total} is paid, and order {settled.order_id} goes on.")


@invoice.command("resend")
@click.argument("number")
@_mode_of_number
def resend(number: str, mode: str | None) -> None:
    """Mail an invoice once more to the organisation's admins. NUMBER is 123 or TN-LIVE-000123."""
    with plain_failures():
        settings = settings_from_environment()

    async def read(tx: Connection) -> tuple[Invoice, Customer]:
        found = await _find(tx, number, mode)
        if found.status is InvoiceStatus.CANCELLED:
            raise InvoiceNotOpen(f"Invoice {found.reference} is cancelled: nobody should pay it any more.")
        if found.mailed_at is None:
            raise InvoiceNotOpen(f"Invoice {found.reference} is about to be mailed: check that `tonne worker` runs.")
        return found, await invoice_store.find_customer(tx, found.scope.organisation_id)

    found, customer = run_in_transaction(read)
    organisation_id, recipients = found.scope.organisation_id, usable(customer.admins)
    if not recipients:
        raise click.ClickException(f"{organisation_id} has no admin: name one with `tonne org add-admin`.")
    record = found.read_record()
    cancel_on = Plan.from_settings(settings).cancel_on(found, utc_now().astimezone(UTC).date())
    message = compose_invoice_mail(settings, recipients, record, pdf=invoice_pdf(record), cancel_on=cancel_on)

    async def send(tx: Connection) -> None:
        await enqueue(tx, organisation_id, recipients, message)
        await audit.record(
            tx,
            organisation_id,
            actor=ACTOR,
            action="invoice.resent",
            subject_id=found.order_id,
            at=utc_now(),
            reference=found.reference,
            recipients=recipients,
        )

    run_in_transaction(send)
    click.echo(f"{found.reference} goes out to {', '.join(recipients)}.")


@invoice.command("pdf")
@click.argument("number")
@_mode_of_number
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write."
)
def pdf(number: str, mode: str | None, output: Path) -> None:
    """Write an invoice to a PDF file. NUMBER is 123 or TN-LIVE-000123."""
    found = run_in_transaction(lambda tx: _find(tx, number, mode))
    try:
        output.write_bytes(invoice_pdf(found.read_record()))
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from error


@invoice.command("import-statement")
@FILE
@click.option("--mode", type=_MODES, required=True, help="Mode of the invoices that the transfers pay.")
def import_(file: Path, mode: str) -> None:
    """Import a bank statement and settle the invoices it pays.

    The columns are booked_on, amount, currency, payer and reference. Lines that were imported before are skipped, so
    statements may overlap.

    If the file has errors, all of them are listed, nothing is imported, and the exit code is 1.
    """
    upload = read_file(file)
    with reported_errors():
        booked = run_in_transaction(lambda tx: import_statement(tx, Mode(mode), upload, actor=ACTOR, now=utc_now()))
    _print_report(booked)


def _print_report(booked: list[Booked]) -> None:
    rows = [
        (str(b.line.line), b.outcome, b.reference or "-", b.line.amount, quoted(b.line.payer), b.message)
        for b in booked
    ]
    if rows:
        print_table(("line", "outcome", "invoice", "amount", "payer", ""), rows)
        click.echo()
    counts = Counter(each.outcome for each in booked)
    parts = [f"{counts[outcome]} {outcome.replace('_', ' ')}" for outcome in Outcome if counts[outcome]]
    click.echo(f"{len(booked)} {'line' if len(booked) == 1 else 'lines'}{': ' if parts else '.'}{', '.join(parts)}")


async def _find(tx: Connection, number: str, mode: str | None) -> Invoice:
    names = [reference_of(Mode(mode), int(number))] if mode and number.isdecimal() else _references(number)
    found = await invoice_store.find_by_references_any_account(tx, names)
    if len(found) != 1:
        raise InvoiceNotFound
    if mode is not None and found[0].scope.mode != mode:
        raise click.ClickException(f"{found[0].reference} is not an invoice of {mode} mode.")
    return found[0]


def _references(text: str) -> list[str]:
    if text.isdecimal():
        raise click.ClickException("There is one series of numbers for each mode: give --mode, or the whole reference.")
    names = [name for place in references_in(text) for name in place]
    return names if len(names) == 1 else []


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else str(moment.astimezone(UTC).date())


def _moment(moment: datetime | None) -> str:
    return "-" if moment is None else to_wire(moment)

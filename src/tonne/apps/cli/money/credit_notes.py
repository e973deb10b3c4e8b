"""tonne invoice credit, tonne invoice credit-pdf"""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_connected, run_in_transaction
from tonne.apps.cli.parameters import MODE, parse_amount
from tonne.apps.cli.supply.signed_files import render_invoice
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.credit_notes.store import find_credit_note_any_account
from tonne.money.invoices.errors import CreditNoteNotFound
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now

MAX_REASON = 500


@click.command("credit")
@click.argument("number")
@click.argument("amount")
@click.option("--mode", type=MODE, help="Mode of the invoice. Not needed with a full reference.")
@click.option("--order", "order_id", help="The order to credit, if the invoice bills several.")
@click.option("--reason", required=True, help="Why, for the credit note and the audit log.")
def credit(number: str, amount: str, mode: str | None, order_id: str | None, reason: str) -> None:
    """Reduce an open invoice by AMOUNT with a credit note. NUMBER is 123 or TN-LIVE-000123.

    The order itself does not change. To take an order off its invoice, use `tonne order cancel`; to return money that
    was paid, `tonne order refund`.
    """
    reason = reason.strip()
    if not 1 <= len(reason) <= MAX_REASON:
        raise click.BadParameter(f"expected 1 to {MAX_REASON} characters", param_hint="--reason")

    async def work(tx: Connection) -> CreditNote:
        found = await find_by_number_any_account(tx, number, None if mode is None else Mode(mode))
        amount_minor = parse_amount(amount, found.currency, "AMOUNT")
        return await correct_invoice(tx, found, order_id, amount_minor, reason=reason, actor=ACTOR, now=utc_now())

    note = run_in_transaction(work)
    click.echo(f"Credit note {note.reference} for {note.total} is issued.")


@click.command("credit-pdf")
@click.argument("number")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write."
)
def credit_pdf(number: str, output: Path) -> None:
    """Write a credit note to a PDF file. NUMBER is CN-LIVE-000123."""

    async def work(connection: Connection, settings: Settings) -> bytes:
        found = await find_credit_note_any_account(connection, number.strip().upper())
        if found is None:
            raise CreditNoteNotFound("There is no such credit note. `tonne invoice show` lists those of an invoice.")
        return await render_invoice(connection, settings).credit_note(found.read_record())

    content = run_connected(work)
    try:
        output.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from error

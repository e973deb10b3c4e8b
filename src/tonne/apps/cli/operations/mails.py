"""tonne mail"""

from dataclasses import replace

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import EnumChoice
from tonne.apps.cli.table import printable
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail import outbox
from tonne.platform.documents.mail.retry_mail import discard_failed_mail_any_account, retry_failed_mail_any_account
from tonne.selling.accounts.lookup import require_organisation

COLUMNS: tuple[ValueColumn[outbox.StoredMail], ...] = (
    *columns("id", "state", "created_at: created"),
    ValueColumn("recipients", lambda m: m.recipients, head="to", shrinks=True),
    ValueColumn("subject", lambda m: _subject(m), shrinks=True),
    *columns("organisation_id: organisation", "reason", "attempts", "sent_at: sent", in_table=False),
)
FACTS: tuple[ValueColumn[outbox.StoredMail], ...] = (
    *(replace(column, in_table=True) for column in COLUMNS),
    ValueColumn("attachments", lambda m: _attachments(m)),
    ValueColumn("text", lambda m: _text(m), in_table=False),
)


@click.group()
def mail() -> None:
    """Look at mails in the outbox, and retry or discard failed ones."""


@mail.command("list")
@click.option("--org", "organisation_id", help="Show only mails of this organisation.")
@click.option("--state", type=EnumChoice(outbox.MailState), help="Show only mails in this state.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Number of mails.")
@output_options
def list_(organisation_id: str | None, state: outbox.MailState | None, limit: int, output: Output) -> None:
    """List mails, newest first.

    waiting: will be sent. sent: accepted by the mail server. failed: given up after the last attempt. discarded: failed
    and discarded by an operator. held: never sent, because test mode sends mail only to addresses of the organisation
    (see `tonne org allow-test-mail`).
    """
    found = run_in_transaction(_list, organisation_id, state, limit)
    output.print_rows(found, COLUMNS, empty="No mails.")


@mail.command("show")
@click.argument("mail_id")
@click.option("--raw", is_flag=True, help="Print the whole message, to save it as an .eml file.")
@output_options
def show(mail_id: str, raw: bool, output: Output) -> None:
    """Show a mail: its state, text and attachments."""
    found = run_in_transaction(outbox.require_mail_any_account, mail_id)
    if raw:
        click.echo(found.raw, nl=False)
        return
    output.print_object(found, FACTS)
    if output.format is Format.TABLE:
        click.echo()
        for line in _text(found).splitlines():
            click.echo(printable(line))


@mail.command("retry")
@click.argument("mail_id")
def retry(mail_id: str) -> None:
    """Send a failed mail again."""
    run_in_transaction(retry_failed_mail_any_account, mail_id, by=ACTOR.now())
    click.echo(f"{mail_id} will be sent again.")


@mail.command("discard")
@click.argument("mail_id")
def discard(mail_id: str) -> None:
    """Accept that a failed mail is never sent."""
    run_in_transaction(discard_failed_mail_any_account, mail_id, by=ACTOR.now())
    click.echo(f"{mail_id} is discarded.")


async def _list(
    tx: Connection, organisation_id: str | None, state: outbox.MailState | None, limit: int
) -> list[outbox.StoredMail]:
    if organisation_id is not None:
        await require_organisation(tx, organisation_id)
    return await outbox.list_mails_any_account(tx, organisation_id, state, limit)


def _subject(found: outbox.StoredMail) -> str:
    return str(found.message["Subject"] or "")


def _text(found: outbox.StoredMail) -> str:
    body = found.message.get_body(("plain",))
    return "" if body is None else str(body.get_content())


def _attachments(found: outbox.StoredMail) -> list[str]:
    return [part.get_filename() or part.get_content_type() for part in found.message.iter_attachments()]

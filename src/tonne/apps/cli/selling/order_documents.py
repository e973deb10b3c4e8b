"""tonne order rename, tonne order certificates and tonne order resend"""

from datetime import datetime

import click

from tonne.apps.cli.database import ACTOR, plain_failures, run_connected, run_for_order, settings_from_environment
from tonne.apps.cli.output import STATUS_STYLES, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import EMAIL, EnumChoice
from tonne.channels.checkout.order_pages.resend_order import OrderMail, resend_order
from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.orders.beneficiary import Beneficiary
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.model import BeneficiaryKind, OrderStatus
from tonne.selling.orders.scope_store import find_scope_any_account
from tonne.supply.certificates.store import StoredCertificate, list_of_order
from tonne.supply.retirements.rename_order import rename_order
from tonne.supply.retirements.schemas import MAX_REASON

COLUMNS: tuple[ValueColumn[StoredCertificate], ...] = (
    ValueColumn("number", lambda c: c.record.number),
    ValueColumn("state", lambda c: c.state.value, styles=STATUS_STYLES),
    ValueColumn("issued_at", lambda c: datetime.fromisoformat(c.record.issued_at), head="issued"),
    ValueColumn("beneficiary", lambda c: c.record.beneficiary, shrinks=True),
    *columns("replaced_by", "state_changed_at: until"),
    ValueColumn("state_reason", lambda c: c.state_reason, head="reason", shrinks=True),
    ValueColumn("is_public", lambda c: c.is_public, in_table=False),
)


@click.command("rename")
@click.argument("order_id")
@click.argument("name")
@click.option("--reason", required=True, help="Why, in one sentence. It is printed on a new certificate.")
@click.option("--person", is_flag=True, help="The name is private: not for registries and public pages.")
def rename(order_id: str, name: str, reason: str, person: bool) -> None:
    """Correct in whose name the certificate of an order is issued.

    Until the first credit is retired, the order and the work list get the new name: export the list again if you have
    exported it before. Once the order is complete, a new certificate replaces the old one.
    """
    reason = reason.strip()
    if not 1 <= len(reason) <= MAX_REASON or not reason.isprintable():
        message = f"expected 1 to {MAX_REASON} printable characters on one line"
        raise click.BadParameter(message, param_hint="--reason")
    with plain_failures():
        settings = settings_from_environment()
        kind = BeneficiaryKind.PERSON if person else BeneficiaryKind.ORGANISATION
        beneficiary = Beneficiary(check_name(name), kind)
    renamed = run_for_order(
        order_id, rename_order, beneficiary, reason=reason, settings=settings, actor=ACTOR, now=utc_now()
    )
    click.echo(f"The certificate of order {renamed.id} is in the name of {renamed.beneficiary}.")
    if renamed.status is OrderStatus.COMPLETE:
        click.echo("A new certificate replaces the old one: `tonne order certificates` lists both.")


@click.command("certificates")
@click.argument("order_id")
@output_options
def certificates(order_id: str, output: Output) -> None:
    """List the certificates of an order, the current one first."""
    found = run_for_order(order_id, list_of_order)
    output.print_rows(found, COLUMNS, empty="The order has no certificate yet.")


@click.command("resend")
@click.argument("order_ids", metavar="ORDER_ID...", nargs=-1, required=True)
@click.option(
    "--only",
    type=EnumChoice(OrderMail),
    multiple=True,
    help="Send only this mail. Repeat for more. [default: all that there are]",
)
@click.option("--to", "email", type=EMAIL, help="Correct the customer's address, and send the mails there.")
def resend(order_ids: tuple[str, ...], only: tuple[OrderMail, ...], email: str | None) -> None:
    """Send the mails about orders again.

    The receipt and the certificate go to the customer, the invoice to the admins of the organisation. With --to, the
    order keeps the corrected address. Of several orders, those without a mail to send are listed, and the exit code is
    1.
    """
    if email is not None and len(order_ids) > 1:
        raise click.UsageError("--to corrects the address of one order: name only one.")
    requested = only or tuple(OrderMail)

    async def send(connection: Connection, settings: Settings, order_id: str) -> list[str]:
        async with connection.transaction():
            scope = await find_scope_any_account(connection, order_id)
            if scope is None:
                raise OrderNotFound(f"There is no order {order_id}. Find it with `tonne order list TERM`.")
            return await resend_order(
                connection, scope, order_id, requested, email=email, settings=settings, actor=ACTOR, now=utc_now()
            )

    async def work(connection: Connection, settings: Settings) -> tuple[list[str], list[str]]:
        sent, failed = list[str](), list[str]()
        with progress("Preparing mails", len(order_ids)) as advance:
            for order_id in order_ids:
                try:
                    sent += await send(connection, settings, order_id)
                except TonneError as error:
                    if len(order_ids) == 1:
                        raise
                    failed.append(f"{order_id}: {error}")
                advance(1)
        return sent, failed

    sent, failed = run_connected(work)
    for each in sent:
        click.echo(f"Will be mailed: {each}.")
    for each in failed:
        click.echo(each, err=True)
    if failed:
        raise click.ClickException(f"{len(failed):,} of {len(order_ids):,} orders: nothing was sent.")

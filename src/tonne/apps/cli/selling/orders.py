"""tonne order"""

from datetime import datetime
from typing import Any

import click
import msgspec

from tonne.apps.cli.database import (
    ACTOR,
    plain_failures,
    run_connected,
    run_for_order,
    run_in_transaction,
    settings_from_environment,
)
from tonne.apps.cli.money.refunds import refund_order
from tonne.apps.cli.output import (
    STATUS_STYLES,
    Format,
    MoneyColumn,
    Output,
    Table,
    ValueColumn,
    columns,
    output_options,
)
from tonne.apps.cli.parameters import EMAIL, MODE, MOMENT, REASON, EnumChoice
from tonne.apps.lookup.find_orders import FoundOrder, find_keys_any_account, list_newest_any_account
from tonne.apps.lookup.order_view import ShownOrder, collect_timeline, describe_order
from tonne.channels.checkout.order_pages.resend_order import OrderMail, resend_order
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace, utc_now
from tonne.platform.values.errors import TonneError
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.accounts.directory import Names, find_names_any_account
from tonne.selling.accounts.lookup import require_account_any_account, require_organisation
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, OrderStatus, PaymentState
from tonne.selling.orders.order_filter import OrderFilter
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
    renamed = run_for_order(order_id, rename_order, beneficiary, reason=reason, settings=settings, by=ACTOR.now())
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
                connection, scope, order_id, requested, email=email, settings=settings, by=ACTOR.now()
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


# What `tonne order show` prints.
FACTS: tuple[ValueColumn[ShownOrder], ...] = (
    *columns("order.id: order", "order.status", "order.payment_state: money", "waits_for", "next_by: next step by"),
    *columns("order.failure_reason", "order.cancellation_reason", "order.scope.mode", "order.created_at: received"),
    *columns("placed_by", "quantity_grams: tonnes"),
    MoneyColumn("total_cost", lambda o: o.total_cost_minor, lambda o: o.order.currency, head="total"),
    MoneyColumn("tax", lambda o: o.order.tax.tax_minor, lambda o: o.order.currency),
    MoneyColumn("amount_due", lambda o: o.order.amount_due_minor, lambda o: o.order.currency),
    MoneyColumn("refunded_amount", lambda o: o.order.refunded_minor, lambda o: o.order.currency, head="refunded"),
    ValueColumn("payment_method", lambda o: o.order.payment_method, head="payment"),
    ValueColumn("invoice", lambda o: o.invoice and o.invoice.reference, show=lambda o: o.invoice_state),
    *columns("order.beneficiary", "order.email: customer", "order.idempotency_key"),
    *columns("order.external_id", "order.external_id_verified", "order.reference"),
    ValueColumn("metadata", lambda o: msgspec.json.decode(o.order.metadata, type=dict[str, msgspec.Raw])),
    ValueColumn("certificate", lambda o: o.order.certificate_url),
    ValueColumn("account_name", lambda o: o.names.of(o.order.scope.account_id), head="account name"),
    ValueColumn("account_id", lambda o: o.order.scope.account_id, head="account"),
    ValueColumn("organisation_name", lambda o: o.names.of(o.order.scope.organisation_id), in_table=False),
    ValueColumn("organisation_id", lambda o: o.order.scope.organisation_id, head="organisation"),
)
TIMELINE: tuple[ValueColumn[TimelineEntry], ...] = (
    *columns("at: time", "kind: what"),
    *columns("text: happened", "actor: by", shrinks=True),
    *columns("subject_id", "is_planned", in_table=False),
)


@click.group()
def order() -> None:
    """Find and show orders, and cancel them on behalf of a client."""


@order.command("list")
@click.argument("term", required=False)
@click.option("--mode", type=MODE, help="Only orders of this mode.")
@click.option("--status", type=EnumChoice(OrderStatus), help="Only orders of this status.")
@click.option("--payment-state", type=EnumChoice(PaymentState), help="Only orders in this state.")
@click.option("--org", "organisation_id", metavar="ID", help="Only orders of this organisation.")
@click.option("--account", "account_id", metavar="ID", help="Only orders of this account.")
@click.option("--email", help="Only orders of the customer with this address.")
@click.option("--reference", "idempotency_key", help="Only the orders with this idempotency key.")
@click.option("--metadata", "metadata_part", help="Only orders whose metadata contains this text.")
@click.option("--since", "created_after", type=MOMENT, help="Only orders received from this time on.")
@click.option("--until", "created_before", type=MOMENT, help="Only orders received before this time.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@output_options
def list_(
    term: str | None, limit: int, output: Output, *, idempotency_key: str | None, email: str | None, **filters: Any
) -> None:
    """List the newest orders, or those that TERM names.

    TERM is an id, an e-mail address, an idempotency key, the number of a certificate or an invoice, or the reference of
    a charge or a transfer. An id may be the order's, or that of its charge, invoice, transfer or checkout. If it is
    none of these, TERM is searched in the metadata, where clients keep their own references.
    """

    async def work(tx: Connection) -> tuple[list[FoundOrder], Names]:
        requested = msgspec.convert(filters, OrderFilter)
        if requested.organisation_id is not None:
            await require_organisation(tx, requested.organisation_id)
        if requested.account_id is not None:
            account = await require_account_any_account(tx, requested.account_id)
            requested = replace(requested, organisation_id=requested.organisation_id or account.scope.organisation_id)
        found = await _search(tx, (term, idempotency_key, email), requested, limit + 1)
        return found, await find_names_any_account(tx, [each.account_id for each in found])

    found, names = run_in_transaction(work)
    output.print_rows(found[:limit], _columns(names), empty="No order matches.")
    if output.format is Format.TABLE and len(found) > limit:
        click.echo(f"There are more: these are the newest {limit:,}. Use --limit or --until.", err=True)


async def _search(
    tx: Connection, terms: tuple[str | None, str | None, str | None], requested: OrderFilter, limit: int
) -> list[FoundOrder]:
    """`terms` are any name of an order, an idempotency key and an e-mail address."""
    term, idempotency_key, email = terms
    named = [set(await find_keys_any_account(tx, each.strip())) for each in terms if each is not None]
    if term is not None and not named[0] and requested.metadata_part is None:
        # No index has the client's own reference.
        requested, named = replace(requested, metadata_part=term.strip()), named[1:]
    keys = sorted(set.intersection(*named)) if named else None
    return [
        each
        for each in await list_newest_any_account(tx, requested, limit, keys)
        if (idempotency_key is None or each.idempotency_key == idempotency_key)
        and (email is None or (each.email or "").lower() == email.strip().lower())
    ]


def _columns(names: Names) -> tuple[ValueColumn[FoundOrder], ...]:
    return (
        *columns("id: order", "status", "created_at: received", "quantity_grams: tonnes", "total_cost_minor: total"),
        ValueColumn("account_name", lambda o: names.of(o.account_id), head="account", shrinks=True),
        ValueColumn("payment_state", lambda o: o.payment_state, head="money", styles=STATUS_STYLES),
        ValueColumn("email", lambda o: o.email, head="customer", shrinks=True),
        *columns("mode", "payment_method: payment"),
        MoneyColumn("amount_due", lambda o: o.amount_due_minor, lambda o: o.currency, in_table=False),
        MoneyColumn("refunded_amount", lambda o: o.refunded_minor, lambda o: o.currency, in_table=False),
        *columns("beneficiary", "idempotency_key", "offset_link_id", in_table=False),
        ValueColumn("metadata", lambda o: msgspec.json.decode(o.metadata, type=dict[str, msgspec.Raw]), in_table=False),
        *columns("account_id", "organisation_id", in_table=False),
    )


@order.command("show")
@click.argument("order_id")
@output_options
def show(order_id: str, output: Output) -> None:
    """Show an order, its timeline and what it waits for."""
    settings = settings_from_environment()

    async def work(tx: Connection) -> tuple[ShownOrder, list[TimelineEntry]]:
        scope = await find_scope_any_account(tx, order_id)
        found = None if scope is None else await load_order(tx, scope, order_id)
        if found is None:
            raise OrderNotFound(f"There is no order {order_id}. Find it with `tonne order list TERM`.")
        return await describe_order(tx, found, settings, utc_now()), await collect_timeline(tx, found)

    found, timeline = run_in_transaction(work)
    output.print_object(found, FACTS, [Table("timeline", timeline, TIMELINE)])


@order.command("cancel")
@click.argument("order_id")
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log and the mail about the invoice.")
@click.option("--refund", is_flag=True, help="Also cancel an order that is paid, and refund what was paid.")
def cancel(order_id: str, *, reason: str, refund: bool) -> None:
    """Cancel an order that has no credits yet.

    A paid order is cancelled only with --refund. Its open invoice is cancelled too, and everyone who was mailed the
    invoice gets a mail with the reason. If a card is charged meanwhile, the charge is refunded. Once credits are
    allocated, no order can be cancelled: only a goodwill refund remains (`tonne order refund`).
    """
    settings = settings_from_environment()
    cancellation = Cancellation(reason=reason, with_refund=refund)
    cancelled = run_for_order(order_id, cancel_by_id, cancellation, settings=settings, by=ACTOR.now())
    click.echo(f"Order {cancelled.id} is cancelled.")


for _command in (resend, rename, certificates, refund_order):
    order.add_command(_command)

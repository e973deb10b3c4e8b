"""tonne order rename, tonne order certificates"""

from datetime import datetime

import click

from tonne.apps.cli.database import ACTOR, plain_failures, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import STATUS_STYLES, Output, ValueColumn, columns, output_options
from tonne.platform.db.database import Connection
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.orders.beneficiary import Beneficiary
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.model import BeneficiaryKind, Order, OrderStatus
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

    async def work(tx: Connection) -> Order:
        scope = await find_scope_any_account(tx, order_id)
        if scope is None:
            raise OrderNotFound
        return await rename_order(
            tx, scope, order_id, beneficiary, reason=reason, settings=settings, actor=ACTOR, now=utc_now()
        )

    renamed = run_in_transaction(work)
    click.echo(f"The certificate of order {renamed.id} is in the name of {renamed.beneficiary}.")
    if renamed.status is OrderStatus.COMPLETE:
        click.echo("A new certificate replaces the old one: `tonne order certificates` lists both.")


@click.command("certificates")
@click.argument("order_id")
@output_options
def certificates(order_id: str, output: Output) -> None:
    """List the certificates of an order, the current one first."""

    async def work(tx: Connection) -> list[StoredCertificate]:
        scope = await find_scope_any_account(tx, order_id)
        if scope is None:
            raise OrderNotFound
        return await list_of_order(tx, scope, order_id)

    output.print_rows(run_in_transaction(work), COLUMNS, empty="The order has no certificate yet.")

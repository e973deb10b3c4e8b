"""tonne org"""

from decimal import Decimal, InvalidOperation

import asyncpg
import click

from tonne.accounts import audit, store
from tonne.accounts.errors import FeeRateInvalid, OrganisationNotFound
from tonne.accounts.open_organisation import DEFAULT_FEE_RATE, check_fee_rate, open_organisation
from tonne.base.clock import to_wire, utc_now
from tonne.base.scope import Mode
from tonne.catalog.selection import resolve, storable
from tonne.catalog.store import load_catalogue
from tonne.cli.database import run_in_transaction
from tonne.cli.show import ACTOR, SELECTION, print_table, read_selection
from tonne.db.pool import Connection
from tonne.gateways.mail import is_mail_address


class _FeeRate(click.ParamType[Decimal]):
    name = "rate"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> Decimal:
        try:
            rate = Decimal(str(value))
            check_fee_rate(rate)
        except (InvalidOperation, FeeRateInvalid):
            self.fail(FeeRateInvalid.message)
        return rate


_FEE_RATE = _FeeRate()


MAX_ADDRESS = 1000


@click.group()
def org() -> None:
    """Organisations: the clients of this service."""


@org.command("create")
@click.argument("name")
@click.option(
    "--fee-rate",
    type=_FEE_RATE,
    default=str(DEFAULT_FEE_RATE),
    show_default=True,
    help="The service's part of what the customer pays.",
)
def create(name: str, fee_rate: Decimal) -> None:
    """Open an organisation called NAME, in both modes."""

    async def work(tx: Connection) -> str:
        return (await open_organisation(tx, name, fee_rate, actor=ACTOR, now=utc_now())).id

    click.echo(run_in_transaction(work))


@org.command("list")
def list_() -> None:
    """List all organisations."""
    found = run_in_transaction(store.list_organisations_any_account)
    print_table(
        ("id", "name", "fee rate", "created"),
        [(o.id, o.name, f"{float(o.fee_rate):g}", to_wire(o.created_at)) for o in found],
    )


@org.command("set-fee")
@click.argument("organisation_id")
@click.argument("fee_rate", type=_FEE_RATE)
def set_fee(organisation_id: str, fee_rate: Decimal) -> None:
    """Set the fee of an organisation; orders already placed keep theirs."""

    async def work(tx: Connection) -> None:
        if not await store.set_fee_rate(tx, organisation_id, fee_rate):
            raise OrganisationNotFound
        await audit.record(
            tx,
            organisation_id,
            actor=ACTOR,
            action="organisation.fee_set",
            subject_id=organisation_id,
            at=utc_now(),
            fee_rate=str(fee_rate),
        )

    run_in_transaction(work)


@org.command("set-address")
@click.argument("organisation_id")
@click.argument("line", nargs=-1)
def set_address(organisation_id: str, line: tuple[str, ...]) -> None:
    """Set the address that invoices to an organisation carry: one argument per LINE; none clears it."""
    address = "\n".join(part.strip() for part in line)
    if len(address) > MAX_ADDRESS:
        raise click.ClickException(f"An address has at most {MAX_ADDRESS} characters.")

    async def work(tx: Connection) -> None:
        if not await store.set_address(tx, organisation_id, address):
            raise OrganisationNotFound
        await audit.record(
            tx,
            organisation_id,
            actor=ACTOR,
            action="organisation.address_set",
            subject_id=organisation_id,
            at=utc_now(),
        )

    run_in_transaction(work)


@org.command("add-admin")
@click.argument("organisation_id")
@click.argument("email")
def add_admin(organisation_id: str, email: str) -> None:
    """Mail EMAIL when something of the organisation's needs a person, such as a receiver that fails for an hour."""
    if not is_mail_address(email):
        raise click.BadParameter("expected an address such as ops@example.com", param_hint="EMAIL")

    async def work(tx: Connection) -> None:
        try:
            await store.add_admin(tx, organisation_id, email, utc_now())
        except asyncpg.ForeignKeyViolationError as error:
            raise OrganisationNotFound from error
        await _record_admin(tx, organisation_id, "organisation.admin_added", email)

    run_in_transaction(work)


@org.command("remove-admin")
@click.argument("organisation_id")
@click.argument("email")
def remove_admin(organisation_id: str, email: str) -> None:
    """Mail EMAIL no more."""

    async def work(tx: Connection) -> None:
        if not await store.remove_admin(tx, organisation_id, email):
            raise click.ClickException(f"{email} is not an admin of {organisation_id}.")
        await _record_admin(tx, organisation_id, "organisation.admin_removed", email)

    run_in_transaction(work)


async def _record_admin(tx: Connection, organisation_id: str, action: str, email: str) -> None:
    await audit.record(
        tx, organisation_id, actor=ACTOR, action=action, subject_id=organisation_id, at=utc_now(), email=email
    )


@org.command("set-bundles")
@click.argument("organisation_id")
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), required=True, help="Of which mode.")
@click.argument("selection", nargs=-1, metavar=SELECTION)
def set_bundles(organisation_id: str, mode: str, selection: tuple[str, ...]) -> None:
    """Set which bundles an organisation's accounts buy by default; nothing clears the default."""

    async def work(tx: Connection) -> None:
        chosen = await check_selection(tx, Mode(mode), selection)
        if not await store.set_organisation_selection(tx, organisation_id, Mode(mode), chosen):
            raise OrganisationNotFound
        await audit.record(
            tx,
            organisation_id,
            actor=ACTOR,
            action="organisation.bundles_set",
            subject_id=organisation_id,
            at=utc_now(),
            mode=mode,
            selection=chosen,
        )

    run_in_transaction(work)


async def check_selection(tx: Connection, mode: Mode, words: tuple[str, ...]) -> list[dict[str, str]] | None:
    """The selection as it is stored, judged as strictly as a client's."""
    if not words:
        return None
    choices = read_selection(words)
    catalogue = await load_catalogue(tx, mode, "")
    if catalogue is None:
        raise click.ClickException(f"There is no {mode} catalogue yet: run `tonne catalog import` first.")
    resolve(choices, catalogue)
    return storable(choices)

"""tonne org"""

from decimal import Decimal, InvalidOperation

import asyncpg
import click

from tonne.accounts import audit, redirect_hosts, store
from tonne.accounts.errors import FeeRateInvalid, OrganisationNotFound
from tonne.accounts.model import Organisation
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


@org.command("show")
@click.argument("organisation_id")
def show(organisation_id: str) -> None:
    """Show an organisation, and the hosts to which its checkouts may send people."""

    async def work(tx: Connection) -> tuple[Organisation, frozenset[str]]:
        found = [each for each in await store.list_organisations_any_account(tx) if each.id == organisation_id]
        if not found:
            raise OrganisationNotFound
        return found[0], await redirect_hosts.list_hosts(tx, organisation_id)

    found, hosts = run_in_transaction(work)
    facts = [
        ("id", found.id),
        ("name", found.name),
        ("fee rate", f"{float(found.fee_rate):g}"),
        ("created", to_wire(found.created_at)),
        ("redirects to", ", ".join(sorted(hosts)) or "-"),
    ]
    for name, value in facts:
        click.echo(f"{name:<14}{value}")


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


@org.command("allow-redirect")
@click.argument("organisation_id")
@click.argument("host")
def allow_redirect(organisation_id: str, host: str) -> None:
    """Let the organisation's checkouts send people to HOST afterwards, such as shop.example.com or localhost."""

    async def work(tx: Connection) -> str:
        allowed = redirect_hosts.read_host(host)
        try:
            await redirect_hosts.allow_host(tx, organisation_id, allowed, utc_now())
        except asyncpg.ForeignKeyViolationError as error:
            raise OrganisationNotFound from error
        return await _record_host(tx, organisation_id, "organisation.redirect_allowed", allowed)

    click.echo(f"Checkouts may send people to {run_in_transaction(work)}.")


@org.command("forbid-redirect")
@click.argument("organisation_id")
@click.argument("host")
def forbid_redirect(organisation_id: str, host: str) -> None:
    """Send nobody to HOST any more, also from links that name it."""

    async def work(tx: Connection) -> str:
        forbidden = redirect_hosts.read_host(host)
        if not await redirect_hosts.forbid_host(tx, organisation_id, forbidden):
            spelt = redirect_hosts.spell_host(forbidden)
            raise click.ClickException(f"{spelt} is not a redirect host of {organisation_id}.")
        return await _record_host(tx, organisation_id, "organisation.redirect_forbidden", forbidden)

    click.echo(f"Checkouts send nobody to {run_in_transaction(work)} any more.")


async def _record_host(tx: Connection, organisation_id: str, action: str, host: redirect_hosts.Host) -> str:
    spelt = redirect_hosts.spell_host(host)
    await audit.record(
        tx, organisation_id, actor=ACTOR, action=action, subject_id=organisation_id, at=utc_now(), host=spelt
    )
    return spelt


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
        raise click.ClickException(f"There is no {mode} catalogue yet: run `tonne catalogue import` first.")
    resolve(choices, catalogue)
    return storable(choices)

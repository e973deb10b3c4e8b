"""tonne org"""

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import BUNDLE_CHOICE, EMAIL, FEE_RATE, MODE
from tonne.apps.cli.selling.closing import close_organisation_command, reopen_organisation_command
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import TaxTreatment, format_rate, format_scaled, parse_decimal
from tonne.platform.values.context import Mode
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.selling.accounts import store
from tonne.selling.accounts.limit_store import find_organisation_closed
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.accounts.model import Organisation, OrganisationDetails
from tonne.selling.accounts.organisations import change_organisation
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.selling.accounts.tax.tax_profile import TaxProfile, read_tax_profile, set_tax_profile
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.catalogue.set_default_selection import set_organisation_default

DEFAULT = "default"
TAX_FACTS: tuple[ValueColumn[TaxProfile], ...] = (
    ValueColumn(
        "treatment",
        lambda o: o.treatment,
        show=lambda o: o.treatment or f"{DEFAULT} (see the setting tax_treatment)",
    ),
    ValueColumn(
        "rate",
        lambda o: None if o.rate is None else format_rate(Fraction(o.rate)),
        show=lambda o: "-" if o.rate is None else f"{format_rate(Fraction(o.rate))} %",
    ),
    *columns(
        "country", "tax_id", "legal_note", "buyer_reference", "street", "postcode", "city", "einvoice", "endpoint"
    ),
)


class _TaxRate(click.ParamType[Decimal]):
    name = "per cent"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> Decimal:
        per_cent = value if isinstance(value, Decimal) else parse_decimal(str(value))
        if per_cent is None:
            self.fail("expected a number of per cent such as 19 or 8.1")
        return per_cent / 100


@click.command("tax")
@click.argument("organisation_id")
@click.option(
    "--treatment",
    type=click.Choice([DEFAULT, *(treatment.value for treatment in TaxTreatment)]),
    help="How new orders are taxed. default: as the seller's settings say.",
)
@click.option("--rate", type=_TaxRate(), help="Rate of the treatment standard.")
@click.option("--country", help="Country of the organisation, such as DE.")
@click.option("--tax-id", help="VAT number of the organisation. Validated where the country's rules are known.")
@click.option("--legal-note", help="Note on invoices, instead of the seller's note for the treatment.")
@click.option("--buyer-reference", help="Purchase order number or Leitweg-ID that invoices state.")
@click.option("--street", help="Street and number in electronic invoices.")
@click.option("--postcode", help="Postcode in electronic invoices.")
@click.option("--city", help="City in electronic invoices.")
@click.option(
    "--einvoice", type=click.Choice(["", *(each.value for each in EInvoiceFormat)]), help="UBL beside the PDF."
)
@click.option("--endpoint", help="Electronic address of the organisation, such as 9930:DE811569869.")
@output_options
def tax(organisation_id: str, treatment: str | None, rate: Decimal | None, output: Output, **texts: str | None) -> None:
    """Show or change an organisation's tax profile.

    Changes the fields that are given. "" clears a field. Orders that have a price keep their tax.
    """
    changes: dict[str, Any] = {name: text or None for name, text in texts.items() if text is not None}
    if treatment is not None:
        changes["treatment"] = None if treatment == DEFAULT else TaxTreatment(treatment)
    if rate is not None:
        changes["rate"] = rate
    if changes.get("einvoice"):
        changes["einvoice"] = EInvoiceFormat(changes["einvoice"])
    if changes:
        found = run_in_transaction(set_tax_profile, organisation_id, changes, by=ACTOR.now())
    else:
        found = run_in_transaction(read_tax_profile, organisation_id)
    output.print_object(found, TAX_FACTS)


COLUMNS: tuple[ValueColumn[Organisation], ...] = (
    ValueColumn("id", lambda o: o.id),
    ValueColumn("name", lambda o: o.name, shrinks=True),
    ValueColumn("fee_rate", lambda o: _spell(o.fee_rate), align_right=True),
    ValueColumn("created_at", lambda o: o.created_at, head="created"),
)
FACTS: tuple[ValueColumn[OrganisationDetails], ...] = (
    *columns("organisation.id", "organisation.name"),
    ValueColumn("fee_rate", lambda o: _spell(o.organisation.fee_rate)),
    ValueColumn("created_at", lambda o: o.organisation.created_at, head="created"),
    ValueColumn(
        "address", lambda o: o.address.split("\n") if o.address else [], show=lambda o: o.address or "-", has_lines=True
    ),
    *columns("admins", "redirect_hosts: redirects to"),
    ValueColumn(
        "test_mail_addresses",
        lambda o: o.test_mail_addresses,
        head="test mail to",
        show=lambda o: ", ".join(["admins", *o.test_mail_addresses]),
    ),
)


@click.group()
def org() -> None:
    """Manage organisations, the clients of this service."""


org.add_command(tax)


org.add_command(close_organisation_command)
org.add_command(reopen_organisation_command)


@org.command("create")
@click.argument("name")
@click.option(
    "--fee-rate",
    type=FEE_RATE,
    default=str(DEFAULT_FEE_RATE),
    show_default=True,
    help="The service's share of what the customer pays.",
)
def create(name: str, fee_rate: Decimal) -> None:
    """Create an organisation called NAME and print its id."""
    click.echo(run_in_transaction(open_organisation, name, fee_rate, by=ACTOR.now()).id)


@org.command("list")
@output_options
def list_(output: Output) -> None:
    """List all organisations."""
    found = run_in_transaction(store.list_organisations_any_account)
    output.print_rows(found, COLUMNS, empty="No organisations. Create one with `tonne org create`.")


@org.command("show")
@click.argument("organisation_id")
@output_options
def show(organisation_id: str, output: Output) -> None:
    """Show an organisation, its admins and its hosts."""

    async def work(tx: Connection) -> tuple[OrganisationDetails, datetime | None]:
        return await require_organisation(tx, organisation_id), await find_organisation_closed(tx, organisation_id)

    found, closed_at = run_in_transaction(work)
    closed: ValueColumn[OrganisationDetails] = ValueColumn("closed_at", lambda _: closed_at, head="closed")
    output.print_object(found, [*FACTS, closed])


@org.command("set-fee")
@click.argument("organisation_id")
@click.argument("fee_rate", type=FEE_RATE)
def set_fee(organisation_id: str, fee_rate: Decimal) -> None:
    """Set an organisation's fee rate. Orders placed earlier keep theirs."""
    run_in_transaction(change_organisation.set_fee_rate, organisation_id, fee_rate, by=ACTOR.now())
    click.echo(f"New orders of {organisation_id} have the fee rate {_spell(Fraction(fee_rate))}.")


@org.command("set-address")
@click.argument("organisation_id")
@click.argument("line", nargs=-1)
def set_address(organisation_id: str, line: tuple[str, ...]) -> None:
    """Set the billing address, one argument per LINE. Give none to clear it."""
    address = "\n".join(part.strip() for part in line)
    run_in_transaction(change_organisation.set_address, organisation_id, address, by=ACTOR.now())
    click.echo(f"The address of {organisation_id} is {'set' if address else 'cleared'}.")


@org.command("add-admin")
@click.argument("organisation_id")
@click.argument("email", type=EMAIL)
def add_admin(organisation_id: str, email: str) -> None:
    """Send an organisation's invoices and alerts to EMAIL."""
    run_in_transaction(change_organisation.add_admin, organisation_id, email, by=ACTOR.now())
    click.echo(f"{email} is an admin of {organisation_id}.")


@org.command("remove-admin")
@click.argument("organisation_id")
@click.argument("email")
def remove_admin(organisation_id: str, email: str) -> None:
    """Stop sending invoices and alerts to EMAIL."""
    run_in_transaction(change_organisation.remove_admin, organisation_id, email, by=ACTOR.now())
    click.echo(f"{email} is no longer an admin of {organisation_id}.")


@org.command("allow-redirect")
@click.argument("organisation_id")
@click.argument("host")
def allow_redirect(organisation_id: str, host: str) -> None:
    """Allow checkouts to redirect to HOST (shop.example.com)."""
    allowed = run_in_transaction(change_organisation.allow_redirect, organisation_id, host, by=ACTOR.now())
    click.echo(f"Checkouts may redirect to {allowed}.")


@org.command("forbid-redirect")
@click.argument("organisation_id")
@click.argument("host")
def forbid_redirect(organisation_id: str, host: str) -> None:
    """Stop redirecting to HOST, also from links that name it."""
    forbidden = run_in_transaction(change_organisation.forbid_redirect, organisation_id, host, by=ACTOR.now())
    click.echo(f"Checkouts no longer redirect to {forbidden}.")


@org.command("allow-test-mail")
@click.argument("organisation_id")
@click.argument("email", type=EMAIL)
def allow_test_mail(organisation_id: str, email: str) -> None:
    """Send mail of test checkouts to EMAIL.

    Admins get it without this. Mail to all other addresses is held: `tonne mail list --state held` lists it.
    """
    run_in_transaction(change_organisation.allow_test_mail, organisation_id, email, by=ACTOR.now())
    click.echo(f"Test checkouts of {organisation_id} may send mail to {email}.")


@org.command("forbid-test-mail")
@click.argument("organisation_id")
@click.argument("email")
def forbid_test_mail(organisation_id: str, email: str) -> None:
    """Hold mail of test checkouts to EMAIL again."""
    run_in_transaction(change_organisation.forbid_test_mail, organisation_id, email, by=ACTOR.now())
    click.echo(f"Test checkouts of {organisation_id} no longer send mail to {email}.")


@org.command("set-bundles")
@click.argument("organisation_id")
@click.option("--mode", type=MODE, required=True, help="Set the default for live or for test orders.")
@click.argument("bundles", nargs=-1, type=BUNDLE_CHOICE, metavar="[BUNDLE_ID[=PERCENTAGE]]...")
def set_bundles(organisation_id: str, mode: Mode, bundles: tuple[BundleChoiceIn, ...]) -> None:
    """Set an organisation's default bundles. Give none to clear them."""
    run_in_transaction(set_organisation_default, organisation_id, mode, bundles, by=ACTOR.now())
    click.echo(f"The default bundles of {organisation_id} in {mode} mode are {'set' if bundles else 'cleared'}.")


def _spell(fee_rate: Fraction) -> str:
    """Exact: fee rates have at most 5 decimals."""
    return format_scaled(int(fee_rate * 100_000), 5).rstrip("0").rstrip(".")

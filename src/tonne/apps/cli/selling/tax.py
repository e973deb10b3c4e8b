"""tonne tax, tonne rates"""

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import FILE, read_file, reported_errors
from tonne.money.invoices.documents.seller_details import vat_id_of
from tonne.platform.values.amounts import DECIMALS, format_rate, parse_decimal
from tonne.selling.accounts.tax.tax_rates import TaxRate, import_tax_rates, list_tax_rates
from tonne.selling.accounts.tax.vat_checks import VatAnswer, VatCheck, VatOutcome, list_vat_checks, record_vat_check
from tonne.selling.catalogue.imports.ecb_rates import EcbFileInvalid, read_ecb_rates
from tonne.selling.catalogue.prices.reference_rates import (
    EURO,
    ReferenceRate,
    list_newest_rates,
    save_reference_rates,
)

_DECIDED = [VatOutcome.VALID.value, VatOutcome.INVALID.value]
_DAY = click.DateTime(["%Y-%m-%d"])
RATES: tuple[ValueColumn[TaxRate], ...] = (
    ValueColumn("country", lambda each: each.country),
    ValueColumn("rate", lambda each: format_rate(Fraction(each.rate)), head="per cent", align_right=True),
    *columns("valid_from", "source", "imported_at: imported"),
)
CHECKS: tuple[ValueColumn[VatCheck], ...] = columns(
    "checked_at: checked", "outcome", "consultation_number", "name", "address", "requester", "source", "checked_by: by"
)
REFERENCE: tuple[ValueColumn[ReferenceRate], ...] = columns("currency", "day", "rate: units per euro", "source")


@click.group()
def tax() -> None:
    """Rates of VAT by country, and checks of the VAT ids of customers."""


@tax.group("rates")
def tax_rates() -> None:
    """Standard rates of VAT by country."""


@tax_rates.command("import")
@FILE
def import_(file: Path) -> None:
    """Import rates from a CSV FILE.

    They replace those of its countries. The columns are country (such as DE), rate (in per cent), valid_from (such as
    2027-01-01) and source. Orders that have a price keep their rate.
    """
    with reported_errors():
        count = run_in_transaction(import_tax_rates, read_file(file), by=ACTOR.now())
    click.echo(f"{count} rates imported.")


@tax_rates.command("show")
@output_options
def show(output: Output) -> None:
    """Show the rates in use.

    Countries without imported rates have those of the package.
    """
    output.print_rows(run_in_transaction(list_tax_rates), RATES, empty="No rates.")


@tax.group("vat-check")
def vat_check() -> None:
    """Whether the VAT ids of customers are valid. Live invoices with reverse charge need it."""


@vat_check.command("record")
@click.argument("vat_id", metavar="VAT_ID")
@click.option("--outcome", type=click.Choice(_DECIDED), required=True, help="What the register says.")
@click.option("--consultation-number", help="The number that the register gave for the request.")
@click.option("--name", help="The name in the register.")
@click.option("--address", help="The address in the register.")
def record(vat_id: str, outcome: str, **texts: str | None) -> None:
    """Record what the register says about VAT_ID.

    Look up the number, such as FR83404833048, in the register of the EU. What you record counts from now on like an
    answer of the register. Waiting invoices are issued within a minute.
    """
    requester = vat_id_of(settings_from_environment())
    answer = VatAnswer(VatOutcome(outcome), texts["name"], texts["address"], texts["consultation_number"])
    run_in_transaction(record_vat_check, vat_id, requester, answer, by=ACTOR.now())
    click.echo(f"Recorded: {vat_id} is {outcome}.")


@vat_check.command("list")
@click.argument("vat_id", metavar="VAT_ID")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many to list.")
@output_options
def list_(vat_id: str, limit: int, output: Output) -> None:
    """List the checks of VAT_ID, newest first."""
    found = run_in_transaction(list_vat_checks, vat_id, limit)
    output.print_rows(found, CHECKS, empty=f"{vat_id} was never checked.")


@click.group()
def rates() -> None:
    """Reference rates for the tax of invoices in a foreign currency. Prices have rates of their own."""


@rates.command("import-ecb")
@FILE
@click.option("--since", type=_DAY, help="Import only days from this one on.")
def import_ecb(file: Path, since: datetime | None) -> None:
    """Import rates of the European Central Bank.

    FILE is eurofxref.zip, eurofxref-hist.zip, or the CSV file in it. Importing it again changes nothing.
    """
    content = read_file(file).content
    try:
        found = read_ecb_rates(content, None if since is None else since.date())
    except EcbFileInvalid as error:
        raise click.ClickException(f"{file} is no file of the European Central Bank: {error}.") from error
    saved = run_in_transaction(save_reference_rates, found, by=ACTOR.now())
    click.echo(f"{saved} new rates. The newest are of {max(each.day for each in found)}.")


@rates.command("set")
@click.argument("currency", type=click.Choice(sorted(DECIMALS.keys() - {EURO})), metavar="CURRENCY")
@click.argument("rate", metavar="UNITS_PER_EURO")
@click.option("--day", type=_DAY, required=True, help="The day that it applies to, such as 2026-11-19.")
@click.option("--source", required=True, help="Who publishes it, as invoices print it.")
def set_(currency: str, rate: str, day: datetime, source: str) -> None:
    """Set a rate that the European Central Bank does not publish."""
    number = parse_decimal(rate)
    if not number:
        raise click.BadParameter("expected how many units one euro is, such as 0.35", param_hint="UNITS_PER_EURO")
    given = ReferenceRate(currency, day.date(), Decimal(number), source.strip()[:100])
    run_in_transaction(save_reference_rates, [given], by=ACTOR.now())
    click.echo(f"One euro is {rate} {currency} on {given.day}.")


@rates.command("show")
@output_options
def show_rates(output: Output) -> None:
    """Show the newest rate of each currency."""
    empty = "No rates. Import those of the European Central Bank with `tonne rates import-ecb`."
    output.print_rows(run_in_transaction(list_newest_rates), REFERENCE, empty=empty)

"""tonne factors and tonne estimate"""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.apps.cli.output import print_table
from tonne.apps.cli.parameters import FILE, EnumChoice, options_of, read_file, reported_errors
from tonne.apps.cli.table import printable
from tonne.platform.values.amounts import MassUnit, parse_decimal
from tonne.platform.values.context import utc_now
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.factors.import_rows import import_factors
from tonne.selling.estimates.record_estimate import mass_in_grams, record_estimate
from tonne.selling.estimates.schemas import EstimateIn


@click.group()
def factors() -> None:
    """Import the emission factors that estimates are calculated with."""


@factors.command("import")
@FILE
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
def import_(file: Path, *, dry_run: bool) -> None:
    """Import emission factors from a CSV FILE: all or nothing.

    The columns are id, category, activity, unit, kg_co2e_per_unit, well_to_tank_kg_co2e_per_unit, region, year, source,
    licence and, optionally, source_code. A row whose id is known and whose values differ becomes a new version; rows
    that the file does not mention stay. Estimates keep the versions that they were calculated with.

    If the file has errors, all of them are listed, nothing is imported, and the exit code is 1.
    """
    with reported_errors():
        done = run_in_transaction(import_factors, read_file(file), by=ACTOR.now(), apply=not dry_run)
    changes = done.changes
    if dry_run:
        click.echo("Nothing was changed (--dry-run)." if changes else "The file would change nothing.")
    else:
        click.echo("Imported. Servers use the factors within seconds." if changes else "No changes.")
    click.echo()
    counts = (len(changes.new), len(changes.changed), changes.unchanged_count)
    print_table(("file", "new", "changed", "unchanged"), [(changes.file, *map(str, counts))])
    for name, values in (("Source", done.sources), ("Licence", done.licences)):
        for value in values:
            click.echo(f"{name}: {printable(value)}")


@click.group()
def estimate() -> None:
    """Record emission estimates to place orders for."""


@estimate.command("create")
@click.argument("account_id")
@click.argument("amount")
@click.argument("unit", type=EnumChoice(MassUnit))
@options_of(EstimateIn)
def create(account_id: str, amount: str, unit: MassUnit, description: str | None) -> None:
    """Record an emission of AMOUNT UNIT (g, kg or t) and print its id."""
    number = parse_decimal(amount)
    if number is None:
        raise click.BadParameter("expected a decimal such as 1.105697", param_hint="AMOUNT")
    try:
        mass_in_grams(number, unit)
    except MassInvalid as error:
        raise click.BadParameter(str(error), param_hint="AMOUNT") from error
    recorded = run_for_account(account_id, record_estimate, number, unit, description, now=utc_now())
    click.echo(recorded.id)
